//! The check of the storage under a checkpoint directory, for `doctor`: whether it is durable, how fast, and how much
//! space is free.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::fcntl::{fcntl, FcntlArg, Flock, FlockArg};

/// Bytes written by the test.
const TRIAL: usize = 1 << 20;

/// File systems whose content is lost with the machine or the container.
const VOLATILE: [&str; 3] = ["tmpfs", "ramfs", "overlay"];

/// An existing directory, or the place of a new one.
#[derive(Debug)]
pub struct Storage {
    /// Type of the file system, as in mountinfo.
    kind: Option<String>,
    /// Available space, in bytes.
    free: u64,
    /// Time to make a file of 1 MiB durable.
    durable: Duration,
    /// Whether it has locks (flock(2)).
    locks: bool,
    /// Whether parts of its files can be locked (fcntl(2)). Many file systems without such locks leave flock(2) of a
    /// directory to the kernel.
    file_locks: bool,
    /// Whether a file can have a second name (link(2)).
    links: bool,
    /// Size of the newest set in the directory in bytes, if it has one.
    newest: Option<u64>,
}

impl Storage {
    /// Checks a checkpoint directory and writes a test file, which is removed.
    pub fn examine(directory: &Path) -> Result<Storage> {
        let there = match directory.exists() {
            true => {
                ckpt_image::check_checkpoint_dir(directory)?;
                directory.to_owned()
            }
            false => nearest(directory)?,
        };
        let durable = try_to_write(&there).with_context(|| {
            format!(
                "nothing durable can be written to {}: free space there, make it writable, or give \
                 another --ckpt-dir",
                there.display()
            )
        })?;
        let space = nix::sys::statvfs::statvfs(&there)
            .with_context(|| format!("cannot tell how much is free in {}", there.display()))?;
        let newest = match directory.exists() {
            true => ckpt_image::list_sets(directory, None)?
                .iter()
                .filter(|set| set.manifest.is_some())
                .max_by_key(|set| set.number)
                .map(ckpt_image::SetInfo::bytes),
            false => None,
        };
        Ok(Storage {
            kind: kind(&there.canonicalize()?),
            free: space
                .blocks_available()
                .saturating_mul(space.fragment_size()),
            durable,
            locks: has_locks(&there),
            file_locks: has_file_locks(&there)?,
            links: has_links(&there).with_context(|| {
                format!(
                    "a file in {} cannot be renamed, as a checkpoint is when it is complete: give a --ckpt-dir on \
                     another file system",
                    there.display()
                )
            })?,
            newest: newest.filter(|bytes| *bytes > 0),
        })
    }

    /// Readable summary.
    pub fn describe(&self) -> String {
        let room = match self.newest {
            Some(bytes) => format!(
                ", room for {} more like the newest checkpoint ({})",
                self.free / bytes,
                crate::ui::text::bytes(bytes)
            ),
            None => String::new(),
        };
        format!(
            "{}, {} free{room}; 1 MiB is durable after {}",
            self.kind.as_deref().unwrap_or("a file system"),
            crate::ui::text::bytes(self.free),
            crate::ui::text::duration(self.durable.as_micros() as u64)
        )
    }

    /// Whether a file can have a second name.
    pub fn has_links(&self) -> bool {
        self.links
    }

    /// Whether processes can lock a directory.
    pub fn has_locks(&self) -> bool {
        self.locks
    }

    /// Whether ranks can lock names of files.
    pub fn has_file_locks(&self) -> bool {
        self.file_locks
    }

    /// Whether the content may be lost with the machine.
    pub fn is_volatile(&self) -> bool {
        let kind = self.kind.as_deref();
        kind.is_some_and(|kind| VOLATILE.contains(&kind))
    }
}

/// Whether the file system of a directory may give a file another inode number while the file exists.
pub fn may_renumber(directory: &Path) -> bool {
    let found = nix::sys::statfs::statfs(directory);
    found.is_ok_and(|found| !undo::keeps_numbers(found.filesystem_type().0 as u64))
}

