//! The signal that has killed a process of another parent, as its pidfd tells (PIDFD_GET_INFO, Linux 6.15). The parent
//! of a rank is its launcher, which tells it in a way of its own or not at all.
//!
//! # Safety
//! The kernel writes one `pidfd_info` at most: the request has its size. All its members may be zero.
#![allow(unsafe_code)]

use std::mem::zeroed;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The signal that has killed the process of a pidfd. None if the process ended otherwise, its parent has not waited
/// for it yet, or the kernel does not tell.
pub fn of(process: BorrowedFd<'_>) -> Option<i32> {
    let wanted = u64::from(libc::PIDFD_INFO_EXIT);
    // SAFETY: see the head.
    let mut info: libc::pidfd_info = unsafe { zeroed() };
    info.mask = wanted;
    // SAFETY: see the head; the descriptor is open.
    let told = unsafe { libc::ioctl(process.as_raw_fd(), libc::PIDFD_GET_INFO, &raw mut info) };
    let is_told = told == 0 && info.mask & wanted != 0;
    (is_told && libc::WIFSIGNALED(info.exit_code)).then(|| libc::WTERMSIG(info.exit_code))
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, FromRawFd, OwnedFd};
    use std::process::Command;

    use super::*;

    /// The signal of a shell that ends by this command, if the kernel tells it at all.
    fn signal_of(command: &str) -> Option<i32> {
        let mut shell = Command::new("sh").args(["-c", command]).spawn().unwrap();
        // SAFETY: pidfd_open(2); a new descriptor, or -1, which fails.
        let process = unsafe {
            let process = libc::syscall(libc::SYS_pidfd_open, shell.id(), 0);
            OwnedFd::from_raw_fd(i32::try_from(process).unwrap())
        };
        shell.wait().unwrap();
        of(process.as_fd())
    }

    #[test]
    fn tells_the_signal_and_no_exit_code() {
        assert_eq!(signal_of("exit 9"), None);
        let told = signal_of("kill -SEGV $$");
        let kernel = nix::sys::utsname::uname().unwrap();
        let release = kernel.release().to_string_lossy().into_owned();
        let mut numbers = release
            .split('.')
            .map(|number| number.parse::<u32>().unwrap_or(0));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let wanted = (version >= (6, 15)).then_some(libc::SIGSEGV);
        assert_eq!(told, wanted, "on {release}");
    }
}
