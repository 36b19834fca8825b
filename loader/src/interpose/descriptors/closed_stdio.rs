//! Standard numbers (0, 1, 2) that the application has closed.
//!
//! Such a number stays vacant until the application opens a file or duplicates one onto it; no file of the lower half
//! may get it. So in the kernel's table it holds a placeholder (O_PATH), for which read, write and poll fail as for a
//! closed one (EBADF, POLLNVAL).

use super::fd_owner;
use crate::sys::syscall;
use core::sync::atomic::{AtomicI32, Ordering};

/// Descriptor of the placeholder for vacant numbers; -1 before it is opened.
static PLACEHOLDER: AtomicI32 = AtomicI32::new(-1);

/// Opens the placeholder.
pub fn prepare() {
    let opened = syscall::open(c"/", libc::O_PATH | libc::O_CLOEXEC);
    PLACEHOLDER.store(opened as i32, Ordering::Relaxed);
}

/// Closes a standard number of the application and makes it vacant.
pub fn vacate(fd: i32) -> isize {
    let from = PLACEHOLDER.load(Ordering::Relaxed) as usize;
    let to = [from, fd as usize, libc::O_CLOEXEC as usize, 0, 0, 0];
    let result = syscall::plain(libc::SYS_dup3, to);
    // This comes last: from here on another thread may get the number.
    fd_owner::disown(fd);
    if syscall::is_err(result) {
        return syscall::plain(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]);
    }
    0
}

/// Whether it is a vacant standard number.
pub fn is_vacant(fd: i32) -> bool {
    (0..3).contains(&fd) && !fd_owner::is_owned(fd)
}

/// Moves a fresh descriptor to the lowest vacant number from `least` on, as the kernel would have.
pub fn move_to_lowest(fd: i32, least: i32) -> i32 {
    let below = least.max(0)..fd.min(3);
    let Some(number) = below.into_iter().find(|&number| fd_owner::own(number)) else {
        return fd;
    };
    let of = |command: i32| [fd as usize, command as usize, 0, 0, 0, 0];
    let cloexec = syscall::plain(libc::SYS_fcntl, of(libc::F_GETFD)) == libc::FD_CLOEXEC as isize;
    let flags = if cloexec { libc::O_CLOEXEC } else { 0 };
    let to = [fd as usize, number as usize, flags as usize, 0, 0, 0];
    if syscall::is_err(syscall::plain(libc::SYS_dup3, to)) {
        fd_owner::disown(number);
        return fd;
    }
    syscall::plain(libc::SYS_close, of(0));
    number
}
