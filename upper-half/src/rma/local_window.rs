//! Windows of one process. Their operations reach no other process's memory, so there is no window below: data is
//! copied from datatype to datatype here, and each operation is complete when its call returns. So a library that makes
//! such windows from memory of its own alone (Open MPI 4.1, when threads may call it) serves them too, and a cut finds
//! nothing under way. Atomic operations are in [`accumulate`](super::accumulate), which treats them like those on a
//! rank's own memory in other windows.
//!
//! Each function is that of MPI of the same name; the request-based forms are these and a request that is done
//! ([`request()`]).
#![allow(clippy::too_many_arguments)] // MPI's own signatures

pub use crate::request::done_access_request as request;

use crate::argument::Buffer;
use crate::crossing::mpi_result::code_of;
use crate::object::{Datatype, Win};
use crate::rma::lower_window::Data;
use crate::rma::typed_copy;
use crate::rma::typed_copy::transfer;
use contract::abi::*;
use core::sync::atomic::{fence, Ordering};

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
pub fn win_flush(rank: i32, win: &'static Win) -> i32 {
    match rank {
        0 | PROC_NULL => win_sync(win),
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

/// MPI_Win_sync: for threads.
pub fn win_sync(_win: &'static Win) -> i32 {
    fence(Ordering::SeqCst);
    SUCCESS
}

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
        0 => {}
        _ => return ERR_RANK,
    }
    code_of(typed_copy::of_window(win, displacement, (count, datatype)).and_then(access))
}
