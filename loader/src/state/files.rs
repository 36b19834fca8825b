//! Open files: what they are, and how they come back.
//!
//! # Safety
//! `fstat`, `fcntl`, `lseek` and `dup` on descriptors of this process; no memory is involved but
//! locals.
#![allow(unsafe_code)]

use super::{FileKind, FileState, ProcessState};
use crate::error::{CaptureError, RestoreError};
use crate::{fds, raw};
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Device and inode of the launcher's descriptors 0, 1 and 2.
static STANDARD: Mutex<[Option<(u64, u64)>; 3]> = Mutex::new([None; 3]);
/// Numbers that `reserve_fds` holds.
static RESERVED: Mutex<Vec<i32>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn stat(fd: i32) -> io::Result<libc::stat> {
    let mut facts = core::mem::MaybeUninit::uninit();
    // SAFETY: written by the kernel on success, which is checked.
    unsafe {
        if libc::fstat(fd, facts.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(facts.assume_init())
    }
}

/// Notes what the launcher's standard files are; called when the process starts.
pub fn note_standard_files() {
    let identity = |fd| stat(fd).ok().map(|s| (s.st_dev, s.st_ino));
    *lock(&STANDARD) = [identity(0), identity(1), identity(2)];
}

fn fcntl(fd: i32, command: i32, value: i32) -> i32 {
    // SAFETY: only commands that take a number are used.
    unsafe { libc::fcntl(fd, command, value) }
}

/// Whether two descriptors share one open file. (Where `kcmp` may not be used: no.)
fn same_open_file(a: i32, b: i32) -> bool {
    const KCMP_FILE: usize = 0;
    let pid = raw::getpid() as usize;
    raw::plain(
        libc::SYS_kcmp,
        [pid, pid, KCMP_FILE, a as usize, b as usize, 0],
    ) == 0
}

/// Everything the application has open.
pub fn capture() -> Result<Vec<FileState>, CaptureError> {
    let system = |source| CaptureError::System {
        what: "/proc/self/fd".to_owned(),
        source,
    };
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir("/proc/self/fd").map_err(system)? {
        let name = entry.map_err(system)?.file_name();
        numbers.extend(name.to_str().and_then(|n| n.parse::<i32>().ok()));
    }
    numbers.retain(|&fd| fds::is_owned(fd) && fcntl(fd, libc::F_GETFD, 0) >= 0);
    numbers.sort_unstable();
    let mut files: Vec<(FileState, libc::stat)> = Vec::new();
    for fd in numbers {
        let reading = |source| CaptureError::System {
            what: format!("file descriptor {fd}"),
            source,
        };
        let facts = stat(fd).map_err(reading)?;
        let cloexec = fcntl(fd, libc::F_GETFD, 0) & libc::FD_CLOEXEC != 0;
        let twin = files.iter().find(|(other, f)| {
            (f.st_dev, f.st_ino) == (facts.st_dev, facts.st_ino) && same_open_file(other.fd, fd)
        });
        let kind = match twin {
            Some((other, _)) => FileKind::Same(other.fd),
            None => classify(fd, &facts)?,
        };
        files.push((FileState { fd, cloexec, kind }, facts));
    }
    Ok(files.into_iter().map(|(file, _)| file).collect())
}

fn classify(fd: i32, facts: &libc::stat) -> Result<FileKind, CaptureError> {
    let refuse = |what: String| Err(CaptureError::Descriptor { fd, what });
    let link = std::fs::read_link(format!("/proc/self/fd/{fd}")).map_err(|source| {
        CaptureError::System {
            what: format!("file descriptor {fd}"),
            source,
        }
    })?;
    let kind = facts.st_mode & libc::S_IFMT;
    let standard = *lock(&STANDARD);
    let identity = Some((facts.st_dev, facts.st_ino));
    let own = usize::try_from(fd)
        .ok()
        .filter(|&n| n < 3 && standard[n] == identity);
    if let Some(n) = own {
        return Ok(FileKind::Standard(n as i32));
    }
    if kind != libc::S_IFREG && kind != libc::S_IFDIR {
        if let Some(n) = standard.iter().position(|&s| s == identity) {
            return Ok(FileKind::Standard(n as i32));
        }
    }
    let flags = fcntl(fd, libc::F_GETFL, 0);
    // SAFETY: asks for the offset only.
    let offset = unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) }.max(0) as u64;
    match kind {
        libc::S_IFREG if facts.st_nlink == 0 => {
            refuse(format!("the deleted file {}", link.display()))
        }
        libc::S_IFREG => Ok(FileKind::Regular {
            path: link,
            flags,
            offset,
            size: facts.st_size as u64,
        }),
        libc::S_IFDIR | libc::S_IFCHR if link.is_absolute() => Ok(FileKind::ByPath {
            path: link,
            flags,
            offset,
        }),
        libc::S_IFSOCK => refuse(format!("a socket ({})", link.display())),
        libc::S_IFIFO => refuse(format!("a pipe ({})", link.display())),
        _ => refuse(link.display().to_string()),
    }
}

