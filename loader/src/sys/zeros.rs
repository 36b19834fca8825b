//! Values and memory that consist of zeros at first.
//!
//! # Safety
//! Zeros are a value of each type here, which its declaration shows: integers, atomics and arrays of them.
#![allow(unsafe_code)]

use super::syscall;
use std::io;

/// A type for which all bytes zero are a valid value.
///
/// # Safety
/// That must be true.
pub unsafe trait Zeros: Sized {}

// SAFETY: structures of integers, some with pointers, which may be null.
unsafe impl Zeros for libc::stat {}
// SAFETY: as above.
unsafe impl Zeros for libc::statfs {}
// SAFETY: as above.
unsafe impl Zeros for libc::itimerspec {}
// SAFETY: as above.
unsafe impl Zeros for libc::itimerval {}
// SAFETY: as above.
unsafe impl Zeros for libc::siginfo_t {}
// SAFETY: as above, and an optional function.
unsafe impl Zeros for libc::sigaction {}

/// A value of zeros.
pub fn value<T: Zeros>() -> T {
    // SAFETY: zeros are a value of the type.
    unsafe { core::mem::zeroed() }
}

/// Mapped memory in a forked child.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum InChild {
    /// The child has a copy.
    Copied,
    /// The child has the same memory.
    Shared,
}

/// Maps zeroed memory for `count` values, for the life of the process. It does not use the C library.
pub fn map<T: Zeros>(count: usize, child: InChild) -> io::Result<&'static mut [T]> {
    const { assert!(align_of::<T>() <= 4096) };
    let bytes = count.saturating_mul(size_of::<T>());
    let flags = match child {
        InChild::Copied => libc::MAP_ANONYMOUS | libc::MAP_PRIVATE | libc::MAP_NORESERVE,
        InChild::Shared => libc::MAP_ANONYMOUS | libc::MAP_SHARED,
    };
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let args = [0, bytes, prot as usize, flags as usize, usize::MAX, 0];
    // SAFETY: the kernel chooses an address where nothing is. The mapping has room for the values, is used by the
    // result alone, and is never removed. Zeros are a value of the type.
    unsafe {
        let result = syscall::raw(libc::SYS_mmap as usize, args);
        match syscall::is_err(result) {
            true => Err(syscall::io_error(result)),
            false => Ok(core::slice::from_raw_parts_mut(result as *mut T, count)),
        }
    }
}
