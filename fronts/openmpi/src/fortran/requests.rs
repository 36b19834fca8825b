//! Generalized requests with callbacks in Fortran's convention: arguments by reference, the error code
//! as the last of them. What is allocated for them is allocated and freed under a wrapper's guard.
//!
//! # Safety
//! The core calls the callbacks with the `extra_state` given here, which lives until the one that
//! frees has been called, as MPI prescribes.
#![allow(unsafe_code)]

use contract::abi::SUCCESS;
use core::ffi::c_void;
use upper_half::Wrapper;

use crate::abi;
use crate::functions as c;

type Query = unsafe extern "C" fn(*mut isize, *mut abi::Status, *mut i32);
type Free = unsafe extern "C" fn(*mut isize, *mut i32);
type Cancel = unsafe extern "C" fn(*mut isize, *mut i32, *mut i32);

/// The application's part of a generalized request.
struct Callbacks {
    query: Query,
    free: Free,
    cancel: Cancel,
    extra: isize,
}

unsafe extern "C" fn query(callbacks: *mut Callbacks, status: *mut abi::Status) -> i32 {
    let mut code = SUCCESS;
    // SAFETY: see the module's head.
    unsafe { ((*callbacks).query)(&raw mut (*callbacks).extra, status, &raw mut code) };
    code
}

unsafe extern "C" fn free(callbacks: *mut Callbacks) -> i32 {
    let mut code = SUCCESS;
    // SAFETY: see the module's head; this is the last callback.
    unsafe {
        ((*callbacks).free)(&raw mut (*callbacks).extra, &raw mut code);
        let _guard = Wrapper::enter();
        drop(Box::from_raw(callbacks));
    }
    code
}

unsafe extern "C" fn cancel(callbacks: *mut Callbacks, complete: i32) -> i32 {
    let (mut complete, mut code) = (complete, SUCCESS);
    // SAFETY: see the module's head.
    unsafe {
        ((*callbacks).cancel)(
            &raw mut (*callbacks).extra,
            &raw mut complete,
            &raw mut code,
        );
    }
    code
}

/// MPI_Grequest_start.
pub unsafe fn grequest_start(
    query_fn: *mut c_void,
    free_fn: *mut c_void,
    cancel_fn: *mut c_void,
    extra_state: *mut c_void,
    request: *mut i32,
) -> i32 {
    let _guard = Wrapper::enter();
    let mut made = 0;
    // SAFETY: functions of these types, as MPI prescribes; see the module's head.
    unsafe {
        let callbacks = Box::into_raw(Box::new(Callbacks {
            query: core::mem::transmute::<*mut c_void, Query>(query_fn),
            free: core::mem::transmute::<*mut c_void, Free>(free_fn),
            cancel: core::mem::transmute::<*mut c_void, Cancel>(cancel_fn),
            extra: *extra_state.cast::<isize>(),
        }));
        let code = c::PMPI_Grequest_start(
            query as *const c_void,
            free as *const c_void,
            cancel as *const c_void,
            callbacks.cast(),
            &raw mut made,
        );
        if code != SUCCESS {
            drop(Box::from_raw(callbacks));
        }
        *request = abi::request_c2f(made);
        code
    }
}
