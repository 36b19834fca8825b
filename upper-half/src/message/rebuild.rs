//! What a restart makes anew in the fresh lower half: persistent requests, and the receives that
//! were posted, in the order in which they were. Everything else was finished by the drain.
//!
//! # Safety
//! Runs on one thread, before any other is let go, with communicators and datatypes made anew.
#![allow(unsafe_code)]

use super::request::{self, Kind, State};
use super::{buffer, persistent};
use crate::lower;
use crate::object::Request;
use contract::abi::{ERR_INTERN, SUCCESS};
use core::ffi::c_void;

/// Makes this part's objects anew. Returns 0 or an error class.
pub(crate) fn rebuild() -> i32 {
    // SAFETY: see the module's head.
    match unsafe { run() } {
        Ok(()) => SUCCESS,
        Err(error) => error,
    }
}

unsafe fn run() -> Result<(), i32> {
    // SAFETY: passed on to the caller; arguments are those that the application gave.
    unsafe {
        check(buffer::rebuild())?;
        for request in request::all() {
            request.set_lower(Request::null().lower());
        }
        for request in request::persistent() {
            check(persistent::make_again(request))?;
        }
        for request in posted() {
            check(post(request))?;
        }
    }
    Ok(())
}

/// Operations that were under way, in the order in which they were posted.
fn posted() -> Vec<&'static Request> {
    let mut posted: Vec<_> = request::pending()
        .filter(|request| request.body.state.get() == State::Active)
        .collect();
    posted.sort_by_key(|request| request.body.serial.get());
    posted
}

unsafe fn post(request: &'static Request) -> i32 {
    let args = request.body.args.get();
    // SAFETY: the application's arguments, and the place of the request's word.
    unsafe {
        match request.body.kind.get() {
            Kind::Receive => lower::MPI_Irecv(
                args.buffer as *mut c_void,
                args.count,
                args.datatype.lower(),
                args.peer,
                args.tag,
                args.comm.lower(),
                request.lower_ptr(),
            ),
            Kind::PersistentReceive => lower::MPI_Start(request.lower_ptr()),
            // A drained rank has no other operation under way.
            _ => ERR_INTERN,
        }
    }
}

fn check(error: i32) -> Result<(), i32> {
    if error == SUCCESS {
        Ok(())
    } else {
        Err(error)
    }
}
