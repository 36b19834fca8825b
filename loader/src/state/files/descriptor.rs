//! What can be asked of a descriptor, and done with one.
//!
//! # Safety
//! System calls on descriptors, whose memory is locals and C strings that live as long as the
//! call. Descriptors that are wrapped as owned were made by the call just before.
#![allow(unsafe_code)]

use super::aside::unshare_table;
use crate::error::CaptureError;
use crate::program::room_for_threads;
use crate::raw;
use core::mem::MaybeUninit;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A descriptor as it was found.
pub struct Look {
    pub fd: i32,
    pub facts: libc::stat,
    /// Where /proc/self/fd points.
    pub link: PathBuf,
    /// F_GETFL.
    pub flags: i32,
    /// /proc/self/fdinfo.
    pub info: String,
}

impl Look {
    /// Looks at one.
    pub fn at(fd: i32) -> Result<Look, CaptureError> {
        let look = || {
            Ok(Look {
                fd,
                facts: stat(fd)?,
                link: std::fs::read_link(format!("/proc/self/fd/{fd}"))?,
                flags: fcntl(fd, libc::F_GETFL, 0)?,
                info: std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}"))?,
            })
        };
        look().map_err(|source| unreadable(fd, source))
    }

    /// S_IFREG and the like.
    pub fn mode(&self) -> u32 {
        self.facts.st_mode & libc::S_IFMT
    }

    /// Device and inode.
    pub fn identity(&self) -> (u64, u64) {
        (self.facts.st_dev, self.facts.st_ino)
    }

    pub fn readable(&self) -> bool {
        self.flags & (libc::O_ACCMODE | libc::O_PATH) != libc::O_WRONLY
    }

    pub fn writable(&self) -> bool {
        writable(self.flags)
    }

    /// A field of fdinfo.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.info.lines();
        lines.find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
    }

    /// A field of fdinfo that must be there.
    pub fn need<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, CaptureError> {
        let missing = || {
            let text = format!("/proc/self/fdinfo says no {name}");
            self.failed(io::Error::other(text))
        };
        self.field(name).and_then(parse).ok_or_else(missing)
    }

    /// The position of the open file; 0 where it has none.
    pub fn offset(&self) -> u64 {
        position(self.fd).unwrap_or(0)
    }

    /// Opens the same file once more, for reading. To be called [`apart`].
    pub fn reader(&self) -> Result<File, CaptureError> {
        File::open(format!("/proc/thread-self/fd/{}", self.fd))
            .map_err(|source| self.failed(source))
    }

    /// That something could not be asked of it.
    pub fn failed(&self, source: io::Error) -> CaptureError {
        unreadable(self.fd, source)
    }

    /// Refuses the checkpoint because of this descriptor.
    pub fn refuse<T>(&self, what: impl Into<String>) -> Result<T, CaptureError> {
        Err(CaptureError::Descriptor {
            fd: self.fd,
            what: what.into(),
        })
    }
}

