//! Changes that system calls of the application are about to make to files (`syscalls/file_changes.rs`,
//! `syscalls/files.rs`).
//!
//! A function that takes the call as a closure makes it while the names in question are locked (`name_locks.rs`). All
//! functions run with the lower half's FS.

use super::absolute_names::{is_device, link_of, name_of, MOST_LINKS};
use super::journal::{ask, device_and_inode, fd_path, noting, Noting};
use super::name_locks::NameLocks;
use crate::sys::{descriptor, proc_maps, syscall};
use std::ffi::{CStr, CString, OsString};
use std::ops::Range;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use undo::{Current, Facts};

/// Whether and how an open creates the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// The call creates nothing.
    Not,
    /// The file existed, so the call need not create it, and must not: another process may have put a dangling link in
    /// its place, whose target is not journaled.
    There,
    /// The call creates the file with O_EXCL. If another process is faster, the call must fail and be started again,
    /// because the file of that process is not journaled.
    Exclusively,
    /// The call creates the target of a link.
    ByLink,
}

/// Remaining part of a call that opens a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The whole call.
    All(Made),
    /// Nothing: the result is known.
    Nothing(Made, isize),
    /// The call from its start: another rank has changed the name meanwhile.
    Again,
}

/// Prepares the open of a file for writing, before overlayfs copies the file. If the open truncates the file, or
/// creates it through a link, this function makes the call. The call gets the name of the file itself and must not
/// follow links, since another rank may put another file in the place of the link.
pub fn opening(
    directory: i32,
    path: &CStr,
    flags: i32,
    call: impl FnOnce(&CStr, i32) -> isize,
) -> Left {
    const EXCLUSIVE: i32 = libc::O_CREAT | libc::O_EXCL;
    let exclusive = flags & EXCLUSIVE == EXCLUSIVE;
    let follow = flags & libc::O_NOFOLLOW == 0 && !exclusive;
    let Some((name, whole)) = named(directory, path, follow) else {
        return Left::All(Made::Not);
    };
    let empties = flags & libc::O_TRUNC != 0;
    // For a directory name, the kernel reports with O_CREAT why it creates no file.
    let is_directory = path.to_bytes().ends_with(b"/");
    let open = |more| call(&whole, more);
    let note = |noting: &mut Noting| match noting.current(&name) {
        Current::Absent if flags & libc::O_CREAT != 0 => {
            noting.naming(&name);
            match name_of(directory, path, false).as_ref() == Some(&name) {
                true => Left::All(Made::Exclusively),
                false => Left::after(Made::ByLink, open(libc::O_EXCL)),
            }
        }
        Current::Absent if empties => Left::Nothing(Made::Not, open(libc::O_NOFOLLOW)),
        Current::File(facts) if empties => {
            noting.changing_named(&name, &facts, 0..u64::MAX);
            Left::after(Made::Not, open(libc::O_NOFOLLOW))
        }
        Current::File(_) if flags & EXCLUSIVE == libc::O_CREAT && !is_directory => {
            Left::All(Made::There)
        }
        // The name was no link when it was resolved.
        Current::Link(_) if follow => Left::Again,
        _ => Left::All(Made::Not),
    };
    let work = |noting: &mut Noting| match empties {
        true => noting.while_held(&[&name], false, note),
        false => note(noting),
    };
    let left = noting().and_then(|mut all| all.run(work));
    left.unwrap_or(Left::All(Made::Not))
}

impl Left {
    /// Decides from the call's result whether the state found before it still held.
    fn after(made: Made, result: isize) -> Left {
        const AGAIN: [isize; 3] = [
            syscall::err(libc::EEXIST),
            syscall::err(libc::ELOOP),
            syscall::err(libc::ENOENT),
        ];
        match AGAIN.contains(&result) {
            true => Left::Again,
            false => Left::Nothing(made, result),
        }
    }
}

/// Absolute name for a call, as path and as C string.
fn named(directory: i32, path: &CStr, follow: bool) -> Option<(PathBuf, CString)> {
    let name = name_of(directory, path, follow)?;
    let whole = CString::new(name.as_os_str().as_bytes()).ok()?;
    Some((name, whole))
}

