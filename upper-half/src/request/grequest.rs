//! Generalized requests: operations of the application's own making. They live in the upper half alone; waits for them
//! poll, and the application says when they are done.
//!
//! # Safety
//! The callbacks are the application's, with the signatures that MPI prescribes.
#![allow(unsafe_code)]

use crate::object::comm::NOBODY;
use crate::object::request::generalized::{Cancel, Free, Generalized, Query};
use crate::object::request::{Kind, State};
use crate::object::{Comm, Request};
use crate::request::lifecycle;
use contract::abi::{ERR_ARG, ERR_REQUEST, SUCCESS};
use core::ffi::c_void;

/// Makes the functions of a generalized request be called as Fortran's. What it was started with as
/// extra state is then the address of the integer that they get.
pub fn grequest_is_fortran(request: &'static Request) {
    if let Some(mut generalized) = request.body.generalized.take() {
        generalized.fortran = true;
        request.body.generalized.set(Some(generalized));
    }
}

/// MPI_Grequest_start
///
/// # Safety
/// The functions may be called with `extra_state` until the request is freed.
pub unsafe fn grequest_start(
    query_fn: Option<Query>,
    free_fn: Option<Free>,
    cancel_fn: Option<Cancel>,
    extra_state: *mut c_void,
    request: &mut &'static Request,
) -> i32 {
    let (Some(query), Some(free), Some(cancel)) = (query_fn, free_fn, cancel_fn) else {
        return ERR_ARG;
    };
    let new = match lifecycle::acquire(Kind::Generalized, NOBODY, Comm::null()) {
        Ok(new) => new,
        Err(error) => return error,
    };
    let generalized = Generalized {
        query,
        free,
        cancel,
        extra: extra_state,
        fortran: false,
    };
    new.body.generalized.set(Some(Box::new(generalized)));
    new.clear_lower();
    new.body.state.set(State::Upper);
    *request = new;
    SUCCESS
}

/// MPI_Grequest_complete
pub fn grequest_complete(request: &'static Request) -> i32 {
    let body = &request.body;
    if body.kind.get() != Kind::Generalized || body.state.get() != State::Upper {
        return ERR_REQUEST;
    }
    body.state.set(State::Done);
    if body.orphan.get() {
        lifecycle::reap();
    }
    SUCCESS
}
