//! System calls on file descriptors, through the C library: for threads with the lower half's FS.
//!
//! # Safety
//! System calls on descriptors, whose memory is locals that live as long as the call. Descriptors that are wrapped as
//! owned were made by the call just before. `dup3` and `close` at a number are for callers that own that number.
#![allow(unsafe_code)]

use super::{c_library, syscall, zeros};
use nix::fcntl::OFlag;
use nix::sys::stat::Mode;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

/// Whether an open file with these flags can be written to.
pub fn writable(flags: i32) -> bool {
    flags & libc::O_PATH == 0 && flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// Open descriptors of the calling thread, in no order.
pub fn all_open() -> io::Result<Vec<i32>> {
    let mut numbers: Vec<i32> = Vec::new();
    for entry in std::fs::read_dir("/proc/thread-self/fd")? {
        let name = entry?.file_name();
        numbers.extend(name.to_str().and_then(|n| n.parse::<i32>().ok()));
    }
    // The list contains the descriptor by which it was read, which is closed now.
    numbers.retain(|&fd| fcntl(fd, libc::F_GETFD, 0).is_ok());
    Ok(numbers)
}

/// Result of a call that reports errors by -1 and errno.
pub fn checked(result: i32) -> io::Result<i32> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}

/// Owns a fresh descriptor that a call has returned.
///
/// # Safety
/// It must be a descriptor without another owner, or an error.
pub unsafe fn fresh(result: i32) -> io::Result<OwnedFd> {
    // SAFETY: the result is a descriptor without another owner, as the caller guarantees.
    checked(result).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

pub fn stat(fd: i32) -> io::Result<libc::stat> {
    let mut facts = zeros::value();
    checked(c_library::fstat(fd, &mut facts))?;
    Ok(facts)
}

/// Position of an open file; none if it has none.
pub fn position(fd: i32) -> Option<u64> {
    u64::try_from(c_library::lseek(fd, 0, libc::SEEK_CUR)).ok()
}

/// Reads the file from an offset on into the buffer; returns the number of bytes.
pub fn read_at(fd: i32, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &mut bytes[done..];
        // SAFETY: the kernel writes at most the length of the buffer.
        let read = unsafe {
            let at = (at + done as u64) as i64;
            libc::pread(fd, rest.as_mut_ptr().cast(), rest.len(), at)
        };
        match usize::try_from(read) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(_) => match io::Error::last_os_error() {
                why if why.kind() == io::ErrorKind::Interrupted => {}
                why => return Err(why),
            },
        }
    }
    Ok(done)
}

/// Makes an fcntl command that takes a number.
pub fn fcntl(fd: i32, command: i32, value: i32) -> io::Result<i32> {
    // SAFETY: the commands of all callers take a number, not a pointer.
    checked(unsafe { libc::fcntl(fd, command, value) })
}

/// Makes an fcntl command for a lock of a part of the file: F_SETLK and its relatives.
pub fn lock_region(fd: i32, command: i32, region: &mut libc::flock) -> io::Result<()> {
    use libc::{F_GETLK, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_SETLK, F_SETLKW};
    let commands = [
        F_GETLK,
        F_OFD_GETLK,
        F_OFD_SETLK,
        F_OFD_SETLKW,
        F_SETLK,
        F_SETLKW,
    ];
    assert!(commands.contains(&command), "no command for a lock");
    // SAFETY: these commands read and write the structure, for the time of the call.
    checked(unsafe { libc::fcntl(fd, command, &raw mut *region) }).map(drop)
}

/// Number of unread bytes.
pub fn waiting(fd: i32) -> io::Result<usize> {
    let mut bytes = 0;
    // SAFETY: FIONREAD writes one int to this local.
    checked(unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut bytes) })?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// Those of `events` that poll(2) reports now.
pub fn poll(fd: i32, events: i16) -> io::Result<i16> {
    let mut poll = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // SAFETY: the kernel reads and writes the one entry.
    checked(unsafe { libc::poll(&raw mut poll, 1, 0) })?;
    Ok(poll.revents)
}