impl Noting {
    /// Runs `work` while no other rank changes these names, or any name if a directory `moves`.
    fn while_held<R>(
        &mut self,
        names: &[&Path],
        moves: bool,
        work: impl FnOnce(&mut Noting) -> R,
    ) -> R {
        let mut locks = std::mem::replace(&mut self.names, NameLocks::None);
        let held = locks.hold(names, moves);
        let result = work(self);
        drop(held);
        self.names = locks;
        result
    }

    /// Journals access rights that are about to change.
    fn changing_mode(&mut self, name: &Path) {
        match self.current(name) {
            Current::File(facts) => self.journal.opened(&facts, &|| name.to_owned()),
            Current::Directory(_) => self.naming(name),
            _ => {}
        }
    }

    /// Journals the bytes of a file that are about to be overwritten or cut off, by its name.
    fn changing_named(&mut self, name: &Path, facts: &Facts, bytes: Range<u64>) {
        let reader = self.reader.clone();
        let file = device_and_inode(&facts.identity);
        let read = |at, len| ask(&reader, name.to_owned(), file, at, len);
        let name = || name.to_owned();
        self.journal.changing(facts, &name, bytes, &read);
    }
}

/// Records a file opened for writing, as returned by `note_opened`. `made` is the time after which the call may have
/// created it.
pub fn opened(fd: i32, (facts, name): (libc::stat, PathBuf), made: Option<u64>) {
    let work = |noting: &mut Noting| {
        if is_device(&name) {
            return;
        }
        let identity = noting.identity(facts.st_dev, facts.st_ino, &fd_path(fd));
        // An unnamed file gets its first name later, or never.
        let unnamed = facts.st_nlink == 0;
        if made.is_some() || unnamed {
            let place = noting.place(&name);
            let place = (!unnamed).then_some(place);
            let since = made.unwrap_or_else(undo::now);
            return noting.journal.created(identity, place, since);
        }
        let facts = Facts::open(identity, &facts);
        noting.journal.opened(&facts, &|| name.clone());
    };
    noting().map(|mut all| all.run(work));
}

/// Journals the bytes of a file that are about to be overwritten or cut off, through a descriptor.
pub fn changing(fd: i32, bytes: Range<u64>) {
    let work = |noting: &mut Noting| {
        if let Some(open) = noting.look(fd) {
            noting.changing(fd, &open, bytes);
        }
    };
    noting().map(|mut all| all.run(work));
}

/// Journals the bytes of a file that come into reach of the program's memory if the shared mapping at `address`, of
/// `len` bytes, is enlarged to `new_len`.
pub fn enlarging(address: usize, len: usize, new_len: usize) {
    let work = |noting: &mut Noting| {
        let mapping = proc_maps::at(address).filter(|mapping| mapping.shared)?;
        let name = PathBuf::from(OsString::from_vec(mapping.path));
        // A file without a name is in the image.
        let found = std::fs::symlink_metadata(&name).ok()?;
        if is_device(&name) || !found.is_file() || found.ino() != mapping.inode {
            return None;
        }
        let facts = noting.facts(&found, &name);
        let start = mapping.offset + (address as u64 - mapping.start);
        let bytes = start + len as u64..start.saturating_add(new_len as u64);
        noting.changing_named(&name, &facts, bytes);
        Some(())
    };
    noting().map(|mut all| all.run(work));
}

/// Journals a write of `len` bytes at the descriptor's position. Makes the call itself if the position must not move
/// meanwhile. None if nothing is to be journaled, and the call is still to be made.
pub fn changing_at_position(fd: i32, len: u64, call: impl FnOnce() -> isize) -> Option<isize> {
    let work = |noting: &mut Noting| {
        let open = noting.look(fd).filter(|open| !open.appends)?;
        let at = descriptor::position(fd)?;
        noting.changing(fd, &open, at..at.saturating_add(len));
        Some(call())
    };
    noting()?.run(work)?
}

