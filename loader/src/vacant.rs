//! Standard numbers (0, 1, 2) that the application has closed.
//!
//! Such a number stays vacant until the application opens something or duplicates something onto
//! it: nothing of the lower half may be there by then. So in the kernel's table it holds a
//! placeholder, which for reading, writing and polling is as good as nothing (EBADF, POLLNVAL).
//!
//! # Safety
//! Opening the placeholder passes a constant C string.
#![allow(unsafe_code)]

use crate::{fds, raw};
use core::sync::atomic::{AtomicI32, Ordering};

/// Descriptor of what is put at vacant numbers; -1 before there is one.
static PLACEHOLDER: AtomicI32 = AtomicI32::new(-1);

/// Opens the placeholder.
pub fn prepare() {
    let path = c"/".as_ptr() as usize;
    let flags = (libc::O_PATH | libc::O_CLOEXEC) as usize;
    // SAFETY: a C string, which is only read.
    let opened = unsafe { raw::syscall(libc::SYS_open as usize, [path, flags, 0, 0, 0, 0]) };
    PLACEHOLDER.store(opened as i32, Ordering::Relaxed);
}

/// Closes a standard number of the application so that it is vacant.
pub fn vacate(fd: i32) -> isize {
    let from = PLACEHOLDER.load(Ordering::Relaxed) as usize;
    let to = [from, fd as usize, libc::O_CLOEXEC as usize, 0, 0, 0];
    let result = raw::plain(libc::SYS_dup3, to);
    // Last: from here on another thread may be given the number.
    fds::disown(fd);
    if raw::is_err(result) {
        return raw::plain(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]);
    }
    0
}

/// Whether it is a standard number that is vacant.
pub fn is_vacant(fd: i32) -> bool {
    (0..3).contains(&fd) && !fds::is_owned(fd)
}

/// Gives a fresh descriptor the lowest vacant number from `least` on, as the kernel would have.
pub fn settle(fd: i32, least: i32) -> i32 {
    let below = least.max(0)..fd.min(3);
    let Some(number) = below.into_iter().find(|&number| fds::own(number)) else {
        return fd;
    };
    let of = |command: i32| [fd as usize, command as usize, 0, 0, 0, 0];
    let cloexec = raw::plain(libc::SYS_fcntl, of(libc::F_GETFD)) == libc::FD_CLOEXEC as isize;
    let flags = if cloexec { libc::O_CLOEXEC } else { 0 };
    let to = [fd as usize, number as usize, flags as usize, 0, 0, 0];
    if raw::is_err(raw::plain(libc::SYS_dup3, to)) {
        fds::disown(number);
        return fd;
    }
    raw::plain(libc::SYS_close, of(0));
    number
}
