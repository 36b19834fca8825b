//! The functions of windows whose displacement unit is an MPI_Aint. It is a size in bytes of the
//! window's memory, so one that does not fit an int is refused.
//!
//! # Safety
//! As for `window`.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see `window`

use super::create::{win_allocate, win_allocate_shared, win_create, win_shared_query};
use crate::object::{Comm, Info, Win};
use crate::unsupported;
use contract::abi::{ERR_UNSUPPORTED_OPERATION, SUCCESS};
use core::ffi::c_void;

/// Calls the ordinary form with the unit as an int, or refuses the function of that name.
fn narrowed(unit: isize, name: &str, ordinary: impl FnOnce(i32) -> i32) -> i32 {
    match i32::try_from(unit) {
        Ok(unit) => ordinary(unit),
        Err(_) => {
            unsupported(name, "a displacement unit is at most 2147483647 bytes");
            ERR_UNSUPPORTED_OPERATION
        }
    }
}

/// MPI_Win_create_c.
pub unsafe fn win_create_c(
    base: *mut c_void,
    size: isize,
    disp_unit: isize,
    info: &'static Info,
    comm: &'static Comm,
    win: *mut &'static Win,
) -> i32 {
    // SAFETY: passed on.
    narrowed(disp_unit, "MPI_Win_create_c", |unit| unsafe {
        win_create(base, size, unit, info, comm, win)
    })
}

/// MPI_Win_allocate_c.
pub unsafe fn win_allocate_c(
    size: isize,
    disp_unit: isize,
    info: &'static Info,
    comm: &'static Comm,
    baseptr: *mut c_void,
    win: *mut &'static Win,
) -> i32 {
    // SAFETY: passed on.
    narrowed(disp_unit, "MPI_Win_allocate_c", |unit| unsafe {
        win_allocate(size, unit, info, comm, baseptr, win)
    })
}

/// MPI_Win_allocate_shared_c.
pub unsafe fn win_allocate_shared_c(
    size: isize,
    disp_unit: isize,
    info: &'static Info,
    comm: &'static Comm,
    baseptr: *mut c_void,
    win: *mut &'static Win,
) -> i32 {
    // SAFETY: passed on.
    narrowed(disp_unit, "MPI_Win_allocate_shared_c", |unit| unsafe {
        win_allocate_shared(size, unit, info, comm, baseptr, win)
    })
}

/// MPI_Win_shared_query_c.
pub unsafe fn win_shared_query_c(
    win: &'static Win,
    rank: i32,
    size: *mut isize,
    disp_unit: *mut isize,
    baseptr: *mut c_void,
) -> i32 {
    let mut unit = 0;
    // SAFETY: passed on, with a place for the unit.
    let code = unsafe { win_shared_query(win, rank, size, &raw mut unit, baseptr) };
    if code == SUCCESS {
        // SAFETY: MPI's contract for an out parameter.
        unsafe { *disp_unit = unit as isize };
    }
    code
}
