//! Two-phase commit, which collective clocks have replaced (Xu & Cooperman, §2.2), to be compared with:
//! `STASIS_PUBLISHED=two-phase-commit`. A barrier precedes every blocking collective operation, so that
//! at a checkpoint all members are in the operation, or none is. Non-blocking ones it does not know.
//!
//! Only what calls cost is as published. There the barrier is aborted at a checkpoint; here it is an
//! operation like any other, which the clocks let end.
//!
//! # Safety
//! The crossing has the communicator's own word, and the word of our request.
#![allow(unsafe_code)]

use super::collective::{collective_begin, collective_end, collective_request, Token};
use super::wait::wait;
use crate::lower;
use crate::object::{Comm, Request};
use contract::abi::SUCCESS;
use contract::{gate, TWO_PHASE_COMMIT};
use core::ptr::null_mut;
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
    let mut word = Request::null_word();
    // SAFETY: a live communicator, and a place for the word; the request is ours alone.
    unsafe {
        if lower::MPI_Ibarrier(comm.lower(), &raw mut word) != SUCCESS {
            return collective_end(token);
        }
        if let Ok(mut request) = collective_request(token, word, None) {
            wait(&raw mut request, null_mut());
        }
    }
}
