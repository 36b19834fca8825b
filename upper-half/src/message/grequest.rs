//! Generalized requests: operations of the application's own making. They live in the upper half
//! alone; waits for them poll, and the application says when they are done.
//!
//! # Safety
//! The callbacks are the application's, with the signatures that MPI prescribes. They run as if
//! outside of any wrapper, with no lock held.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // the same for all: see above

use super::counts::NOBODY;
use super::request::{self, Kind, State};
use crate::abi::abi;
use crate::object::{Comm, Request};
use crate::wrapper::outside;
use contract::abi::{Status, ERR_ARG, ERR_REQUEST, SUCCESS};
use core::ffi::c_void;

type Query = unsafe extern "C" fn(*mut c_void, *mut u8) -> i32;
type Free = unsafe extern "C" fn(*mut c_void) -> i32;
type Cancel = unsafe extern "C" fn(*mut c_void, i32) -> i32;

type FortranQuery = unsafe extern "C" fn(*mut c_void, *mut u8, *mut i32);
type FortranFree = unsafe extern "C" fn(*mut c_void, *mut i32);
type FortranCancel = unsafe extern "C" fn(*mut c_void, *mut i32, *mut i32);

/// Bytes that hold a status of any ABI.
const STATUS_BYTES: usize = 64;

/// The application's part of a generalized request.
pub(super) struct Generalized {
    query: Query,
    free: Free,
    cancel: Cancel,
    extra: *mut c_void,
    /// Whether the functions are Fortran's: arguments by reference, the error code behind them.
    fortran: bool,
}

impl Generalized {
    unsafe fn query(&self, status: *mut u8) -> i32 {
        // SAFETY: see the module's head; the language is as the front said.
        unsafe {
            if !self.fortran {
                return (self.query)(self.extra, status);
            }
            let mut code = SUCCESS;
            let query = core::mem::transmute::<Query, FortranQuery>(self.query);
            query(self.extra, status, &raw mut code);
            code
        }
    }

    unsafe fn free(&self) -> i32 {
        // SAFETY: as above.
        unsafe {
            if !self.fortran {
                return (self.free)(self.extra);
            }
            let mut code = SUCCESS;
            let free = core::mem::transmute::<Free, FortranFree>(self.free);
            free(self.extra, &raw mut code);
            code
        }
    }

    unsafe fn cancel(&self, complete: i32) -> i32 {
        // SAFETY: as above.
        unsafe {
            if !self.fortran {
                return (self.cancel)(self.extra, complete);
            }
            let (mut complete, mut code) = (complete, SUCCESS);
            let cancel = core::mem::transmute::<Cancel, FortranCancel>(self.cancel);
            cancel(self.extra, &raw mut complete, &raw mut code);
            code
        }
    }
}

/// Makes the functions of a generalized request be called as Fortran's. What it was started with as
/// extra state is then the address of the integer that they get.
pub fn grequest_is_fortran(request: &'static Request) {
    if let Some(mut generalized) = request.body.generalized.take() {
        generalized.fortran = true;
        request.body.generalized.set(Some(generalized));
    }
}

/// MPI_Grequest_start
pub unsafe fn grequest_start(
    query_fn: *const c_void,
    free_fn: *const c_void,
    cancel_fn: *const c_void,
    extra_state: *const c_void,
    request: *mut &'static Request,
) -> i32 {
    if query_fn.is_null() || free_fn.is_null() || cancel_fn.is_null() {
        return ERR_ARG;
    }
    let new = match request::acquire(Kind::Generalized, NOBODY, Comm::null()) {
        Ok(new) => new,
        Err(error) => return error,
    };
    // SAFETY: functions of these types, as MPI prescribes.
    let generalized = unsafe {
        Generalized {
            query: core::mem::transmute::<*const c_void, Query>(query_fn),
            free: core::mem::transmute::<*const c_void, Free>(free_fn),
            cancel: core::mem::transmute::<*const c_void, Cancel>(cancel_fn),
            extra: extra_state.cast_mut(),
            fortran: false,
        }
    };
    new.body.generalized.set(Some(Box::new(generalized)));
    new.set_lower(Request::null().lower());
    new.body.state.set(State::Upper);
    // SAFETY: the caller's place for a request.
    unsafe { request.write(new) };
    SUCCESS
}

/// MPI_Grequest_complete
pub unsafe fn grequest_complete(request: &'static Request) -> i32 {
    let body = &request.body;
    if body.kind.get() != Kind::Generalized || body.state.get() != State::Upper {
        return ERR_REQUEST;
    }
    body.state.set(State::Done);
    if body.orphan.get() {
        // SAFETY: reaping crosses.
        unsafe { request::reap() };
    }
    SUCCESS
}

/// Looks at the application's part without keeping it.
fn with<R>(request: &'static Request, f: impl FnOnce(&Generalized) -> R) -> Option<R> {
    let generalized = request.body.generalized.take()?;
    let copy = Generalized { ..*generalized };
    request.body.generalized.set(Some(generalized));
    Some(f(&copy))
}

/// Asks the application for the status of a complete request.
pub(super) fn query(request: &'static Request, status: &mut Status) -> i32 {
    with(request, |generalized| {
        let mut theirs = [0_u64; STATUS_BYTES / 8];
        let place = theirs.as_mut_ptr().cast::<u8>();
        debug_assert!(abi().status_size <= STATUS_BYTES);
        // SAFETY: room for a status of the application's ABI; its callback with its data.
        unsafe {
            (abi().status_out)(&Status::EMPTY, place);
            let code = outside(|| generalized.query(place));
            *status = (abi().status_in)(place);
            (abi().error_in)(code)
        }
    })
    .unwrap_or(ERR_REQUEST)
}

/// Tells the application that a cancel is asked for.
pub(super) fn cancel(request: &'static Request) -> i32 {
    let complete = i32::from(request.body.state.get() == State::Done);
    with(request, |generalized| {
        // SAFETY: the application's callback with its data.
        let code = outside(|| unsafe { generalized.cancel(complete) });
        (abi().error_in)(code)
    })
    .unwrap_or(ERR_REQUEST)
}

/// Lets the application free its data; the request is about to go.
#[cold]
pub(super) fn free(request: &'static Request) {
    if let Some(generalized) = request.body.generalized.take() {
        // SAFETY: the application's callback with its data, for the last time.
        outside(|| unsafe { generalized.free() });
    }
}
