//! An anonymous mapping of the lower half's own.
//!
//! # Safety
//! The kernel chooses the address of a mapping. Its only owner unmaps it, once.
#![allow(unsafe_code)]

use std::io;

/// Private memory, of zeros at first; gone when dropped.
pub struct AnonymousMapping {
    /// First address.
    pub start: usize,
    /// Bytes.
    pub len: usize,
}

impl AnonymousMapping {
    /// Maps `len` bytes, which `protection` (mmap(2)) lets be used.
    ///
    /// # Errors
    /// That of mmap(2): memory or addresses are used up.
    pub fn new(len: usize, protection: i32) -> io::Result<AnonymousMapping> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a fresh mapping at a place of the kernel's choice.
        match unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, -1, 0) } {
            libc::MAP_FAILED => Err(io::Error::last_os_error()),
            at => Ok(AnonymousMapping {
                start: at as usize,
                len,
            }),
        }
    }
}

impl Drop for AnonymousMapping {
    fn drop(&mut self) {
        // SAFETY: made by `new`, and nothing refers to it.
        unsafe { libc::munmap(self.start as *mut libc::c_void, self.len) };
    }
}
