//! Requests after a restart: persistent requests are made again in the new lower half, and the receives that were
//! posted are posted again, in their order. The drain has finished everything else.
//!
//! # Safety
//! Runs on one thread, before any other goes on, with communicators and datatypes made anew.
#![allow(unsafe_code)]

use crate::breakpoint;
use crate::crossing::stubs;
use crate::object::request::{Kind, State};
use crate::object::Request;
use crate::perturb;
use crate::pt2pt::{bsend_buffer, persistent_message};
use crate::record::receives;
use crate::request::lifecycle;
use contract::abi::{ERR_INTERN, SUCCESS};

/// Makes this part's objects anew. Returns 0 or an error class.
pub(crate) fn restore_requests() -> i32 {
    match run() {
        Ok(()) => SUCCESS,
        Err(error) => error,
    }
}

fn run() -> Result<(), i32> {
    check(bsend_buffer::reattach())?;
    for request in lifecycle::all() {
        request.clear_lower();
    }
    receives::restored();
    perturb::begin();
    breakpoint::begin();
    for request in lifecycle::persistent_below() {
        check(persistent_message::make_again(request))?;
    }
    for request in posted() {
        check(post(request))?;
    }
    Ok(())
}

/// Operations that were under way, in the order in which they were posted.
fn posted() -> Vec<&'static Request> {
    lifecycle::pending_as_posted(|request| request.body.state.get() == State::Active)
}

fn post(request: &'static Request) -> i32 {
    let args = request.body.args.get();
    // SAFETY: MPI keeps the program from its receive's buffer until the receive ends. The lower handle is in no other
    // call.
    unsafe {
        match request.body.kind.get() {
            Kind::Receive => stubs::MPI_Irecv(
                args.buffer.as_ptr(),
                args.count,
                args.datatype.lower(),
                args.peer,
                args.tag,
                args.comm.lower(),
                request.lower_ptr(),
            ),
            Kind::PersistentReceive => stubs::MPI_Start(request.lower_ptr()),
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