/// Holds the numbers of the saved open files, so that the lower half's libraries do not take them.
/// To be called first of all in a process that is going to restore. A descriptor that the launcher
/// left at one of these numbers is moved, and the variable that names it with it.
pub fn reserve_fds(state: &ProcessState) -> Result<(), RestoreError> {
    const HIGH: i32 = 400;
    let failed = |what: &str| RestoreError::System {
        what: what.to_owned(),
        source: io::Error::last_os_error(),
    };
    // SAFETY: opens a device.
    let null = unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    let null = match null {
        -1 => return Err(failed("opening /dev/null")),
        low => {
            let high = fcntl(low, libc::F_DUPFD_CLOEXEC, HIGH);
            // SAFETY: opened above.
            unsafe { libc::close(low) };
            high
        }
    };
    if null < 0 {
        return Err(failed("moving a descriptor up"));
    }
    let mut reserved = lock(&RESERVED);
    for fd in state.files.iter().map(|f| f.fd).filter(|&fd| fd > 2) {
        if fcntl(fd, libc::F_GETFD, 0) >= 0 {
            let moved = fcntl(fd, libc::F_DUPFD, HIGH);
            if moved < 0 {
                return Err(RestoreError::DescriptorTaken { fd });
            }
            tell_where(fd, moved);
        }
        // SAFETY: the number is free, or its file was moved.
        if unsafe { libc::dup3(null, fd, libc::O_CLOEXEC) } < 0 {
            return Err(failed("reserving a descriptor number"));
        }
        reserved.push(fd);
    }
    // SAFETY: opened above.
    unsafe { libc::close(null) };
    Ok(())
}

/// Launchers name descriptors that they hand over in the environment (PMI_FD, HYDI_CONTROL_FD ...).
fn tell_where(fd: i32, moved: i32) {
    let number = fd.to_string();
    for (name, value) in std::env::vars_os() {
        let names_one = name.to_str().is_some_and(|name| name.ends_with("_FD"));
        if names_one && value.to_str() == Some(&number) {
            std::env::set_var(name, moved.to_string());
        }
    }
}

fn open(
    fd: i32,
    path: &Path,
    flags: i32,
    offset: u64,
    size: Option<u64>,
) -> Result<i32, RestoreError> {
    let failed = |source| RestoreError::File {
        fd,
        path: PathBuf::from(path),
        source,
    };
    let drop = libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC;
    let name = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| failed(io::Error::from_raw_os_error(libc::EINVAL)))?;
    // SAFETY: a C string.
    let opened = unsafe { libc::open(name.as_ptr(), (flags & !drop) | libc::O_CLOEXEC) };
    if opened < 0 {
        return Err(failed(io::Error::last_os_error()));
    }
    if let Some(then) = size {
        let now = stat(opened).map_err(failed)?.st_size as u64;
        if now < then {
            return Err(RestoreError::FileShorter {
                path: path.to_owned(),
                then,
                now,
            });
        }
        let writable = flags & libc::O_ACCMODE != libc::O_RDONLY;
        // SAFETY: our own descriptor.
        if now > then && writable && unsafe { libc::ftruncate(opened, then as i64) } != 0 {
            return Err(failed(io::Error::last_os_error()));
        }
    }
    // SAFETY: our own descriptor. Devices may not be able to seek; then there is no offset.
    unsafe { libc::lseek(opened, offset as i64, libc::SEEK_SET) };
    Ok(opened)
}

/// Puts all saved files in their places.
pub fn restore(files: &[FileState]) -> Result<(), RestoreError> {
    let mut reserved = lock(&RESERVED);
    note_standard_files();
    for file in files.iter().filter(|f| f.kind != FileKind::Standard(f.fd)) {
        let fd = file.fd;
        if fd > 2 && !reserved.contains(&fd) && fcntl(fd, libc::F_GETFD, 0) >= 0 {
            return Err(RestoreError::DescriptorTaken { fd });
        }
        let (source, opened) = match &file.kind {
            FileKind::Standard(n) => (*n, false),
            FileKind::Same(other) => (*other, false),
            FileKind::Regular {
                path,
                flags,
                offset,
                size,
            } => (open(fd, path, *flags, *offset, Some(*size))?, true),
            FileKind::ByPath {
                path,
                flags,
                offset,
            } => (open(fd, path, *flags, *offset, None)?, true),
        };
        // SAFETY: the number is free, reserved for this, or a standard file to be replaced.
        unsafe {
            let cloexec = if file.cloexec { libc::O_CLOEXEC } else { 0 };
            if source != fd && libc::dup3(source, fd, cloexec) < 0 {
                return Err(RestoreError::System {
                    what: format!("placing file descriptor {fd}"),
                    source: io::Error::last_os_error(),
                });
            }
            if opened && source != fd {
                libc::close(source);
            }
        }
        reserved.retain(|&r| r != fd);
    }
    for file in files {
        fds::own(file.fd);
    }
    for fd in (0..=2).filter(|fd| !files.iter().any(|f| f.fd == *fd)) {
        // SAFETY: the application had closed it.
        unsafe { libc::close(fd) };
    }
    for fd in reserved.drain(..) {
        // SAFETY: ours.
        unsafe { libc::close(fd) };
    }
    Ok(())
}
