//! The collective clocks (docs/internals/collectives.md; Xu & Cooperman, Algorithms 1 and 2, with the clock of each
//! communicator instead of its group's). Every collective operation counts before it starts. While a
//! checkpoint is pending an operation past its target is not started: the rank parks before it, and
//! the clock stays where it was.
//!
//! That the count and the look at the phase need no locked instruction is the agent's doing: it sets
//! the phase, makes every thread of the process pass a memory barrier, and only then reads the
//! clocks. A rank whose look still saw "run" has its count read by the agent; any other looks here.
//!
//! # Safety
//! Everything shared is atomic; crossings are calls of services without further conditions.
#![allow(unsafe_code)]

use super::request::{self, Kind, Scratch};
use super::sweep::phase;
use super::{activity, counts, park};
use crate::lower::{service, Fresh};
use crate::object::{Body, Comm, CommBody, Request};
use contract::abi::{comm, Status, SUCCESS};
use contract::{gate, ActivityKind, Clock, Phase};
use core::sync::atomic::{compiler_fence, Ordering};

/// A collective operation that was counted and is to be ended.
#[must_use]
pub struct Token {
    comm: &'static Comm,
    clock: Option<&'static Clock>,
    seq: u64,
}

impl Token {
    /// Room for what the operation makes below. Nothing parks before the token is given back.
    pub fn fresh<B: Body>(&self) -> Fresh<'_, B> {
        // SAFETY: as said.
        unsafe { Fresh::null() }
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
    Token { comm, clock, seq }
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
    activity::collective(clock.id.load(Ordering::Relaxed));
    if pending {
        // SAFETY: a service without arguments.
        unsafe { service::notify() };
    }
    seq
}

#[cold]
fn hold_back(clock: &'static Clock, seq: u64, kind: ActivityKind) {
    loop {
        if phase() == Phase::Run {
            return;
        }
        if phase() == Phase::Approach {
            // SAFETY: a service without further conditions; it comes back once the targets stand.
            unsafe { service::clock_target(0) };
            if seq <= clock.target.load(Ordering::Acquire) {
                return;
            }
        }
        clock.seq.store(seq - 1, Ordering::Release);
        // SAFETY: crossings without further conditions; no lock is held.
        unsafe { park::before(clock, seq, kind) };
        if phase() == Phase::Stop {
            park::stop_here();
        }
        // SAFETY: as above.
        unsafe { park::moving() };
        clock.seq.store(seq, Ordering::SeqCst);
    }
}

/// The operation is over on this rank (whether or not it succeeded).
#[inline]
pub fn collective_end(token: Token) {
    if let Some(clock) = token.clock {
        clock.left.store(token.seq, Ordering::Release);
        activity::collective_over();
        compiler_fence(Ordering::SeqCst);
        if gate().phase.load(Ordering::Relaxed) != Phase::Run as u32 {
            // SAFETY: a service without arguments.
            unsafe { service::notify() };
        }
    }
}

/// Makes the request of a non-blocking collective operation that was started in the lower half under
/// `word`, and ends `token`: once it is initiated it goes on by itself. `scratch` is kept until it
/// is complete.
pub fn collective_request(
    token: Token,
    word: usize,
    scratch: Scratch,
) -> Result<&'static Request, i32> {
    let comm = token.comm;
    collective_end(token);
    make(Kind::Collective, comm, word, |request| {
        request.keep_scratch(scratch);
    })
}

/// The same for a duplication: `duplicate` may be used under its word once it is complete.
pub(crate) fn duplication_request(
    token: Token,
    word: usize,
    duplicate: (&'static Comm, usize),
) -> Result<&'static Request, i32> {
    let comm = token.comm;
    collective_end(token);
    make(Kind::Collective, comm, word, |request| {
        request.completes_duplicate(duplicate);
    })
}

/// Makes the request of an operation on a window, started in the lower half under `word`.
pub fn access_request(word: usize, scratch: Scratch) -> Result<&'static Request, i32> {
    make(Kind::Access, Comm::null(), word, |request| {
        request.keep_scratch(scratch);
    })
}

/// Makes the request of an operation on a window that is complete already.
pub fn done_access_request() -> Result<&'static Request, i32> {
    let request = request::acquire(Kind::Access, counts::NOBODY, Comm::null())?;
    request.settle(&Status::EMPTY, SUCCESS);
    Ok(request)
}

/// Makes the request of an operation of this process on a file, started in the lower half under `word`.
pub fn file_request(word: usize) -> Result<&'static Request, i32> {
    make(Kind::File, Comm::null(), word, |_| {})
}

/// The same for a non-blocking collective operation on a file; ends `token`.
pub fn file_collective_request(token: Token, word: usize) -> Result<&'static Request, i32> {
    let comm = token.comm;
    collective_end(token);
    make(Kind::FileCollective, Comm::null(), word, |request| {
        request.belongs_to_file(comm);
    })
}

/// Makes the request of an operation that was started under `word`, with what `keep` gives it.
fn make(
    kind: Kind,
    comm: &'static Comm,
    word: usize,
    keep: impl FnOnce(&'static Request),
) -> Result<&'static Request, i32> {
    let request = request::acquire(kind, counts::NOBODY, comm)?;
    keep(request);
    request.started(word);
    Ok(request)
}
