//! A file of MPI's as the kernel knows it: its name, and getting its data onto the disk.
//!
//! # Safety
//! System calls on strings with their NUL, on buffers of the length beside them, and on descriptors
//! of our own.
#![allow(unsafe_code)]

use crate::system::syscall;
use core::ffi::CStr;
use std::ffi::CString;

const SYS_OPEN: usize = 2;
const SYS_CLOSE: usize = 3;
const SYS_ACCESS: usize = 21;
const SYS_FSYNC: usize = 74;
const SYS_GETCWD: usize = 79;
const SYS_RENAME: usize = 82;

const O_RDONLY: usize = 0;
const O_WRONLY: usize = 1;
/// Neither waits for the other end of a FIFO, nor takes a terminal, nor is inherited.
const O_NONBLOCK_NOCTTY_CLOEXEC: usize = 0o4000 | 0o400 | 0o2_000_000;

const EINTR: i32 = 4;
const EACCES: i32 = 13;
const EINVAL: i32 = 22;
const EROFS: i32 = 30;
const PATH_MAX: usize = 4096;

/// A file's name, from any directory.
pub(super) struct Name {
    for_mpi: CString,
    /// Where the name for MPI begins to be a path; `None` if it is none that the kernel knows.
    path: Option<usize>,
}

impl Name {
    /// The name of no file.
    pub(super) fn none() -> Name {
        Name {
            for_mpi: CString::default(),
            path: None,
        }
    }

    /// The name of a file that is open now. MPI libraries take the kind of the file system before
    /// the path ("ufs:out.dat"), as other files may have a colon in their names: what exists tells.
    pub(super) fn of_open_file(given: &CStr) -> Name {
        let given = given.to_bytes();
        let exists = |path: &[u8]| CString::new(path).is_ok_and(|path| exists(&path).is_ok());
        let colon = given.iter().position(|&byte| byte == b':');
        let prefixed = colon.map(|at| at + 1);
        let candidates = [Some(0), prefixed].into_iter().flatten();
        let found = candidates
            .map(|start| given.split_at(start))
            .find(|(_, path)| exists(path));
        match found {
            Some((prefix, path)) => Name::new(prefix, path, working_directory().as_deref()),
            None => Name {
                for_mpi: CString::new(given).unwrap_or_default(),
                path: None,
            },
        }
    }

    fn new(prefix: &[u8], path: &[u8], directory: Option<&[u8]>) -> Name {
        let mut name = prefix.to_vec();
        match directory {
            Some(directory) if !path.starts_with(b"/") => {
                name.extend_from_slice(directory);
                name.push(b'/');
            }
            _ => {}
        }
        name.extend_from_slice(path);
        Name {
            for_mpi: CString::new(name).unwrap_or_default(),
            path: Some(prefix.len()),
        }
    }

    /// For MPI_File_open and MPI_File_delete.
    pub(super) fn for_mpi(&self) -> &CStr {
        &self.for_mpi
    }

    /// For the kernel, where it knows the file.
    pub(super) fn path(&self) -> Option<&CStr> {
        let bytes = self.for_mpi.to_bytes_with_nul().get(self.path?..)?;
        CStr::from_bytes_with_nul(bytes).ok()
    }
}

fn working_directory() -> Option<Vec<u8>> {
    let mut buffer = vec![0_u8; PATH_MAX];
    // SAFETY: see the module's head.
    let length = result(unsafe {
        let address = buffer.as_mut_ptr() as usize;
        syscall(SYS_GETCWD, [address, buffer.len(), 0, 0, 0, 0])
    })
    .ok()?;
    buffer.truncate(length.saturating_sub(1));
    // A directory that was removed has a name that says so, which is no path.
    buffer.starts_with(b"/").then_some(buffer)
}

/// The value of a system call, or the error number.
fn result(value: isize) -> Result<usize, i32> {
    usize::try_from(value).map_err(|_| -value as i32)
}

