//! The drain: what a stopped rank does so that nothing is left in the lower half (bookmark exchange,
//! Hursey et al. §3.2, over whole messages).
//!
//! Every rank tells every other how many messages it has sent to it. Then each goes on looking at
//! all that is under way until, for every peer, it has received as many: messages that match a
//! posted receive complete it, all others are pulled and kept. That frees the senders, so that
//! pending sends complete too; non-blocking collectives were initiated by all their members, or the
//! rank would not have been stopped, and complete while everybody keeps looking. A rank that is
//! still inside a blocking send comes here once its receiver has pulled the message, and meanwhile
//! the exchange waits for it, pulling. Receives that match nothing stay posted: nothing can arrive.
//!
//! Then what was put into or got from windows is completed. At the end a barrier keeps every rank
//! looking until all are through, since a library may need this rank's help to move another's data.
//!
//! # Safety
//! Runs on one thread while all others are parked outside of MPI. Buffers of operations that may be
//! under way after a failure are leaked, not freed; no drain is tried again after one.
#![allow(unsafe_code)]

use super::request::{self, Kind, State};
use super::sweep::{self, phase};
use super::{counts, matched, words};
use crate::lower::{self, service};
use crate::{window, wtime};
use contract::abi::{Status, ERR_OTHER, SUCCESS};
use contract::{gate, Phase};
use core::sync::atomic::{AtomicBool, Ordering};

/// `gate.mpi_state` between MPI_Init and MPI_Finalize.
const INITIALISED: u32 = 1;

static FAILED: AtomicBool = AtomicBool::new(false);

/// Whether an earlier drain was given up half-way: ranks may disagree about the exchange since.
pub(super) fn has_failed() -> bool {
    FAILED.load(Ordering::Relaxed)
}

/// Leaves nothing of this rank in the lower half but receives that match nothing. Returns 0, or an
/// error class: the checkpoint is to be given up then.
pub extern "C" fn drain() -> i32 {
    if gate().mpi_state.load(Ordering::Acquire) != INITIALISED {
        return SUCCESS;
    }
    if has_failed() {
        return ERR_OTHER;
    }
    wtime::note_cut();
    // SAFETY: the lower half calls this as the module's head says.
    match unsafe { run() } {
        Ok(()) => SUCCESS,
        Err(error) => {
            FAILED.store(true, Ordering::Relaxed);
            error
        }
    }
}

unsafe fn run() -> Result<(), i32> {
    // SAFETY: crossings as described at the module's head.
    unsafe {
        // A send that is being cancelled may turn out never to have been sent.
        while request::pending().any(|request| request.body.cancelling.get() && must_end(request)) {
            step()?;
            service::yield_now();
        }
        let expected = exchange()?;
        while !(step()? && all_received(&expected) && !anything_left()) {
            service::yield_now();
        }
        window::create::flush()?;
        barrier()
    }
}

/// Looks at everything once; whether all pulled messages have arrived.
unsafe fn step() -> Result<bool, i32> {
    if phase() == Phase::Run {
        // The checkpoint was given up meanwhile.
        return Err(ERR_OTHER);
    }
    // SAFETY: passed on to the caller.
    unsafe {
        sweep::requests();
        Ok(sweep::messages()? & matched::save()?)
    }
}

/// Whether the operation must not be left in the lower half.
fn must_end(request: &'static crate::object::Request) -> bool {
    let body = &request.body;
    match body.state.get() {
        State::Active => !body.kind.get().is_receive(),
        State::Upper => body.kind.get() != Kind::Generalized,
        State::Free | State::Inactive | State::Done => false,
    }
}

fn anything_left() -> bool {
    request::pending().any(must_end)
}

/// Whether every peer's messages are here.
fn all_received(expected: &[u64]) -> bool {
    let (_, received) = counts::totals();
    received
        .iter()
        .zip(expected)
        .all(|(received, expected)| received.load(Ordering::Relaxed) == *expected)
}

/// How many messages each rank has sent to this one.
unsafe fn exchange() -> Result<Box<[u64]>, i32> {
    let (sent, _) = counts::totals();
    let sent: Box<[u64]> = sent
        .iter()
        .map(|sent| sent.load(Ordering::Relaxed))
        .collect();
    let expected = vec![0_u64; sent.len()].into_boxed_slice();
    let (sent, expected) = (Box::leak(sent), Box::leak(expected));
    let bytes = size_of::<u64>() as i32;
    let mut word = 0;
    // SAFETY: one number to and from every rank; the buffers are leaked until the exchange is over.
    unsafe {
        let error = lower::MPI_Ialltoall(
            sent.as_ptr().cast(),
            bytes,
            words::byte(),
            expected.as_mut_ptr().cast(),
            bytes,
            words::byte(),
            words::internal_world(),
            &raw mut word,
        );
        check(error)?;
        finish(word)?;
        drop(Box::from_raw(sent));
        Ok(Box::from_raw(expected))
    }
}

unsafe fn barrier() -> Result<(), i32> {
    let mut word = 0;
    // SAFETY: a collective operation of all ranks, on a communicator of ours.
    unsafe {
        check(lower::MPI_Ibarrier(words::internal_world(), &raw mut word))?;
        finish(word)
    }
}

/// Goes on looking until an operation of the drain's own is complete.
unsafe fn finish(mut word: usize) -> Result<(), i32> {
    loop {
        let (mut flag, mut status) = (0, Status::EMPTY);
        // SAFETY: the word of our own operation.
        unsafe {
            check(lower::MPI_Test(
                &raw mut word,
                &raw mut flag,
                &raw mut status,
            ))?;
            if flag != 0 {
                return Ok(());
            }
            step()?;
            service::yield_now();
        }
    }
}

fn check(error: i32) -> Result<(), i32> {
    if error == SUCCESS {
        Ok(())
    } else {
        Err(error)
    }
}
