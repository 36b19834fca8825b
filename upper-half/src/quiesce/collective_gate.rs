//! The gate of collective operations, by collective clocks (docs/internals/collectives.md; Xu & Cooperman, Algorithms 1
//! and 2, with the clock of each communicator instead of its group's). Every collective operation counts before it
//! starts. While a checkpoint is pending an operation past its target is not started: the rank parks before it, and the
//! clock stays where it was.
//!
//! The count and the look at the phase need no locked instruction, because the agent sets the phase, makes every thread
//! of the process pass a memory barrier, and only then reads the clocks. A rank whose look still saw "run" has its
//! count read by the agent; any other looks here.
//!
//! # Safety
//! No thread parks between the begin and the end of an operation, so that what it makes below stays valid.
#![allow(unsafe_code)]

use crate::crossing::stubs::service;
use crate::object::comm::CommBody;
use crate::object::lower_handle::{Fresh, Slot, Unparked};
use crate::object::table::Body;
use crate::object::Comm;
use crate::quiesce::progress::phase;
use crate::quiesce::{wait_loop, wait_report};
use contract::abi::comm;
use contract::{gate, ActivityKind, Clock, Phase};
use core::sync::atomic::{compiler_fence, Ordering};

/// A collective operation that was counted and is to be ended.
#[must_use]
pub struct Token {
    pub(crate) comm: &'static Comm,
    clock: Option<&'static Clock>,
    seq: u64,
    unparked: Unparked,
}

impl Token {
    /// Of an operation that has begun, and was counted as `seq`. From now on the thread does not park before the end.
    #[inline(always)]
    pub(crate) fn counted(comm: &'static Comm, clock: Option<&'static Clock>, seq: u64) -> Token {
        // SAFETY: see the module's head.
        let unparked = unsafe { Unparked::new() };
        Token {
            comm,
            clock,
            seq,
            unparked,
        }
    }

    /// The operation's number on its communicator; 0 for one without a clock.
    pub(crate) fn number(&self) -> u64 {
        self.seq
    }

    /// What the operation's first call has made below.
    pub(crate) fn took<B: Body>(&self, made: Slot<B>) -> Fresh<'_, B> {
        self.unparked.took(made)
    }

    /// Room for what the operation makes below.
    pub fn fresh<B: Body>(&self) -> Fresh<'_, B> {
        self.unparked.fresh()
    }
}

/// Counts a collective operation over `comm` and holds it back if it must not start yet.
#[inline]
pub fn collective_begin(comm: &'static Comm) -> Token {
    counted(comm, comm.body.clock(), ActivityKind::Parked)
}

/// The same for MPI_Finalize, over all ranks.
pub fn finalize_begin() -> Token {
    let world = Comm::at(comm::COMM_WORLD as u32);
    counted(world, world.body.clock(), ActivityKind::Finalising)
}

/// The same for a constructor, before it makes the object of the communicator that it is collective
/// over.
pub fn collective_begin_unmade(body: &CommBody) -> Token {
    counted(Comm::null(), body.clock(), ActivityKind::Parked)
}

#[inline(always)]
fn counted(comm: &'static Comm, clock: Option<&'static Clock>, kind: ActivityKind) -> Token {
    let seq = match clock {
        Some(clock) => begin(clock, kind),
        None => 0,
    };
    Token::counted(comm, clock, seq)
}

#[inline(always)]
fn begin(clock: &'static Clock, kind: ActivityKind) -> u64 {
    let seq = clock.seq.load(Ordering::Relaxed) + 1;
    clock.seq.store(seq, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    let pending = gate().phase.load(Ordering::Relaxed) != Phase::Run as u32;
    if pending {
        hold_back(clock, seq, kind);
    }
    wait_report::collective(clock.id.load(Ordering::Relaxed));
    if pending {
        service::notify();
    }
    seq
}

/// Begins an operation on a clock, holds it back like [`collective_begin`], and ends it.
pub(crate) fn pass(clock: &'static Clock) {
    let seq = begin(clock, ActivityKind::Parked);
    leave(clock, seq);
}

#[cold]
fn hold_back(clock: &'static Clock, seq: u64, kind: ActivityKind) {
    while !may_pass(clock, seq) {
        clock.seq.store(seq - 1, Ordering::Release);
        // No lock is held.
        wait_loop::before(clock, seq, kind);
        if phase() == Phase::Stop {
            wait_loop::stop_before(clock);
        }
        wait_loop::moving();
        clock.seq.store(seq, Ordering::SeqCst);
    }
}

/// Whether the operation may pass: no checkpoint is pending, or it is not beyond the target.
pub(crate) fn may_pass(clock: &Clock, seq: u64) -> bool {
    match phase() {
        Phase::Run | Phase::Explain => true,
        Phase::Approach => {
            service::clock_target(0);
            seq <= clock.target.load(Ordering::Acquire)
        }
        Phase::Stop => false,
    }
}

/// The operation is over on this rank (whether or not it succeeded).
#[inline]
pub fn collective_end(token: Token) {
    if let Some(clock) = token.clock {
        leave(clock, token.seq);
    }
}

/// Operation `seq` of `clock` is over on this rank.
#[inline]
pub(crate) fn leave(clock: &'static Clock, seq: u64) {
    clock.left.store(seq, Ordering::Release);
    wait_report::collective_over();
    compiler_fence(Ordering::SeqCst);
    if gate().phase.load(Ordering::Relaxed) != Phase::Run as u32 {
        service::notify();
    }
}
