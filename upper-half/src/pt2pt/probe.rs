//! Probing. Early messages are older than anything in the lower half, so they answer first.
//!
//! # Safety
//! A wait may stop the process, and no lower handle of the lower half is held then.
#![allow(unsafe_code)]

use crate::argument::Out;
use crate::crossing::stubs::service;
use crate::object::lower_handle::named;
use crate::object::unexpected::Queue;
use crate::object::{unexpected, Comm};
use crate::perturb::open_probes::Attempt;
use crate::perturb::{self, open_probes, BY_THE_APPLICATION};
use crate::pt2pt::vain_probes::{self, Pattern};
use crate::quiesce::progress::{phase, polls};
use crate::quiesce::wait_loop;
use crate::quiesce::wait_loop::WaitState;
use crate::record::{mode, turns};
use crate::runtime::lock::multiple;
use contract::abi::{Status, PROC_NULL, SUCCESS};
use contract::waits::SOME_AMOUNT;
use contract::{Phase, INTERRUPTED};

/// The status of a probe that finds an early message, or is of no process.
fn early(source: i32, tag: i32, comm: &'static Comm) -> Option<Status> {
    if source == PROC_NULL {
        return Some(Status::PROC_NULL);
    }
    if !unexpected::any() {
        return None;
    }
    let queue = unexpected::queue();
    queue.find(comm, source, tag).map(|entry| entry.status())
}

/// Whether a probe that waits asks the lower half again and again, and does not wait there. While a checkpoint is
/// pending nobody else may look for its message: those of ranks that send synchronously are not pulled before all ranks
/// have stopped.
pub(crate) fn asks_below() -> bool {
    multiple() || polls() || phase() != Phase::Run
}

/// Waits in the upper half until a message matches, or until the lower half may be asked to wait again. An early
/// message, or an `(error, status)` of the lower half where [`asks_below`].
///
/// With several threads in MPI any of them may pull what another probes for, so that the lower half
/// is never left alone with a probe there.
///
/// # Errors
/// `INTERRUPTED` where [`mode::has_another_record`].
pub(crate) fn until_found(
    source: i32,
    tag: i32,
    comm: &'static Comm,
) -> Result<Option<(i32, Status)>, i32> {
    let restarts = mode::restarts();
    let mut found = None;
    let look = || match early(source, tag, comm) {
        Some(status) => Some((SUCCESS, status)),
        None if asks_below() => iprobe_below(source, tag, comm),
        None => None,
    };
    wait_loop::until(
        || {
            found = turns::look(look);
            if found.is_some() {
                WaitState::Ready
            } else if multiple() || polls() {
                WaitState::PollHere
            } else {
                WaitState::InLibrary
            }
        },
        |waits| waits.message(comm, source, tag, SOME_AMOUNT),
    );
    match mode::has_another_record(restarts) {
        true => Err(INTERRUPTED),
        false => Ok(found),
    }
}

/// MPI_Probe. Returns `INTERRUPTED` where [`mode::has_another_record`].
pub fn probe(source: i32, tag: i32, comm: &'static Comm, status: Option<&mut Status>) -> i32 {
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    if perturb::is_on() {
        if let Some(found) = open_probes::wait(source, tag, comm, status_at) {
            *status = found;
            return SUCCESS;
        }
    }
    loop {
        if let Some(found) = turns::look(|| early(source, tag, comm)) {
            *status = found;
            return SUCCESS;
        }
        if !asks_below() {
            // SAFETY: a handle of a live object, numbers, and a place for a status.
            let error = unsafe { service::probe(source, tag, comm.lower(), status) };
            if error != INTERRUPTED {
                return error;
            }
        }
        match until_found(source, tag, comm) {
            Err(interrupted) => return interrupted,
            Ok(Some((error, seen))) => {
                *status = seen;
                return error;
            }
            Ok(None) => {}
        }
    }
}

/// The status of the message at a position.
fn status_at(queue: &mut Queue, position: usize) -> Option<Status> {
    queue.entries.get(position).map(|entry| entry.status())
}

/// Asks the lower half: `(error, status)` if it has a message, or an error.
fn iprobe_below(source: i32, tag: i32, comm: &'static Comm) -> Option<(i32, Status)> {
    let looking = vain_probes::look(Pattern::new(source, tag, comm))?;
    let (mut flag, mut status) = (0, Status::EMPTY);
    let error = named::MPI_Iprobe(source, tag, comm, &mut flag, Some(&mut status));
    if flag == 0 && error == SUCCESS {
        looking.was_in_vain();
        return None;
    }
    Some((error, status))
}

/// MPI_Iprobe
pub fn iprobe(
    source: i32,
    tag: i32,
    comm: &'static Comm,
    mut flag: Out<'_, i32>,
    status: Option<&mut Status>,
) -> i32 {
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    flag.set(0);
    if perturb::is_on() {
        match open_probes::attempt(source, tag, comm, BY_THE_APPLICATION, status_at) {
            Attempt::Finds(found) => {
                flag.set(1);
                *status = found;
                return SUCCESS;
            }
            Attempt::Misses => {
                wait_loop::look_around(phase());
                return SUCCESS;
            }
            Attempt::IsUsual => {}
        }
    }
    if let Some(found) = early(source, tag, comm) {
        flag.set(1);
        *status = found;
        return SUCCESS;
    }
    if let Some((error, found)) = iprobe_below(source, tag, comm) {
        flag.set(i32::from(error == SUCCESS));
        *status = found;
        return error;
    }
    if phase() == Phase::Run && !polls() {
        return SUCCESS;
    }
    wait_loop::look_around(phase());
    if let Some(found) = early(source, tag, comm) {
        flag.set(1);
        *status = found;
        wait_loop::moving();
    } else if phase() != Phase::Run {
        wait_loop::polled(|waits| waits.message(comm, source, tag, SOME_AMOUNT));
    }
    SUCCESS
}