/// Whether there is something of that name, or the error number.
pub(super) fn exists(path: &CStr) -> Result<(), i32> {
    // SAFETY: see the module's head.
    result(unsafe { syscall(SYS_ACCESS, [path.as_ptr() as usize, 0, 0, 0, 0, 0]) }).map(|_| ())
}

/// Gives a file another name, in the place of whatever has that.
pub(super) fn rename(from: &CStr, to: &CStr) -> Result<(), i32> {
    let (from, to) = (from.as_ptr() as usize, to.as_ptr() as usize);
    // SAFETY: see the module's head.
    result(unsafe { syscall(SYS_RENAME, [from, to, 0, 0, 0, 0]) }).map(|_| ())
}

fn open(path: &CStr, access: usize) -> Result<usize, i32> {
    let flags = access | O_NONBLOCK_NOCTTY_CLOEXEC;
    // SAFETY: see the module's head.
    result(unsafe { syscall(SYS_OPEN, [path.as_ptr() as usize, flags, 0, 0, 0, 0]) })
}

/// Has the kernel write to the disk what processes of this machine have written to the file,
/// through whatever descriptor. Gives the error number. What has no data on a disk has none to be
/// written.
pub(super) fn sync(path: &CStr) -> Result<(), i32> {
    let fd = match open(path, O_RDONLY) {
        Err(EACCES) => open(path, O_WRONLY)?,
        opened => opened?,
    };
    let synced = loop {
        // SAFETY: see the module's head.
        match result(unsafe { syscall(SYS_FSYNC, [fd, 0, 0, 0, 0, 0]) }) {
            Err(EINTR) => {}
            Err(EINVAL | EROFS) | Ok(_) => break Ok(()),
            Err(number) => break Err(number),
        }
    };
    // SAFETY: see the module's head.
    unsafe { syscall(SYS_CLOSE, [fd, 0, 0, 0, 0, 0]) };
    synced
}

/// Has the file remembered as one that the program has written to and closed, so that a restart cuts it back.
/// The library below has opened it unseen; what the loader remembers is what it sees opened for writing.
pub(super) fn note_written(path: &CStr) {
    if let Ok(fd) = open(path, O_WRONLY) {
        // SAFETY: see the module's head.
        unsafe { syscall(SYS_CLOSE, [fd, 0, 0, 0, 0, 0]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(name: &Name) -> (&[u8], Option<&[u8]>) {
        (
            name.for_mpi().to_bytes(),
            name.path().map(|path| path.to_bytes()),
        )
    }

    #[test]
    fn a_relative_name_gets_its_directory() {
        let name = Name::new(b"", b"out.dat", Some(b"/work"));
        assert_eq!(
            both(&name),
            (&b"/work/out.dat"[..], Some(&b"/work/out.dat"[..]))
        );
        let name = Name::new(b"ufs:", b"out.dat", Some(b"/work"));
        assert_eq!(
            both(&name),
            (&b"ufs:/work/out.dat"[..], Some(&b"/work/out.dat"[..]))
        );
        let name = Name::new(b"", b"/tmp/out.dat", Some(b"/work"));
        assert_eq!(
            both(&name),
            (&b"/tmp/out.dat"[..], Some(&b"/tmp/out.dat"[..]))
        );
    }

    #[test]
    fn what_exists_tells_a_prefix_from_a_name() {
        let directory = std::env::temp_dir().join(format!("stasis-names-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        std::fs::write(directory.join("a:b"), b"").expect("a file");
        let whole = format!("{}/a:b", directory.display());
        let name = Name::of_open_file(&CString::new(whole.clone()).expect("no NUL"));
        assert_eq!(name.path().map(CStr::to_bytes), Some(whole.as_bytes()));
        let prefixed = CString::new(format!("ufs:{whole}")).expect("no NUL");
        let name = Name::of_open_file(&prefixed);
        assert_eq!(name.path().map(CStr::to_bytes), Some(whole.as_bytes()));
        assert_eq!(name.for_mpi(), prefixed.as_c_str());
        assert_eq!(Name::of_open_file(c"pvfs2:/nowhere/at/all").path(), None);
        std::fs::remove_dir_all(&directory).expect("removed");
    }
}
