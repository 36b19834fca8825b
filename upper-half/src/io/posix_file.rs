//! Files of MPI as the kernel knows them: names, and writing their data to the disk.
//!
//! # Safety
//! System calls take C strings, a buffer and its length, and descriptors of our own.
#![allow(unsafe_code)]

use crate::object::file::{FileName, Identity};
use crate::runtime::syscall::syscall;
use core::ffi::CStr;
use std::ffi::CString;

const SYS_OPEN: usize = 2;
const SYS_CLOSE: usize = 3;
const SYS_STAT: usize = 4;
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

impl FileName {
    /// The name of a file that is open now. MPI libraries take the kind of the file system before
    /// the path ("ufs:out.dat"), as other files may have a colon in their names: what exists tells.
    pub(crate) fn of_open_file(given: &CStr) -> FileName {
        let given = given.to_bytes();
        let exists = |path: &[u8]| CString::new(path).is_ok_and(|path| exists(&path).is_ok());
        let colon = given.iter().position(|&byte| byte == b':');
        let prefixed = colon.map(|at| at + 1);
        let candidates = [Some(0), prefixed].into_iter().flatten();
        let found = candidates
            .map(|start| given.split_at(start))
            .find(|(_, path)| exists(path));
        match found {
            Some((prefix, path)) => FileName::new(prefix, path, working_directory().as_deref()),
            None => FileName {
                for_mpi: CString::new(given).unwrap_or_default(),
                path: None,
            },
        }
    }

    fn new(prefix: &[u8], path: &[u8], directory: Option<&[u8]>) -> FileName {
        let mut name = prefix.to_vec();
        match directory {
            Some(directory) if !path.starts_with(b"/") => {
                name.extend_from_slice(directory);
                name.push(b'/');
            }
            _ => {}
        }
        name.extend_from_slice(path);
        FileName {
            for_mpi: CString::new(name).unwrap_or_default(),
            path: Some(prefix.len()),
        }
    }
}

fn working_directory() -> Option<Vec<u8>> {
    let mut buffer = vec![0_u8; PATH_MAX];
    // SAFETY: the buffer and its length.
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

/// A system call of the kind that takes a name and one number, or the address of a result.
fn on_path(call: usize, path: &CStr, number: usize) -> Result<usize, i32> {
    // SAFETY: a C string. The calls (`access`, `open`, `stat`) only read it. [`identity`] has room for what `stat`
    // writes.
    result(unsafe { syscall(call, [path.as_ptr() as usize, number, 0, 0, 0, 0]) })
}

/// Whether there is something of that name, or the error number.
pub(crate) fn exists(path: &CStr) -> Result<(), i32> {
    on_path(SYS_ACCESS, path, 0).map(|_| ())
}

/// The file that has the name, or the error number.
pub(crate) fn identity(path: &CStr) -> Result<Identity, i32> {
    /// Words of `struct stat`, which begins with the device and the inode number.
    const WORDS: usize = 18;
    let mut stat = [0_u64; WORDS];
    on_path(SYS_STAT, path, stat.as_mut_ptr() as usize)?;
    let [device, inode, ..] = stat;
    Ok(Identity { device, inode })
}

/// Gives a file another name, in the place of whatever has that.
pub(crate) fn rename(from: &CStr, to: &CStr) -> Result<(), i32> {
    let (from, to) = (from.as_ptr() as usize, to.as_ptr() as usize);
    // SAFETY: two C strings.
    result(unsafe { syscall(SYS_RENAME, [from, to, 0, 0, 0, 0]) }).map(|_| ())
}

/// An open file, which is closed when this is dropped.
struct Descriptor(usize);

impl Descriptor {
    fn open(path: &CStr, access: usize) -> Result<Descriptor, i32> {
        on_path(SYS_OPEN, path, access | O_NONBLOCK_NOCTTY_CLOEXEC).map(Descriptor)
    }

    /// A system call that takes the descriptor alone.
    fn call(&self, call: usize) -> Result<usize, i32> {
        // SAFETY: a descriptor of our own. The calls (`fsync`, `close`) use no memory.
        result(unsafe { syscall(call, [self.0, 0, 0, 0, 0, 0]) })
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // The kernel closes it in any case.
        let _ = self.call(SYS_CLOSE);
    }
}

/// Has the kernel write to the disk what processes of this machine have written to the file, through any descriptor.
/// Gives the error number. A file without data on a disk has none to be written.
pub(crate) fn sync(path: &CStr) -> Result<(), i32> {
    let file = match Descriptor::open(path, O_RDONLY) {
        Err(EACCES) => Descriptor::open(path, O_WRONLY)?,
        opened => opened?,
    };
    loop {
        match file.call(SYS_FSYNC) {
            Err(EINTR) => {}
            Err(EINVAL | EROFS) | Ok(_) => return Ok(()),
            Err(number) => return Err(number),
        }
    }
}

/// Has the file remembered as one that the program has written to and closed, so that a restart cuts it back.
/// The library below has opened it unseen; what the loader remembers is what it sees opened for writing.
pub(crate) fn note_written(path: &CStr) {
    // It is closed at once.
    let _ = Descriptor::open(path, O_WRONLY);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both(name: &FileName) -> (&[u8], Option<&[u8]>) {
        (
            name.for_mpi().to_bytes(),
            name.path().map(|path| path.to_bytes()),
        )
    }

    #[test]
    fn a_relative_name_gets_its_directory() {
        let name = FileName::new(b"", b"out.dat", Some(b"/work"));
        assert_eq!(
            both(&name),
            (&b"/work/out.dat"[..], Some(&b"/work/out.dat"[..]))
        );
        let name = FileName::new(b"ufs:", b"out.dat", Some(b"/work"));
        assert_eq!(
            both(&name),
            (&b"ufs:/work/out.dat"[..], Some(&b"/work/out.dat"[..]))
        );
        let name = FileName::new(b"", b"/tmp/out.dat", Some(b"/work"));
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
        let name = FileName::of_open_file(&CString::new(whole.clone()).expect("no NUL"));
        assert_eq!(name.path().map(CStr::to_bytes), Some(whole.as_bytes()));
        let prefixed = CString::new(format!("ufs:{whole}")).expect("no NUL");
        let name = FileName::of_open_file(&prefixed);
        assert_eq!(name.path().map(CStr::to_bytes), Some(whole.as_bytes()));
        assert_eq!(name.for_mpi(), prefixed.as_c_str());
        assert_eq!(
            FileName::of_open_file(c"pvfs2:/nowhere/at/all").path(),
            None
        );
        std::fs::remove_dir_all(&directory).expect("removed");
    }
}
