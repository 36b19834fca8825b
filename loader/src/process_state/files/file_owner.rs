//! The owner of an open file and the signal by which the kernel tells that it is ready (F_SETOWN, F_SETSIG, O_ASYNC).

use super::Files;
use crate::error::RestoreError;
use crate::interpose::threads;
use crate::sys::descriptor::fcntl;
use crate::sys::syscall::{self, F_GETSIG, F_OWNER_PGRP, F_OWNER_PID, F_OWNER_TID, F_SETSIG};
use serde::{Deserialize, Serialize};

/// Owners of open files. The version of the section *file owners* (`ckpt-image/src/format/section.rs`) changes with any
/// change here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileOwners {
    files: Vec<OwnedFile>,
}

/// An open file that has an owner or a signal of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OwnedFile {
    /// Its index in the list of open files.
    open: u32,
    owner: Option<Owner>,
    /// The signal; 0 for SIGIO.
    signal: i32,
}

/// The receiver of the signal. A process outside of the job is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Owner {
    Process,
    /// The thread with this id of the application.
    Thread(u32),
    /// The process group of the launcher.
    Group,
}

impl Owner {
    fn of(fd: i32) -> Option<Owner> {
        let [kind, id] = syscall::file_owner(fd)?;
        let id = u32::try_from(id).ok().filter(|id| *id != 0)?;
        match kind {
            F_OWNER_TID => threads::application_tid(id).map(Owner::Thread),
            F_OWNER_PID if id == threads::real_pid() => Some(Owner::Process),
            F_OWNER_PGRP if id == syscall::process_group() => Some(Owner::Group),
            _ => None,
        }
    }

    fn kernels(self, real_tid: &dyn Fn(u32) -> u32) -> [i32; 2] {
        match self {
            Owner::Process => [F_OWNER_PID, syscall::getpid() as i32],
            Owner::Thread(tid) => [F_OWNER_TID, real_tid(tid) as i32],
            Owner::Group => [F_OWNER_PGRP, syscall::process_group() as i32],
        }
    }
}

impl FileOwners {
    /// Adds what the kernel tells of this descriptor, the first of an open file.
    pub(super) fn add(&mut self, open: usize, fd: i32) {
        let (owner, signal) = (Owner::of(fd), fcntl(fd, F_GETSIG, 0).unwrap_or(0));
        if owner.is_some() || signal != 0 {
            self.files.push(OwnedFile {
                open: open as u32,
                owner,
                signal,
            });
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether all belong to these open files.
    pub(super) fn fit(&self, open: usize) -> bool {
        self.files.iter().all(|file| (file.open as usize) < open)
    }
}

impl Files {
    /// Gives the files, which are at their numbers, their owners and signals. From then on the kernel sends signals.
    /// `real_tid` maps the ids of the threads, which exist.
    pub(in crate::process_state) fn notify(
        &self,
        real_tid: &dyn Fn(u32) -> u32,
    ) -> Result<(), RestoreError> {
        let failed = RestoreError::system("setting the owner of an open file");
        for file in &self.owners.files {
            let fd = self.first_descriptor(file.open as usize);
            let fd = fd.ok_or(RestoreError::Table)?;
            if let Some(owner) = file.owner {
                let result = syscall::set_file_owner(fd, &owner.kernels(real_tid));
                if syscall::is_err(result) {
                    return Err(failed(syscall::io_error(result)));
                }
            }
            fcntl(fd, F_SETSIG, file.signal).map_err(&failed)?;
        }
        for (index, file) in self.open.iter().enumerate() {
            if file.flags & libc::O_ASYNC != 0 && !file.is_launchers() {
                let fd = self.first_descriptor(index).ok_or(RestoreError::Table)?;
                let flags = fcntl(fd, libc::F_GETFL, 0).map_err(&failed)?;
                fcntl(fd, libc::F_SETFL, flags | libc::O_ASYNC).map_err(&failed)?;
            }
        }
        Ok(())
    }
}