/// Whether an open file with these flags can be written to.
pub fn writable(flags: i32) -> bool {
    flags & libc::O_PATH == 0 && flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// That a descriptor cannot be looked at.
pub fn unreadable(fd: i32, source: io::Error) -> CaptureError {
    CaptureError::System {
        what: format!("file descriptor {fd}"),
        source,
    }
}

/// Runs `work` on a thread with a table of descriptors of its own: a copy of everybody's.
/// Otherwise closing any descriptor of a file, even one opened just to look at it, would drop the
/// locks (F_SETLK) that the process has on it. Fails if there can be no such thread.
///
/// The application's threads must stand still: see `aside.rs`.
pub fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let begin = || {
            unshare_table()?;
            let _copies = Copies;
            Ok(work())
        };
        room_for_threads()?;
        let thread = std::thread::Builder::new().spawn_scoped(scope, begin)?;
        let joined = thread.join();
        joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// All that a thread that is [`apart`] has open; closed when dropped. When the thread is joined the kernel has not
/// closed it yet.
struct Copies;

impl Drop for Copies {
    fn drop(&mut self) {
        raw::plain(libc::SYS_close_range, [0, u32::MAX as usize, 0, 0, 0, 0]);
    }
}

/// The descriptors that the calling thread has open, in no order.
pub fn all_open() -> io::Result<Vec<i32>> {
    let mut numbers: Vec<i32> = Vec::new();
    for entry in std::fs::read_dir("/proc/thread-self/fd")? {
        let name = entry?.file_name();
        numbers.extend(name.to_str().and_then(|n| n.parse::<i32>().ok()));
    }
    // The one by which they were read is among them, too.
    numbers.retain(|&fd| fcntl(fd, libc::F_GETFD, 0).is_ok());
    Ok(numbers)
}

/// The result of a call that says -1 and errno.
pub fn checked(result: i32) -> io::Result<i32> {
    match result {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}

/// Takes a fresh descriptor that a call has returned.
///
/// # Safety
/// It must be one, and nobody else's.
pub unsafe fn fresh(result: i32) -> io::Result<OwnedFd> {
    // SAFETY: by the caller's word.
    checked(result).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

pub fn stat(fd: i32) -> io::Result<libc::stat> {
    let mut facts = MaybeUninit::uninit();
    // SAFETY: written by the kernel on success, which is checked.
    unsafe {
        checked(libc::fstat(fd, facts.as_mut_ptr()))?;
        Ok(facts.assume_init())
    }
}

/// The magic number of the file system that a file is on.
pub fn file_system(fd: i32) -> i64 {
    let mut facts = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: written by the kernel on success, which is checked.
    unsafe {
        match libc::fstatfs(fd, facts.as_mut_ptr()) {
            0 => facts.assume_init().f_type,
            _ => 0,
        }
    }
}

/// Whether no room is left on the file system of a descriptor.
pub fn is_full(fd: i32) -> bool {
    let mut facts = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: written by the kernel on success, which is checked.
    unsafe { libc::fstatfs(fd, facts.as_mut_ptr()) == 0 && facts.assume_init().f_bavail == 0 }
}

/// The magic number of the file system of the file of a name; 0 where it cannot be told.
pub fn file_system_of(path: &Path) -> u64 {
    let Ok(name) = CString::new(path.as_os_str().as_bytes()) else {
        return 0;
    };
    let mut facts = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: a C string; the facts are written by the kernel on success, which is checked.
    unsafe {
        match libc::statfs(name.as_ptr(), facts.as_mut_ptr()) {
            0 => facts.assume_init().f_type as u64,
            _ => 0,
        }
    }
}

/// The position of an open file; none where it has none.
pub fn position(fd: i32) -> Option<u64> {
    // SAFETY: asks only.
    u64::try_from(unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) }).ok()
}

/// Fills the bytes with what is in the file from a position on; says how many there are.
pub fn read_at(fd: i32, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &mut bytes[done..];
        // SAFETY: a buffer of that length.
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

/// A command of fcntl that takes a number.
pub fn fcntl(fd: i32, command: i32, value: i32) -> io::Result<i32> {
    // SAFETY: callers use commands that take a number.
    checked(unsafe { libc::fcntl(fd, command, value) })
}

/// Bytes that wait to be read.
pub fn waiting(fd: i32) -> io::Result<usize> {
    let mut bytes = 0;
    // SAFETY: the kernel writes an int.
    checked(unsafe { libc::ioctl(fd, libc::FIONREAD, &raw mut bytes) })?;
    Ok(usize::try_from(bytes).unwrap_or(0))
}

/// Which of `events` are there now, as poll(2) tells.
pub fn poll(fd: i32, events: i16) -> io::Result<i16> {
    let mut poll = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    // SAFETY: one entry.
    checked(unsafe { libc::poll(&raw mut poll, 1, 0) })?;
    Ok(poll.revents)
}

/// `open`, with O_CLOEXEC.
pub fn open(path: &Path, flags: i32) -> io::Result<OwnedFd> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: a C string; the descriptor is fresh.
    unsafe { fresh(libc::open(name.as_ptr(), flags | libc::O_CLOEXEC, 0o600)) }
}

/// A new open file of what the descriptor `master` is open on.
pub fn open_again(master: i32, flags: i32) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{master}");
    open(Path::new(&path), kept_flags(flags))
}

/// Those flags of F_GETFL with which an open file is opened again.
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

/// A second descriptor, above the standard ones, of the same open file.
pub fn duplicate(fd: i32) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is fresh.
    unsafe { fresh(libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3)) }
}

/// Sets the position.
pub fn seek(fd: &OwnedFd, offset: u64) {
    // SAFETY: our own descriptor. What cannot seek has no position.
    unsafe { libc::lseek(fd.as_raw_fd(), offset as i64, libc::SEEK_SET) };
}

/// Waits for a lock (flock) that nobody else has, which goes with the open file.
pub fn lock_exclusively(fd: &OwnedFd) -> io::Result<()> {
    // SAFETY: our own descriptor.
    checked(unsafe { libc::flock(fd.as_raw_fd(), libc::LOCK_EX) }).map(drop)
}

/// Whether two descriptors are of one open file.
pub fn same_open_file(a: i32, b: i32) -> bool {
    const KCMP_FILE: usize = 0;
    let pid = raw::getpid() as usize;
    let args = [pid, pid, KCMP_FILE, a as usize, b as usize, 0];
    let result = raw::plain(libc::SYS_kcmp, args);
    if raw::is_err(result) {
        share_flags(a, b)
    } else {
        result == 0
    }
}

/// Where `kcmp` may not be used: a flag that is changed in one open file is changed for all its
/// descriptors. Nobody makes a call meanwhile.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_open_file_is_told_from_another() {
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

    #[test]
    fn a_lock_survives_a_look_apart() {
        let file = tempfile::tempfile().unwrap();
        let region = libc::flock {
            l_type: libc::F_WRLCK as i16,
            l_whence: 0,
            l_start: 0,
            l_len: 1,
            l_pid: 0,
        };
        // SAFETY: reads a local.
        checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const region) })
            .unwrap();
        let locked = || Look::at(file.as_raw_fd()).unwrap().info.contains("POSIX");
        let again = || Look::at(file.as_raw_fd())?.reader().map(drop);
        apart(again).unwrap().unwrap();
        assert!(locked());
        again().unwrap();
        assert!(!locked(), "this is why");
    }
}
