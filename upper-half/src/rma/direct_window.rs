//! Direct windows: the memory of every member is reached by loads and stores here. These are windows of one process,
//! and those of MPI_Win_allocate and MPI_Win_allocate_shared whose members are on one node
//! (`node_parts.rs`). There is no window below: data is copied from datatype to datatype here, and
//! each operation is complete when its call returns. So a library that makes such windows from memory of its own alone
//! (Open MPI 4.1, when threads may call it) serves them too, and a cut finds nothing under way. Atomic operations are
//! in [`accumulate`](super::accumulate), which treats them like those on a rank's own memory in other windows.
//!
//! Each function is that of MPI of the same name; the request-based forms are these and a request that is done
//! ([`request()`]).
#![allow(clippy::too_many_arguments)] // MPI's own signatures

pub use crate::request::done_access_request as request;

use crate::argument::Buffer;
use crate::crossing::mpi_result::code_of;
use crate::object::{Datatype, Win};
use crate::quiesce::progress;
use crate::rma::lower_window::Data;
use crate::rma::typed_copy;
use crate::rma::typed_copy::transfer;
use contract::abi::*;
use core::sync::atomic::{fence, AtomicU32, Ordering};

/// MPI_Put.
pub fn put(
    origin: Buffer<'static>,
    origin_count: i32,
    origin_datatype: &'static Datatype,
    rank: i32,
    displacement: isize,
    target_count: i32,
    target_datatype: &'static Datatype,
    win: &'static Win,
) -> i32 {
    let origin = Data::new(origin, origin_count, origin_datatype);
    let target = (target_count, target_datatype);
    at(win, rank, displacement, target, |target| {
        transfer(origin, target, win)
    })
}

/// MPI_Get.
pub fn get(
    origin: Buffer<'static>,
    origin_count: i32,
    origin_datatype: &'static Datatype,
    rank: i32,
    displacement: isize,
    target_count: i32,
    target_datatype: &'static Datatype,
    win: &'static Win,
) -> i32 {
    let origin = Data::new(origin, origin_count, origin_datatype);
    let target = (target_count, target_datatype);
    at(win, rank, displacement, target, |target| {
        transfer(target, origin, win)
    })
}

/// MPI_Win_flush: everything is complete.
#[inline]
pub fn win_flush(rank: i32, win: &'static Win) -> i32 {
    match rank {
        PROC_NULL => win_sync(win),
        rank if (0..win.body.comm.body.size).contains(&rank) => win_sync(win),
        _ => ERR_RANK,
    }
}

/// MPI_Win_flush_local.
pub fn win_flush_local(rank: i32, win: &'static Win) -> i32 {
    win_flush(rank, win)
}

/// MPI_Win_flush_all.
pub fn win_flush_all(win: &'static Win) -> i32 {
    win_sync(win)
}

/// MPI_Win_flush_local_all.
pub fn win_flush_local_all(win: &'static Win) -> i32 {
    win_sync(win)
}

/// MPI_Win_sync: for the loads and stores of ranks and threads.
///
/// A program that waits for another rank's store in a loop of such calls must let the messages under way go on, so the
/// library gets a turn now and then.
#[inline]
pub fn win_sync(_win: &'static Win) -> i32 {
    fence(Ordering::SeqCst);
    turn_now_and_then();
    SUCCESS
}

/// Gives the library a turn at one of many calls.
#[inline]
pub(crate) fn turn_now_and_then() {
    let calls = CALLS.load(Ordering::Relaxed).wrapping_add(1);
    CALLS.store(calls, Ordering::Relaxed);
    if calls.is_multiple_of(CALLS_FOR_A_TURN) {
        progress::requests();
    }
}

/// Calls of [`turn_now_and_then`] so far, about as many where threads call it at once.
static CALLS: AtomicU32 = AtomicU32::new(0);
const CALLS_FOR_A_TURN: u32 = 256;

/// Does something with the elements at a displacement, unless nobody's are asked for.
fn at(
    win: &'static Win,
    rank: i32,
    displacement: isize,
    (count, datatype): (i32, &'static Datatype),
    access: impl FnOnce(Data<'static>) -> Result<(), i32>,
) -> i32 {
    match rank {
        PROC_NULL => return SUCCESS,
        rank if (0..win.body.comm.body.size).contains(&rank) => {}
        _ => return ERR_RANK,
    }
    let elements = typed_copy::of_window(win, rank, displacement, (count, datatype));
    code_of(elements.and_then(|elements| elements.map_or(Err(ERR_WIN), access)))
}
