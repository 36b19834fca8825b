//! Memory of windows that other ranks on this node hold, mapped here for direct access.
//!
//! # Safety
//! A mapping is new, and nothing is read or written there by this half. The upper half, which owns it, removes it.
#![allow(unsafe_code)]

use core::num::NonZeroUsize;
use core::ptr::NonNull;
use std::fs::{self, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use nix::sys::mman::{mmap, munmap, MapFlags, ProtFlags};

use crate::console;

/// Variable that, with the value `library`, leaves the windows to the MPI library even where all members are on one
/// node.
const VARIABLE: &str = "STASIS_WINDOWS";

/// Whether members of a window may map the memory of others.
fn is_wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| match std::env::var(VARIABLE).as_deref() {
        Err(std::env::VarError::NotPresent) => true,
        Ok("library") => false,
        other => {
            let rank = launcher::rank().unwrap_or(0);
            console::say(
                rank,
                format_args!("{VARIABLE} is {other:?}, and can only be 'library'; it is ignored"),
            );
            true
        }
    })
}

/// [`contract::service::MapPeer`]
pub unsafe extern "C" fn map(process: i32, descriptor: i32, bytes: usize, mark: u64) -> usize {
    mapped(process, descriptor, bytes, mark).unwrap_or(0)
}

/// [`contract::service::UnmapPeer`]
pub unsafe extern "C" fn unmap(address: usize, bytes: usize) {
    if let Some(start) = NonNull::new(address as *mut core::ffi::c_void) {
        // SAFETY: a mapping of `map`, which nothing uses any more.
        let _ = unsafe { munmap(start, bytes) };
    }
}

/// Maps the memory; `None` if it is not what the other rank meant: its numbers may name another process where the ranks
/// are on several nodes, or in containers with process ids of their own.
fn mapped(process: i32, descriptor: i32, bytes: usize, mark: u64) -> Option<usize> {
    if !is_wanted() {
        return None;
    }
    let path = format!("/proc/{process}/fd/{descriptor}");
    // To open what is no memory might wait, or have effects.
    let target = fs::read_link(&path).ok()?;
    let target = target.as_os_str().as_bytes().strip_prefix(b"/memfd:")?;
    if !target.starts_with(contract::WINDOW_MEMORY.to_bytes()) {
        return None;
    }
    let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
    let mut begin = [0; size_of::<u64>()];
    file.read_exact_at(&mut begin, 0).ok()?;
    if u64::from_ne_bytes(begin) != mark || file.metadata().ok()?.len() < bytes as u64 {
        return None;
    }
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let length = NonZeroUsize::new(bytes)?;
    // SAFETY: a new mapping, at an address of the kernel's choice.
    let address = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, &file, 0) }.ok()?;
    Some(address.as_ptr() as usize)
}
