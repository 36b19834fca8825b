//! Reads of this process's memory that fail at addresses that are not mapped.

use std::io::IoSliceMut;

use nix::sys::uio::{process_vm_readv, RemoteIoVec};
use nix::unistd::Pid;

/// Fills `into` from `address`. Returns whether all of it could be read.
pub fn read(address: u64, into: &mut [u8]) -> bool {
    let from = RemoteIoVec {
        base: address as usize,
        len: into.len(),
    };
    let wanted = into.len();
    process_vm_readv(Pid::this(), &mut [IoSliceMut::new(into)], &[from]) == Ok(wanted)
}

/// The word at an address.
pub fn read_word(address: u64) -> Option<u64> {
    let mut word = [0; 8];
    read(address, &mut word).then(|| u64::from_ne_bytes(word))
}

/// The bytes of a range, if all of them can be read.
pub fn bytes(from: u64, to: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(to.checked_sub(from)?).ok()?];
    read(from, &mut bytes).then_some(bytes)
}