/// `open`, with O_CLOEXEC.
pub fn open(path: &Path, flags: i32) -> io::Result<OwnedFd> {
    let flags = OFlag::from_bits_retain(flags | libc::O_CLOEXEC);
    Ok(nix::fcntl::open(
        path,
        flags,
        Mode::S_IRUSR | Mode::S_IWUSR,
    )?)
}

/// Opens the file of the descriptor `master` again, as a new open file.
pub fn open_again(master: i32, flags: i32) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{master}");
    open(Path::new(&path), kept_flags(flags))
}

/// Flags of F_GETFL with which an open file is opened again.
pub fn kept_flags(flags: i32) -> i32 {
    const KEPT: i32 = libc::O_ACCMODE
        | libc::O_APPEND
        | libc::O_NONBLOCK
        | libc::O_SYNC
        | libc::O_DSYNC
        | libc::O_DIRECT
        | libc::O_NOATIME
        | libc::O_PATH;
    flags & KEPT
}

/// Sets the flags that F_SETFL can set.
pub fn set_flags(fd: &OwnedFd, flags: i32) -> io::Result<()> {
    let settable = libc::O_APPEND | libc::O_NONBLOCK | libc::O_DIRECT | libc::O_NOATIME;
    fcntl(fd.as_raw_fd(), libc::F_SETFL, flags & settable).map(drop)
}

/// Duplicates a descriptor, above the standard numbers.
pub fn duplicate(fd: i32) -> io::Result<OwnedFd> {
    // SAFETY: the kernel returns a fresh descriptor.
    unsafe { fresh(libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3)) }
}

/// Sets the position.
pub fn seek(fd: &OwnedFd, offset: u64) {
    // An error is ignored: such a file has no position.
    c_library::lseek(fd.as_raw_fd(), offset as i64, libc::SEEK_SET);
}

/// Waits for an exclusive flock lock of the open file.
pub fn lock_exclusively(fd: &OwnedFd) -> io::Result<()> {
    checked(c_library::flock(fd.as_raw_fd(), libc::LOCK_EX)).map(drop)
}

/// Whether two descriptors refer to one open file.
pub fn same_open_file(a: i32, b: i32) -> bool {
    const KCMP_FILE: usize = 0;
    let pid = syscall::getpid() as usize;
    let args = [pid, pid, KCMP_FILE, a as usize, b as usize, 0];
    let result = syscall::plain(libc::SYS_kcmp, args);
    if syscall::is_err(result) {
        share_flags(a, b)
    } else {
        result == 0
    }
}

/// Fallback without `kcmp`: a flag changed through one descriptor changes for all descriptors of the open file. No
/// other thread makes calls meanwhile.
fn share_flags(a: i32, b: i32) -> bool {
    let compare = || {
        let flags = [fcntl(a, libc::F_GETFL, 0)?, fcntl(b, libc::F_GETFL, 0)?];
        if flags[0] != flags[1] {
            return Ok(false);
        }
        fcntl(a, libc::F_SETFL, flags[0] ^ libc::O_NONBLOCK)?;
        let followed = fcntl(b, libc::F_GETFL, 0)? != flags[1];
        fcntl(a, libc::F_SETFL, flags[0])?;
        Ok::<_, io::Error>(followed)
    };
    compare().unwrap_or(false)
}

/// Moves an open file to a number and closes the file there.
pub fn place_at(from: i32, to: i32, cloexec: bool) -> io::Result<()> {
    let flags = if cloexec { libc::O_CLOEXEC } else { 0 };
    checked(c_library::dup3(from, to, flags)).map(drop)
}

/// Closes a number.
pub fn close(fd: i32) {
    c_library::close(fd);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn open_files_are_distinguished() {
        let first = File::open("/dev/null").unwrap();
        let (second, twin) = (File::open("/dev/null").unwrap(), first.try_clone().unwrap());
        let [first, second, twin] = [&first, &second, &twin].map(AsRawFd::as_raw_fd);
        for same in [same_open_file, share_flags] {
            assert!(same(first, twin));
            assert!(!same(first, second));
        }
        assert_eq!(
            fcntl(first, libc::F_GETFL, 0).unwrap() & libc::O_NONBLOCK,
            0
        );
    }
}
