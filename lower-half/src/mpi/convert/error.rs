//! Error codes: the library's to the standard's classes, with the library's own text kept.
//!
//! # Safety
//! Native functions get pointers to locals that outlive the call. They may be called before
//! MPI_Init and after MPI_Finalize where the standard allows that (MPI_Error_class,
//! MPI_Error_string), or on an object that a native constructor has just made.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_int};
use std::cell::Cell;

use contract::abi;

use super::handle::{lower, Handle};
use super::native;
use super::value_map::{self, NATIVE_SUCCESS};

thread_local! {
    /// The last native error code on this thread.
    static LAST: Cell<c_int> = const { Cell::new(NATIVE_SUCCESS) };
}

/// The standard error class for a native return value, which is stored for [`last_text`].
#[inline(always)]
pub fn result(code: c_int) -> i32 {
    if code == NATIVE_SUCCESS {
        return abi::SUCCESS;
    }
    standard(code)
}

/// The standard error class for a failing native return value, which is stored for [`last_text`].
#[cold]
pub fn standard(code: c_int) -> i32 {
    LAST.set(code);
    class(code)
}

/// The same for functions of the tools interface, whose codes are classes. They may be called when no other function of
/// MPI may.
#[cold]
pub fn of_tool(code: c_int) -> i32 {
    LAST.set(NATIVE_SUCCESS);
    value_map::error_standard(code)
}

/// The standard error class for a native error code.
#[cold]
pub fn class(code: c_int) -> i32 {
    if code == NATIVE_SUCCESS {
        return abi::SUCCESS;
    }
    let mut class = code;
    // SAFETY: see the head of this file.
    let known = unsafe { mpi_sys::MPI_Error_class(code, &mut class) };
    match known {
        NATIVE_SUCCESS => value_map::error_standard(class),
        _ => abi::ERR_UNKNOWN,
    }
}

/// The library's text for this thread's last failing call; empty if there was none.
pub fn last_text() -> Vec<u8> {
    let code = LAST.get();
    if code == NATIVE_SUCCESS {
        return Vec::new();
    }
    let mut text = vec![0_u8; abi::MAX_ERROR_STRING];
    let mut length = 0;
    // SAFETY: no library's MPI_MAX_ERROR_STRING exceeds the standard ABI's.
    let code =
        unsafe { mpi_sys::MPI_Error_string(code, text.as_mut_ptr().cast::<c_char>(), &mut length) };
    let length = if code == NATIVE_SUCCESS {
        usize::try_from(length).unwrap_or(0)
    } else {
        0
    };
    text.truncate(length);
    text
}

/// The error of a function that the library lacks, or that must not be called in it.
#[cold]
pub fn unsupported() -> i32 {
    LAST.set(NATIVE_SUCCESS);
    abi::ERR_UNSUPPORTED_OPERATION
}

/// The result of functions without an error code that only the upper half implements. It never calls them here.
#[cold]
pub fn upper_half_only<T>(name: &str) -> T {
    launcher::message::say(format_args!(
        "{name} reached the lower half, which must not happen: please report it"
    ));
    std::process::abort();
}

/// Makes the library return errors of a new communicator.
pub fn return_errors_of_comm(comm: mpi_sys::MPI_Comm) {
    // SAFETY: the library's own constants, and a live communicator. A failure leaves the inherited handler, which is
    // the same.
    unsafe {
        if lower(comm) != mpi_sys::RSMPI_COMM_NULL.lower() {
            mpi_sys::MPI_Comm_set_errhandler(comm, native::returning_from_comm());
        }
    }
}

/// Makes the library return errors of a new window.
pub fn return_errors_of_win(win: mpi_sys::MPI_Win) {
    // SAFETY: a live window and the library's own constant.
    unsafe { mpi_sys::MPI_Win_set_errhandler(win, native::returning_from_win()) };
}
