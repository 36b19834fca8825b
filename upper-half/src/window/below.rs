//! What is asked of the window below while one lives; a window of one process has none (see `alone`).
//!
//! Handles are read in the crossings themselves ([`crate::lower::named`]): an operation that is composed of several may park
//! between two of them, for a lock that another rank holds, and goes on over another library then.
//!
//! # Safety
//! As for `window`: all are crossings, of live objects, with the application's memory or room of ours.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // the same for all: see the head
#![allow(clippy::too_many_arguments)] // MPI's own signatures

use super::data::Data;
use crate::code::check;
use crate::lower::named;
use crate::object::{Comm, Datatype, Op, Win};
use contract::abi::{datatype, op};
use core::ffi::c_void;

/// Elements at a rank: how many of which datatype, and where, in bytes from the window's start on.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub(super) rank: i32,
    pub(super) place: isize,
    pub(super) count: i32,
    pub(super) datatype: &'static Datatype,
}

/// MPI_Get.
pub(super) unsafe fn get(to: Data, from: At, win: &'static Win) -> Result<(), i32> {
    // SAFETY: see the head of this file.
    check(unsafe {
        named::MPI_Get(
            to.0,
            to.1,
            to.2,
            from.rank,
            from.place,
            from.count,
            from.datatype,
            win,
        )
    })
}

/// MPI_Put.
pub(super) unsafe fn put(from: Data, to: At, win: &'static Win) -> Result<(), i32> {
    // SAFETY: see the head of this file.
    check(unsafe {
        named::MPI_Put(
            from.0,
            from.1,
            from.2,
            to.rank,
            to.place,
            to.count,
            to.datatype,
            win,
        )
    })
}

/// MPI_Accumulate.
pub(super) unsafe fn accumulate(
    from: Data,
    to: At,
    op: &'static Op,
    win: &'static Win,
) -> Result<(), i32> {
    // SAFETY: see the head of this file.
    check(unsafe {
        named::MPI_Accumulate(
            from.0,
            from.1,
            from.2,
            to.rank,
            to.place,
            to.count,
            to.datatype,
            op,
            win,
        )
    })
}

/// MPI_Get_accumulate.
pub(super) unsafe fn get_accumulate(
    from: Data,
    result: Data,
    to: At,
    op: &'static Op,
    win: &'static Win,
) -> Result<(), i32> {
    // SAFETY: see the head of this file.
    check(unsafe {
        named::MPI_Get_accumulate(
            from.0,
            from.1,
            from.2,
            result.0,
            result.1,
            result.2,
            to.rank,
            to.place,
            to.count,
            to.datatype,
            op,
            win,
        )
    })
}

/// MPI_Fetch_and_op, of one element.
pub(super) unsafe fn fetch_and_op(
    from: *const c_void,
    result: *mut c_void,
    to: At,
    op: &'static Op,
    win: &'static Win,
) -> Result<(), i32> {
    // SAFETY: see the head of this file.
    check(unsafe { named::MPI_Fetch_and_op(from, result, to.datatype, to.rank, to.place, op, win) })
}

/// MPI_Compare_and_swap, of one element.
pub(super) unsafe fn compare_and_swap(
    from: *const c_void,
    compare: *const c_void,
    result: *mut c_void,
    to: At,
    win: &'static Win,
) -> Result<(), i32> {
    // SAFETY: see the head of this file.
    check(unsafe {
        named::MPI_Compare_and_swap(from, compare, result, to.datatype, to.rank, to.place, win)
    })
}

/// MPI_Reduce_local.
pub(super) unsafe fn reduce_local(
    from: *const c_void,
    to: *mut c_void,
    (count, element): (i32, &'static Datatype),
    op: &'static Op,
) -> Result<(), i32> {
    // SAFETY: see the head of this file.
    check(unsafe { named::MPI_Reduce_local(from, to, count, element, op) })
}

/// Waits for all members; inside of a counted collective operation.
pub(super) unsafe fn barrier(comm: &'static Comm) -> Result<(), i32> {
    // SAFETY: see the head of this file.
    check(unsafe { named::MPI_Barrier(comm) })
}

/// Completes the operations of this rank at `rank`.
pub(super) unsafe fn flush(rank: i32, win: &'static Win) -> Result<(), i32> {
    match win.body.is_alone() {
        true => Ok(()),
        // SAFETY: passed on.
        false => check(unsafe { named::MPI_Win_flush(rank, win) }),
    }
}

/// Completes the operations of this rank everywhere.
pub(super) unsafe fn flush_all(win: &'static Win) -> Result<(), i32> {
    match win.body.is_alone() {
        true => Ok(()),
        // SAFETY: passed on.
        false => check(unsafe { named::MPI_Win_flush_all(win) }),
    }
}

/// Lets loads and stores of this rank and what operations do see each other.
pub(super) unsafe fn sync(win: &'static Win) -> Result<(), i32> {
    match win.body.is_alone() {
        true => Ok(()),
        // SAFETY: passed on.
        false => check(unsafe { named::MPI_Win_sync(win) }),
    }
}

/// Begins to add to a word of a rank's locks, in the window below over these; `before` gets its value when that
/// is complete.
pub(super) unsafe fn begin_add(
    value: *const i64,
    before: *mut i64,
    (rank, word): (i32, isize),
    win: &'static Win,
) -> Result<(), i32> {
    // SAFETY: see the head of this file.
    check(unsafe {
        named::MPI_Fetch_and_op(
            value.cast(),
            before.cast(),
            Datatype::at(datatype::INT64_T as u32),
            rank,
            word,
            Op::at(op::SUM as u32),
            &win.body.locks_below,
        )
    })
}

/// Completes what was begun at a rank's locks.
pub(super) unsafe fn complete_adds(rank: i32, win: &'static Win) -> Result<(), i32> {
    // SAFETY: see the head of this file.
    check(unsafe { named::MPI_Win_flush(rank, &win.body.locks_below) })
}
