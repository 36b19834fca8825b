//! Operations on the window below. A direct window has none (see `direct_window.rs`).
//!
//! Handles are read in the crossings themselves ([`crate::object::lower_handle::named`]): an operation that is composed
//! of several crossings may park between two of them, for a lock that another rank holds, and go on over another
//! library.
//!
//! # Safety
//! Crossings get buffers with the count and the datatype that they are valid for (see [`Data`]).
#![allow(unsafe_code)]
#![allow(clippy::too_many_arguments)] // MPI's own signatures

use crate::argument::Buffer;
use crate::crossing::mpi_result::check;
use crate::object::lower_handle::named;
use crate::object::{Datatype, Op, Win};
use contract::abi::{datatype, op, ERR_TRUNCATE};
use core::sync::atomic::{fence, Ordering};

/// Elements at a rank: how many of which datatype, and where, in bytes from the window's start on.
#[derive(Clone, Copy)]
pub(crate) struct At {
    pub(crate) rank: i32,
    pub(crate) place: isize,
    pub(crate) count: i32,
    pub(crate) datatype: &'static Datatype,
}

/// Elements of a datatype, in a buffer that is valid for them. An operation on a window may read or write there until
/// it is complete, so it gets a `Data<'static>`.
#[derive(Clone, Copy)]
pub(crate) struct Data<'a> {
    pub(crate) place: Buffer<'a>,
    pub(crate) count: i32,
    pub(crate) datatype: &'static Datatype,
}

impl<'a> Data<'a> {
    pub(crate) fn new(place: Buffer<'a>, count: i32, datatype: &'static Datatype) -> Self {
        Data {
            place,
            count,
            datatype,
        }
    }
}

/// MPI_Get.
pub(crate) fn get(to: Data<'static>, from: At, win: &'static Win) -> Result<(), i32> {
    // SAFETY: see the head of this file.
    check(unsafe {
        named::MPI_Get(
            to.place.as_ptr(),
            to.count,
            to.datatype,
            from.rank,
            from.place,
            from.count,
            from.datatype,
            win,
        )
    })
}

/// MPI_Put.
pub(crate) fn put(from: Data<'static>, to: At, win: &'static Win) -> Result<(), i32> {
    // SAFETY: see the head of this file.
    check(unsafe {
        named::MPI_Put(
            from.place.as_ptr(),
            from.count,
            from.datatype,
            to.rank,
            to.place,
            to.count,
            to.datatype,
            win,
        )
    })
}

/// MPI_Accumulate.
pub(crate) fn accumulate(
    from: Data<'static>,
    to: At,
    op: &'static Op,
    win: &'static Win,
) -> Result<(), i32> {
    // SAFETY: see the head of this file.
    check(unsafe {
        named::MPI_Accumulate(
            from.place.as_ptr(),
            from.count,
            from.datatype,
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
pub(crate) fn get_accumulate(
    from: Data<'static>,
    result: Data<'static>,
    to: At,
    op: &'static Op,
    win: &'static Win,
) -> Result<(), i32> {
    // SAFETY: see the head of this file.
    check(unsafe {
        named::MPI_Get_accumulate(
            from.place.as_ptr(),
            from.count,
            from.datatype,
            result.place.as_ptr(),
            result.count,
            result.datatype,
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
pub(crate) fn fetch_and_op(
    from: Buffer<'static>,
    result: Buffer<'static>,
    to: At,
    op: &'static Op,
    win: &'static Win,
) -> Result<(), i32> {
    // SAFETY: see the head of this file.
    check(unsafe {
        named::MPI_Fetch_and_op(
            from.as_ptr(),
            result.as_ptr(),
            to.datatype,
            to.rank,
            to.place,
            op,
            win,
        )
    })
}

/// MPI_Compare_and_swap, of one element.
pub(crate) fn compare_and_swap(
    from: Buffer<'static>,
    compare: Buffer<'static>,
    result: Buffer<'static>,
    to: At,
    win: &'static Win,
) -> Result<(), i32> {
    // SAFETY: see the head of this file.
    check(unsafe {
        named::MPI_Compare_and_swap(
            from.as_ptr(),
            compare.as_ptr(),
            result.as_ptr(),
            to.datatype,
            to.rank,
            to.place,
            win,
        )
    })
}

/// MPI_Reduce_local, of elements of a predefined datatype. There must be room for as many as are given.
pub(crate) fn reduce_local(from: Data<'_>, to: Data<'_>, op: &'static Op) -> Result<(), i32> {
    if from.count > to.count {
        return Err(ERR_TRUNCATE);
    }
    let (values, sums) = (from.place.as_ptr(), to.place.as_ptr());
    // SAFETY: there are as many elements of the one datatype in both.
    check(unsafe { named::MPI_Reduce_local(values, sums, from.count, to.datatype, op) })
}

/// Completes the operations of this rank at `rank`.
pub(crate) fn flush(rank: i32, win: &'static Win) -> Result<(), i32> {
    unless_direct(win, || named::MPI_Win_flush(rank, win))
}

/// Completes the operations of this rank everywhere.
pub(crate) fn flush_all(win: &'static Win) -> Result<(), i32> {
    unless_direct(win, || named::MPI_Win_flush_all(win))
}

/// Lets loads and stores of this rank and what operations do see each other.
pub(crate) fn sync(win: &'static Win) -> Result<(), i32> {
    unless_direct(win, || named::MPI_Win_sync(win))
}

/// Calls the library for a window that it has. The operations of a direct window are loads and stores, for which
/// a fence is enough.
#[inline]
fn unless_direct(win: &'static Win, call: impl FnOnce() -> i32) -> Result<(), i32> {
    match win.body.is_direct() {
        true => {
            fence(Ordering::SeqCst);
            Ok(())
        }
        false => check(call()),
    }
}

/// Begins to add to a word of a rank's locks, in the window below over these; `before` gets its value when that
/// is complete.
///
/// A sum and not a comparison: Open MPI 4.1.4 crashes in MPI_Compare_and_swap on its own rank.
///
/// # Safety
/// Both numbers live until then.
pub(crate) unsafe fn begin_add(
    value: *const i64,
    before: *mut i64,
    (rank, word): (i32, isize),
    win: &'static Win,
) -> Result<(), i32> {
    // SAFETY: the caller's promise.
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
pub(crate) fn complete_adds(rank: i32, win: &'static Win) -> Result<(), i32> {
    check(named::MPI_Win_flush(rank, &win.body.locks_below))
}
