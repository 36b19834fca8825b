//! Windows of one process. Its operations reach nobody else's memory, so nothing lies below: data is
//! copied from datatype to datatype here, and each operation is complete when its call returns. A
//! library that makes such windows from memory of its own alone (Open MPI 4.1, where threads may call
//! it) serves them too, and a cut finds nothing under way. What is atomic is in
//! [`accumulate`](super::accumulate), which does the same there as with a rank's own memory elsewhere.
//!
//! Each function is that of MPI of the same name; the request-based forms are these and a request
//! that is done ([`request`]).
//!
//! # Safety
//! Buffers are the application's, under the promises that MPI asks of it; what lies outside of the
//! window is refused. Crossings pass words of live datatypes.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head
#![allow(clippy::too_many_arguments)] // MPI's own signatures

use super::data::{self, transfer, Data};
use crate::code::code_of;
use crate::object::{Datatype, Win};
use contract::abi::*;
use core::ffi::c_void;
use core::sync::atomic::{fence, Ordering};

pub use crate::message::done_access_request as request;

/// MPI_Put.
pub unsafe fn put(
    origin: *const c_void,
    origin_count: i32,
    origin_datatype: &'static Datatype,
    rank: i32,
    displacement: isize,
    target_count: i32,
    target_datatype: &'static Datatype,
    win: &'static Win,
) -> i32 {
    let origin = (origin.cast_mut(), origin_count, origin_datatype);
    let target = (target_count, target_datatype);
    // SAFETY: passed on.
    at(win, rank, displacement, target, |target| unsafe {
        transfer(origin, target, win)
    })
}

/// MPI_Get.
pub unsafe fn get(
    origin: *mut c_void,
    origin_count: i32,
    origin_datatype: &'static Datatype,
    rank: i32,
    displacement: isize,
    target_count: i32,
    target_datatype: &'static Datatype,
    win: &'static Win,
) -> i32 {
    let origin = (origin, origin_count, origin_datatype);
    let target = (target_count, target_datatype);
    // SAFETY: passed on.
    at(win, rank, displacement, target, |target| unsafe {
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
    access: impl FnOnce(Data) -> Result<(), i32>,
) -> i32 {
    match rank {
        PROC_NULL => return SUCCESS,
        0 => {}
        _ => return ERR_RANK,
    }
    code_of(data::of_window(win, displacement, (count, datatype)).and_then(access))
}
