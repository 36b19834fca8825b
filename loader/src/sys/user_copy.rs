//! Copies to and from the application's memory, at addresses that it has passed to a system call.
//!
//! An address may be wrong, and then the call returns EFAULT. So the kernel copies (`process_vm_readv`), as it would in
//! the call itself. If a container's policy forbids that call, the copy is made directly, and a wrong address is fatal.
//!
//! # Safety
//! Data is written to addresses that the application gave; `T` is plain data in all uses.
#![allow(unsafe_code)]

use super::syscall;
use core::ffi::CStr;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// The address was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault;

/// The process, or one whose memory this one shares. The kernel knows no shorter name for the caller's own memory.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Records the id of the process, at its start and in a forked child.
pub fn note_process() {
    PROCESS.store(syscall::getpid(), Ordering::Relaxed);
}

/// Copies bytes between a local and the application's memory; returns their number.
unsafe fn copy(nr: i64, local: usize, remote: usize, len: usize) -> Option<usize> {
    let (ours, theirs) = ([local, len], [remote, len]);
    let copy = |process: u32| {
        let (ours, theirs) = (ours.as_ptr() as usize, theirs.as_ptr() as usize);
        // SAFETY: the caller guarantees `len` bytes at the local; the kernel checks the other address.
        unsafe { syscall::raw(nr as usize, [process as usize, ours, 1, theirs, 1, 0]) }
    };
    let mut result = copy(PROCESS.load(Ordering::Relaxed));
    if syscall::is_err(result) && result != syscall::err(libc::EFAULT) {
        // A vfork child may not be allowed to name its parent.
        result = copy(syscall::getpid());
    }
    match result {
        n if n >= 0 => Some(n as usize),
        n if n == syscall::err(libc::EFAULT) => Some(0),
        _ => None,
    }
}

/// Copies bytes without the C library, which may use any vector register (`sys/vectors.rs`).
unsafe fn copy_directly(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller guarantees `len` bytes at both addresses. The direction flag is clear.
    unsafe {
        core::arch::asm!("rep movsb", inout("rsi") from => _, inout("rdi") to => _, inout("rcx") len => _,
            options(nostack, preserves_flags));
    }
}

/// Reads a value.
pub fn read<T: Copy>(address: usize) -> Result<T, Fault> {
    let mut value = MaybeUninit::<T>::uninit();
    let size = core::mem::size_of::<T>();
    // SAFETY: the local has that size; it is initialised when all of it was copied.
    unsafe {
        match copy(
            libc::SYS_process_vm_readv,
            value.as_mut_ptr() as usize,
            address,
            size,
        ) {
            Some(n) if n == size => Ok(value.assume_init()),
            Some(_) => Err(Fault),
            None => {
                copy_directly(address as *const u8, value.as_mut_ptr().cast(), size);
                Ok(value.assume_init())
            }
        }
    }
}

/// Reads pieces of 2 KiB until one is not readable; returns the number of words.
pub fn read_words(address: usize, into: &[AtomicUsize]) -> usize {
    const PIECE: usize = 256;
    let mut words = 0;
    for piece in into.chunks_exact(PIECE) {
        let Ok(read) = read::<[usize; PIECE]>(address + words * size_of::<usize>()) else {
            break;
        };
        for (word, value) in piece.iter().zip(read) {
            word.store(value, Ordering::Relaxed);
        }
        words += PIECE;
    }
    words
}

/// Writes a value.
pub fn write<T: Copy>(address: usize, value: T) -> Result<(), Fault> {
    write_slice(address, core::slice::from_ref(&value))
}

/// Writes bytes.
pub fn write_bytes(address: usize, bytes: &[u8]) -> Result<(), Fault> {
    write_slice(address, bytes)
}

fn write_slice<T: Copy>(address: usize, values: &[T]) -> Result<(), Fault> {
    let (from, len) = (values.as_ptr().cast::<u8>(), size_of_val(values));
    // SAFETY: the slice has that size; the application gave the other address to be overwritten.
    unsafe {
        match copy(libc::SYS_process_vm_writev, from as usize, address, len) {
            Some(n) if n == len => Ok(()),
            Some(_) => Err(Fault),
            None => {
                copy_directly(from, address as *mut u8, len);
                Ok(())
            }
        }
    }
}

/// A word shared by threads.
pub fn word(address: usize) -> Result<&'static AtomicU32, Fault> {
    if !address.is_multiple_of(core::mem::align_of::<AtomicU32>()) {
        return Err(Fault);
    }
    read::<u32>(address)?;
    // SAFETY: the word is aligned and was readable just now.
    Ok(unsafe { &*(address as *const AtomicU32) })
}

/// Path at an address; None if it is invalid (the kernel will return EFAULT).
pub fn path(address: usize) -> Option<&'static CStr> {
    const PAGE: usize = 4096;
    const LONGEST: usize = 4096;
    // Probes its first byte and the first of every page that it may reach into, until its NUL is found.
    let mut at = address;
    while at < address.checked_add(LONGEST)? {
        read::<u8>(at).ok()?;
        let next = (at & !(PAGE - 1)) + PAGE;
        // SAFETY: a byte of each of these pages was readable just now.
        let bytes = unsafe { core::slice::from_raw_parts(address as *const u8, next - address) };
        if let Ok(text) = CStr::from_bytes_until_nul(bytes) {
            return Some(text);
        }
        at = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_addresses_are_reported() {
        note_process();
        let value = 0x1234_5678_u32;
        assert_eq!(read::<u32>(&raw const value as usize), Ok(value));
        assert_eq!(read::<u32>(8), Err(Fault));
        let mut target = 0_u64;
        assert_eq!(write(&raw mut target as usize, 7_u64), Ok(()));
        assert_eq!(core::hint::black_box(target), 7);
        assert_eq!(write(CODE.as_ptr() as usize, 7_u64), Err(Fault));
        assert_eq!(path(c"/a/path".as_ptr() as usize), Some(c"/a/path"));
        assert_eq!(path(8), None);
    }

    static CODE: [u64; 4] = [1; 4];
}
