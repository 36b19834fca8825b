//! Two-phase commit (Xu & Cooperman, §2.2), for comparison with the collective clocks that have replaced it:
//! `STASIS_PUBLISHED=two-phase-commit`. A barrier precedes every blocking collective operation, so that at a checkpoint
//! all members are in the operation, or none is. It does not know non-blocking ones.
//!
//! Only the cost of calls is as published. There the barrier is aborted at a checkpoint; here it is an operation like
//! any other, which the clocks let end.
//!
//! # Safety
//! The crossing takes a live communicator, and a local for the lower handle of its request.
#![allow(unsafe_code)]

use crate::object::lower_handle::named;
use crate::object::{Comm, Request};
use crate::quiesce::collective_gate::{collective_begin, collective_end, Token};
use crate::request::started_operation::collective_request;
use crate::request::wait::wait;
use contract::abi::SUCCESS;
use contract::{gate, TWO_PHASE_COMMIT};
use core::sync::atomic::Ordering;

/// As [`collective_begin`], for an operation that returns when it is over.
#[inline]
pub fn collective_begin_blocking(comm: &'static Comm) -> Token {
    if gate().lower.features.load(Ordering::Relaxed) & TWO_PHASE_COMMIT != 0 {
        barrier(comm);
    }
    collective_begin(comm)
}

/// Waits for all members. Whatever fails here fails in the operation as well, which says so.
#[cold]
fn barrier(comm: &'static Comm) {
    if comm.body.clock().is_none() {
        return;
    }
    let token = collective_begin(comm);
    let mut lower_handle = Request::null_lower();
    // SAFETY: a live communicator, and a place for the lower handle.
    if unsafe { named::MPI_Ibarrier(comm, &raw mut lower_handle) } != SUCCESS {
        return collective_end(token);
    }
    if let Ok(mut request) = collective_request(token, lower_handle, None) {
        wait(&mut request, None);
    }
}