/// The nearest existing parent directory.
fn nearest(directory: &Path) -> Result<PathBuf> {
    let directory = std::path::absolute(directory)?;
    let above = directory.ancestors().find(|above| above.exists());
    Ok(above.unwrap_or(Path::new("/")).to_owned())
}

/// Writes as for a set: fsync of the file, then of the directory.
fn try_to_write(directory: &Path) -> Result<Duration> {
    let mut file = tempfile::Builder::new()
        .prefix(".stasis-doctor-")
        .tempfile_in(directory)?;
    let begun = Instant::now();
    file.write_all(&vec![0xA5; TRIAL])?;
    file.as_file().sync_all()?;
    File::open(directory)?.sync_all()?;
    Ok(begun.elapsed())
}

/// Renames a file, which must work, and gives it a second name.
fn has_links(directory: &Path) -> Result<bool> {
    let place = tempfile::Builder::new()
        .prefix(".stasis-doctor-")
        .tempdir_in(directory)?;
    let [first, renamed, second] =
        ["first", "renamed", "second"].map(|name| place.path().join(name));
    fs::write(&first, b"x")?;
    fs::rename(&first, &renamed)?;
    Ok(fs::hard_link(&renamed, second).is_ok())
}

fn has_locks(directory: &Path) -> bool {
    let opened = File::open(directory).ok();
    // Another process may hold it.
    opened.is_some_and(|directory| {
        matches!(
            Flock::lock(directory, FlockArg::LockSharedNonblock),
            Ok(_) | Err((_, Errno::EWOULDBLOCK))
        )
    })
}

fn has_file_locks(directory: &Path) -> Result<bool> {
    let file = tempfile::Builder::new()
        .prefix(".stasis-doctor-")
        .tempfile_in(directory)?;
    let whole = libc::flock {
        l_type: libc::F_WRLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    Ok(fcntl(file.as_file(), FcntlArg::F_SETLK(&whole)).is_ok())
}

/// Type of the file system mounted at a path, by `/proc/PID/mountinfo` (proc(5)).
fn kind(directory: &Path) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    kind_among(&mounts, directory)
}

fn kind_among(mounts: &str, directory: &Path) -> Option<String> {
    let mount = |line: &str| {
        let (place, system) = line.split_once(" - ")?;
        let point = PathBuf::from(unescaped(place.split(' ').nth(4)?));
        let kind = system.split(' ').next()?.to_owned();
        directory.starts_with(&point).then_some((point, kind))
    };
    // The last of several mounts at one point hides the others.
    let found = mounts.lines().filter_map(mount);
    let deepest = found.max_by_key(|(point, _)| point.components().count());
    deepest.map(|(_, kind)| kind)
}

/// Decodes octal escapes of mountinfo, such as `\040` for a space.
fn unescaped(text: &str) -> OsString {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let octal = tail
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (first, byte) {
            (b'\\', Some(byte)) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime - ext4 /dev/root rw
23 22 0:21 / /dev/shm rw,nosuid - tmpfs tmpfs rw
24 22 0:44 / /scratch\\040a rw shared:7 - lustre 10.0.0.1@tcp:/s rw
25 22 0:45 / /over rw - ext4 /dev/x rw
26 22 0:46 / /over rw - nfs4 server:/x rw";

    #[test]
    fn the_deepest_mount_gives_the_file_system() {
        let kind = |path: &str| kind_among(MOUNTS, Path::new(path)).unwrap();
        assert_eq!(kind("/home/me/ckpt"), "ext4");
        assert_eq!(kind("/dev/shm/ckpt"), "tmpfs");
        assert_eq!(kind("/dev/shmem"), "ext4");
        assert_eq!(kind("/scratch a/ckpt"), "lustre");
        assert_eq!(kind("/over/ckpt"), "nfs4");
    }

    #[test]
    fn a_missing_directory_is_tested_in_its_parent() {
        let above = tempfile::tempdir().unwrap();
        let place = Storage::examine(&above.path().join("a/b")).unwrap();
        assert!(place.free > 0 && place.newest.is_none());
        assert_eq!(fs::read_dir(above.path()).unwrap().count(), 0);
    }
}