/// Journals a truncation by name and makes the call, which gets the name of the file itself. Returns its result; None
/// if nothing is to be journaled.
pub fn truncating(
    directory: i32,
    path: &CStr,
    len: u64,
    mut call: impl FnMut(&CStr) -> isize,
) -> Option<isize> {
    // Another rank may put a link there meanwhile.
    for _ in 0..MOST_LINKS {
        let (name, whole) = named(directory, path, true)?;
        let note = |noting: &mut Noting| match noting.current(&name) {
            Current::Link(_) => None,
            Current::File(facts) => {
                noting.changing_named(&name, &facts, len..u64::MAX);
                Some(call(&whole))
            }
            _ => Some(call(&whole)),
        };
        let done = noting()?.run(|noting| noting.while_held(&[&name], false, note))?;
        if done.is_some() {
            return done;
        }
    }
    None
}

/// Journals the removal of a name and makes the call. Returns its result; None if nothing is to be journaled.
pub fn unlinking(directory: i32, path: &CStr, call: impl FnOnce() -> isize) -> Option<isize> {
    let name = name_of(directory, path, false)?;
    let note = |noting: &mut Noting| {
        noting.losing_name(&name);
        call()
    };
    noting()?.run(|noting| noting.while_held(&[&name], false, note))
}

/// Journals a second name of a file.
pub fn linking(from: (i32, &CStr), to: (i32, &CStr), follow: bool) {
    if let Some(name) = name_of(from.0, from.1, follow) {
        // The journal knows the file by its first name.
        let work = |noting: &mut Noting| {
            if let Current::File(facts) = noting.current(&name) {
                noting.journal.opened(&facts, &|| name.clone());
            }
        };
        noting().map(|mut all| all.run(work));
    }
    naming(to.0, to.1);
}

/// Journals a new name, of a link or a directory.
pub fn naming(directory: i32, path: &CStr) {
    if let Some(name) = name_of(directory, path, false) {
        let work = |noting: &mut Noting| {
            if matches!(noting.current(&name), Current::Absent) {
                noting.naming(&name);
            }
        };
        noting().map(|mut all| all.run(work));
    }
}

/// Journals the access rights of what a name leads to.
pub fn changing_mode(directory: i32, path: &CStr, follow: bool) {
    if let Some(name) = name_of(directory, path, follow) {
        noting().map(|mut all| all.run(|noting| noting.changing_mode(&name)));
    }
}

/// Journals the access rights of an open file or directory.
pub fn changing_mode_of(fd: i32) {
    // The image holds a file that has no name, so the journal need not.
    if let Some(name) = link_of(fd).filter(|name| !is_device(name)) {
        noting().map(|mut all| all.run(|noting| noting.changing_mode(&name)));
    }
}

/// Journals a rename, or (`exchange`) an exchange of two names, and makes the call. Returns its result; None if nothing
/// is to be journaled.
pub fn renaming(
    from: (i32, &CStr),
    to: (i32, &CStr),
    exchange: bool,
    call: impl FnOnce() -> isize,
) -> Option<isize> {
    let mut from = name_of(from.0, from.1, false)?;
    let mut to = name_of(to.0, to.1, false)?;
    let is_directory =
        |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    // An exchange has no direction: it is journaled as the rename of a directory if one of the two is one.
    if exchange && is_directory(&to) {
        std::mem::swap(&mut from, &mut to);
    }
    let moves = is_directory(&from);
    let note = |noting: &mut Noting| {
        let directory = match noting.current(&from) {
            Current::Directory(facts) => Some(facts.identity),
            _ => None,
        };
        match (directory, exchange) {
            // Both names lead to what they led to before, once the names are exchanged again.
            (Some(_), true) => {}
            (Some(_), false) | (None, true) => noting.naming(&to),
            (None, false) => noting.losing_name(&to),
        }
        match directory {
            Some(directory) => noting.journal.moving(directory, &from, &to, exchange),
            None => noting.naming(&from),
        }
        let result = call();
        if directory.is_some() && syscall::is_err(result) {
            noting.journal.stayed(&from, &to);
        }
        result
    };
    noting()?.run(|noting| noting.while_held(&[&from, &to], moves, note))
}
