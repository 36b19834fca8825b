//! Start of a journal segment: at each checkpoint, and at a restart.

use super::journal::{fd_path, NOTING};
use super::{mpi_files, opened_for_write, watched_fds};
use crate::interpose::descriptors::fd_owner;
use crate::interpose::threads::stop::Stopped;
use crate::sys::descriptor::{fcntl, stat, writable};
use crate::sys::mutex::lock_of;
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use undo::{Cut, Facts};

/// Starts a new segment of the journal at this cut, with all threads stopped.
pub fn begin_segment(_stopped: &Stopped, cut: Cut) {
    let mut noting = lock_of(&NOTING);
    let Some(noting) = noting.as_mut() else {
        return;
    };
    let mut at_cut = HashMap::new();
    for (path, file) in opened_for_write::all() {
        // A file that is also open was not examined for the image, so its state is read here.
        let found = std::fs::symlink_metadata(&path);
        if let Some(found) = found
            .ok()
            .filter(|found| (found.dev(), found.ino()) == file.identity)
        {
            let facts = noting.facts(&found, &path);
            at_cut.insert(facts.identity, facts.at_cut());
        }
    }
    for fd in fd_owner::owned(0, i32::MAX) {
        let Ok(facts) = stat(fd) else { continue };
        let flags = fcntl(fd, libc::F_GETFL, 0).unwrap_or(0);
        if facts.st_mode & libc::S_IFMT == libc::S_IFREG && writable(flags) {
            let identity = noting.identity(facts.st_dev, facts.st_ino, &fd_path(fd));
            at_cut.insert(identity, Facts::open(identity, &facts).at_cut());
        }
    }
    for (path, file) in mpi_files::all() {
        let found = std::fs::symlink_metadata(&path);
        let found = found.ok().filter(|now| (now.dev(), now.ino()) == file);
        if let Some(found) = found {
            let facts = noting.facts(&found, &path);
            at_cut.insert(facts.identity, facts.at_cut());
        }
    }
    noting.open.clear();
    noting.journal.begin(cut, at_cut);
    watched_fds::begin();
}
