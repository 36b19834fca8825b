//! What is asked of the window below while one lives; a window of one process has none (see `alone`).
//!
//! # Safety
//! As for `window`.
#![allow(unsafe_code)]

use crate::code::check;
use crate::lower;
use crate::object::Win;

/// Completes the operations of this rank at `rank`.
///
/// # Safety
/// Crosses; the window lives.
pub(super) unsafe fn flush(rank: i32, win: &'static Win) -> Result<(), i32> {
    match win.body.is_alone() {
        true => Ok(()),
        // SAFETY: passed on.
        false => check(unsafe { lower::MPI_Win_flush(rank, win.lower()) }),
    }
}

/// Completes the operations of this rank everywhere.
///
/// # Safety
/// Crosses; the window lives.
pub(super) unsafe fn flush_all(win: &'static Win) -> Result<(), i32> {
    match win.body.is_alone() {
        true => Ok(()),
        // SAFETY: passed on.
        false => check(unsafe { lower::MPI_Win_flush_all(win.lower()) }),
    }
}

/// Lets loads and stores of this rank and what operations do see each other.
///
/// # Safety
/// Crosses; the window lives.
pub(super) unsafe fn sync(win: &'static Win) -> Result<(), i32> {
    match win.body.is_alone() {
        true => Ok(()),
        // SAFETY: passed on.
        false => check(unsafe { lower::MPI_Win_sync(win.lower()) }),
    }
}
