//! Probing. Early messages are older than anything in the lower half, so they answer first.
//!
//! # Safety
//! Places for flags and statuses are the caller's.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // the same for all: see above

use super::park::{self, Look};
use super::sweep::phase;
use super::{batch, unexpected};
use crate::lower::{self, service};
use crate::object::Comm;
use crate::sync::multiple;
use contract::abi::{Status, PROC_NULL, SUCCESS};
use contract::{Phase, INTERRUPTED};

/// What a probe finds among the early messages, or of no process.
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

/// Waits in the upper half until an early message matches, or until the lower half may be asked
/// again. `look_below` is asked too, and says whether it found something.
///
/// With several threads in MPI any of them may pull what another probes for, so that the lower half
/// is never left alone with a probe there.
pub(super) unsafe fn until_found(
    source: i32,
    tag: i32,
    comm: &'static Comm,
    mut look_below: impl FnMut() -> bool,
) {
    // SAFETY: no word is in our hands.
    unsafe {
        park::until(
            || {
                if early(source, tag, comm).is_some() || look_below() {
                    Look::Ready
                } else if multiple() {
                    Look::Here
                } else {
                    Look::Below
                }
            },
            |set| batch::receive_waits_for(comm, source, set),
        );
    }
}

/// MPI_Probe
pub unsafe fn probe(source: i32, tag: i32, comm: &'static Comm, status: *mut Status) -> i32 {
    let mut own = Status::EMPTY;
    // SAFETY: a place for a status if it is not null.
    let status = unsafe { status.as_mut() }.unwrap_or(&mut own);
    loop {
        if let Some(found) = early(source, tag, comm) {
            *status = found;
            return SUCCESS;
        }
        if multiple() {
            let mut found = None;
            // SAFETY: crossings without further conditions.
            unsafe {
                until_found(source, tag, comm, || {
                    found = iprobe_below(source, tag, comm);
                    found.is_some()
                });
            }
            match found {
                Some((error, seen)) => {
                    *status = seen;
                    return error;
                }
                None => continue,
            }
        }
        // SAFETY: a place for a status.
        let error = unsafe { service::probe(source, tag, comm.lower(), status) };
        if error != INTERRUPTED {
            return error;
        }
        // SAFETY: a probe leaves nothing in the lower half.
        unsafe { until_found(source, tag, comm, || false) };
    }
}

/// Asks the lower half: `(error, status)` if it has a message, or an error.
unsafe fn iprobe_below(source: i32, tag: i32, comm: &'static Comm) -> Option<(i32, Status)> {
    let (mut flag, mut status) = (0, Status::EMPTY);
    // SAFETY: writes the two variables.
    let error =
        unsafe { lower::MPI_Iprobe(source, tag, comm.lower(), &raw mut flag, &raw mut status) };
    (flag != 0 || error != SUCCESS).then_some((error, status))
}

/// MPI_Iprobe
pub unsafe fn iprobe(
    source: i32,
    tag: i32,
    comm: &'static Comm,
    flag: *mut i32,
    status: *mut Status,
) -> i32 {
    let mut own = Status::EMPTY;
    // SAFETY: the caller's places.
    let (flag, status) = unsafe { (&mut *flag, status.as_mut().unwrap_or(&mut own)) };
    *flag = 0;
    if let Some(found) = early(source, tag, comm) {
        (*flag, *status) = (1, found);
        return SUCCESS;
    }
    // SAFETY: crossings without further conditions.
    unsafe {
        if let Some((error, found)) = iprobe_below(source, tag, comm) {
            (*flag, *status) = (i32::from(error == SUCCESS), found);
            return error;
        }
        if phase() != Phase::Run {
            park::look_around(phase());
            if let Some(found) = early(source, tag, comm) {
                (*flag, *status) = (1, found);
                park::moving();
            } else {
                park::polled(|set| batch::receive_waits_for(comm, source, set));
            }
        }
    }
    SUCCESS
}
