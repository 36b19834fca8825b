//! The functions of `stasis_mpix.h`.
//!
//! # Safety
//! The front passes on what the program gave to the functions of `stasis_mpix.h`, which fixes the type of each
//! argument.
#![allow(unsafe_code)]

use super::handles::{self, Handler, KEPT};
use super::record::Record;
use super::state::{is_broken, is_on, EPOCH};
use super::{files, reload};
use crate::crossing::report::{advise, require_lower_half};
use crate::error::raise::raise_comm;
use crate::object::request::State;
use crate::object::table::Body;
use crate::object::{Comm, FileBody, WinBody};
use crate::request::lifecycle;
use contract::abi::*;
use contract::{gate, MpiState};
use core::ffi::c_void;
use core::sync::atomic::Ordering;

/// Operations of `stasis_mpix.h`.
mod operation {
    pub(super) const WRITE: i32 = 1;
    pub(super) const READ: i32 = 2;
    pub(super) const EPOCH: i32 = 3;
    pub(super) const SERIALIZE: i32 = 4;
    pub(super) const DESERIALIZE: i32 = 5;
    pub(super) const ON_SERIALIZE: i32 = 6;
    pub(super) const ON_DESERIALIZE: i32 = 7;
}

/// The entry point of `stasis_mpix.h`: an error code of the standard ABI.
///
/// # Safety
/// `argument` is what the header passes with that operation.
pub unsafe fn ask(operation: i32, argument: *mut c_void) -> i32 {
    require_lower_half();
    let (name, code) = match operation {
        operation::EPOCH => {
            // SAFETY: the program's place for an int.
            unsafe {
                argument
                    .cast::<i32>()
                    .write(EPOCH.load(Ordering::Relaxed) as i32)
            };
            return SUCCESS;
        }
        operation::WRITE => ("MPIX_Checkpoint_write", write()),
        operation::READ => ("MPIX_Checkpoint_read", reload::read()),
        operation::SERIALIZE => ("MPIX_Serialize_handles", serialize()),
        operation::DESERIALIZE => {
            handles::deserialize();
            return SUCCESS;
        }
        operation::ON_SERIALIZE => return handles::register(Handler::Serialize, argument),
        operation::ON_DESERIALIZE => return handles::register(Handler::Deserialize, argument),
        _ => ("stasis_mpix", ERR_ARG),
    };
    match code {
        SUCCESS => SUCCESS,
        code => raise_comm(Comm::null(), code, name),
    }
}

/// Whether the state of MPI can be saved now.
fn may_save(function: &str) -> i32 {
    if !gate().mpi_is(MpiState::Initialised) {
        // It ends the program with a message.
        return ERR_OTHER;
    }
    if is_broken() {
        return ERR_TRY_RELOAD;
    }
    let pending = |state| matches!(state, State::Active | State::Upper | State::Done);
    let pending = lifecycle::all().filter(|request| pending(request.body.state.get()));
    let pending = pending.count();
    if pending > 0 {
        advise(&format!(
            "{function}: {pending} requests are pending, which cannot be saved: wait for them before the call"
        ));
        return ERR_PENDING;
    }
    if is_on() && WinBody::table().live() + FileBody::table().live() > 0 {
        advise(&format!(
            "{function}: windows and open files cannot be saved under `stasis run --stages`: free and close them before \
             the call, or use `stasis run` without --stages (docs/not-supported.md)"
        ));
        return ERR_UNSUPPORTED_OPERATION;
    }
    SUCCESS
}

/// MPIX_Checkpoint_write.
fn write() -> i32 {
    let code = may_save("MPIX_Checkpoint_write");
    if code != SUCCESS {
        return code;
    }
    let kept = handles::serialize();
    let epoch = EPOCH.load(Ordering::Relaxed) + 1;
    let code = save(epoch, kept);
    if code == SUCCESS {
        EPOCH.store(epoch, Ordering::Relaxed);
    }
    code
}

/// MPIX_Serialize_handles: the handles of the last epoch again.
fn serialize() -> i32 {
    let code = may_save("MPIX_Serialize_handles");
    if code != SUCCESS {
        return code;
    }
    let kept = handles::serialize();
    match EPOCH.load(Ordering::Relaxed) {
        0 => {
            *KEPT.lock() = kept;
            SUCCESS
        }
        epoch => save(epoch, kept),
    }
}

fn save(epoch: u64, kept: Vec<handles::Kept>) -> i32 {
    if is_on() {
        let code = files::keep(epoch, &Record::now(kept.clone()));
        if code != SUCCESS {
            return code;
        }
    }
    *KEPT.lock() = kept;
    SUCCESS
}
