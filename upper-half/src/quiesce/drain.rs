//! The drain of a stopped rank, after which nothing is left in the lower half (bookmark exchange, Hursey et al. §3.2,
//! over whole messages).
//!
//! Every rank tells every other how many messages it has sent to it. Then each looks at all that is under way until,
//! for every peer, it has received as many: messages that match a posted receive complete it, all others are pulled and
//! kept. That frees the senders, so that pending sends complete too. Non-blocking collectives were initiated by all
//! their members, or the rank would not have been stopped, and complete while all ranks keep looking. A rank that is
//! still inside a blocking send comes here once its receiver has pulled the message, and meanwhile the exchange waits
//! for it, pulling. Receives that match nothing stay posted: nothing can arrive.
//!
//! Then the ranks settle which synchronous sends are complete (`settlement.rs`), and puts and gets of windows are
//! completed. At the end a barrier keeps every rank looking until all are through,
//! since a library may need this rank's help to move another's data.
//!
//! The exchange and the barrier are collective operations on a communicator of ours. A drain may be given up anywhere,
//! on some ranks before they have begun them. So they are counted on a clock like the application's collectives, and
//! the next checkpoint's target tells every rank how many others have begun: it first begins those that it has not,
//! with nothing in them, and finishes all that are left, so that all ranks' exchanges match again.
//!
//! # Safety
//! Runs on one thread while all others are parked outside of MPI. Buffers of operations that are under way when a drain
//! is given up are kept until the operations are complete.
#![allow(unsafe_code)]

use crate::crossing::call_guard::record;
use crate::crossing::stubs::service;
use crate::object::comm::collective_clock;
use crate::object::comm::internal::internal_world;
use crate::object::lower_handle::{named, Slot};
use crate::object::request::State;
use crate::object::unexpected;
use crate::object::{Request, RequestBody};
use crate::perturb::delivery;
use crate::pt2pt::matched;
use crate::quiesce::internal_handles::byte;
use crate::quiesce::progress::phase;
use crate::quiesce::{bookmarks, progress, settlement};
use crate::record::receives;
use crate::request::lifecycle;
use crate::rma::create;
use crate::runtime::lock::Lock;
use contract::abi::{Status, ERR_OTHER, SUCCESS};
use contract::recorder::Event;
use contract::{gate, Clock, MpiState, Phase, DRAIN_CLOCK};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// An exchange and a barrier.
const OPERATIONS_OF_A_DRAIN: u64 = 2;

static FAILED: AtomicBool = AtomicBool::new(false);

/// Whether an operation of a drain has failed below: ranks may disagree about them since.
pub(crate) fn has_failed() -> bool {
    FAILED.load(Ordering::Relaxed)
}

/// Counts the operations that drains have begun on this rank.
static BEGUN: AtomicPtr<Clock> = AtomicPtr::new(null_mut());

/// Makes the clock of drains, before any checkpoint.
pub(crate) fn init() -> Result<(), i32> {
    let clock = collective_clock::make_for(DRAIN_CLOCK)?;
    BEGUN.store(core::ptr::from_ref(clock).cast_mut(), Ordering::Release);
    Ok(())
}

pub(crate) fn clock() -> &'static Clock {
    // SAFETY: drains come after MPI_Init, which has made it for ever.
    unsafe { &*BEGUN.load(Ordering::Acquire) }
}

fn begun() -> u64 {
    clock().seq.load(Ordering::Relaxed)
}

/// What was begun and is not complete, in the order of its beginning.
static LEFT: Lock<Vec<Operation>> = Lock::new(Vec::new());

/// An operation of a drain, with what it gives to and takes from every rank.
struct Operation {
    request: Slot<RequestBody>,
    sent: Box<[Told]>,
    expected: Box<[Told]>,
}

/// Numbers that a rank sends to another one in an exchange.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Told {
    /// Messages that it has sent to that rank.
    messages: u64,
    /// Questions that it has about its synchronous sends.
    questions: u64,
}

/// Leaves nothing of this rank in the lower half but receives that match nothing. Returns 0, or an
/// error class: the checkpoint is to be given up then.
pub fn drain() -> i32 {
    if !gate().mpi_is(MpiState::Initialised) {
        return SUCCESS;
    }
    if has_failed() {
        return ERR_OTHER;
    }
    delivery::release();
    record(Event::DrainBegan, [unexpected::queued(), 0]);
    let drained = run();
    progress::ALL_HAVE_STOPPED.store(false, Ordering::Relaxed);
    let error = drained.inspect_err(|_| settlement::give_up()).err();
    let error = error.unwrap_or(SUCCESS);
    record(Event::DrainEnded, [error as u64, unexpected::queued()]);
    error
}

fn run() -> Result<(), i32> {
    // A send that is being cancelled may turn out never to have been sent.
    while lifecycle::pending().any(|request| request.body.cancelling.get() && must_end(request)) {
        step()?;
        service::yield_now();
    }
    let begun_by_others = clock().target.load(Ordering::Acquire);
    while begun() < begun_by_others || !begun().is_multiple_of(OPERATIONS_OF_A_DRAIN) {
        begin()?;
    }
    while !LEFT.lock().is_empty() {
        finish_first()?;
    }
    begin()?;
    let number = begun();
    let expected = finish_first()?;
    progress::ALL_HAVE_STOPPED.store(true, Ordering::Relaxed);
    while !(step()? && all_received(&expected) && !anything_left()) {
        service::yield_now();
    }
    let asked: Vec<u64> = expected.iter().map(|told| told.questions).collect();
    settlement::settle(&asked, number, || {
        step()?;
        service::yield_now();
        Ok(())
    })?;
    create::flush()?;
    begin()?;
    finish_first()?;
    Ok(())
}

/// Looks at everything once; whether all pulled messages have arrived.
fn step() -> Result<bool, i32> {
    if phase() == Phase::Run {
        // The checkpoint was given up meanwhile.
        return Err(ERR_OTHER);
    }
    progress::requests();
    let arrived = progress::messages()?;
    Ok(arrived & matched::save()?)
}

/// Whether the operation must not be left in the lower half.
fn must_end(request: &'static Request) -> bool {
    let body = &request.body;
    match body.state.get() {
        State::Active => !body.kind.get().is_receive(),
        // What stands for others has nothing below itself.
        State::Upper => body.kind.get().is_receive() && !receives::is_held(request),
        State::Free | State::Inactive | State::Done => false,
    }
}

fn anything_left() -> bool {
    lifecycle::pending().any(must_end)
}

/// Whether every peer's messages are here.
fn all_received(expected: &[Told]) -> bool {
    let (_, received) = bookmarks::totals();
    received
        .iter()
        .zip(expected)
        .all(|(received, expected)| received.load(Ordering::Relaxed) == expected.messages)
}

/// Begins the next operation in turn: an exchange of what each rank tells each, or a barrier.
fn begin() -> Result<(), i32> {
    let (sent, _) = bookmarks::totals();
    let questions = settlement::questions_for(sent.len());
    let sent: Box<[Told]> = sent
        .iter()
        .zip(questions)
        .map(|(sent, questions)| Told {
            messages: sent.load(Ordering::Relaxed),
            questions,
        })
        .collect();
    let expected = vec![Told::default(); sent.len()].into_boxed_slice();
    let mut left = LEFT.lock();
    left.push(Operation {
        request: Slot::empty(),
        sent,
        expected,
    });
    let Some(operation) = left.last_mut() else {
        return Err(ERR_OTHER);
    };
    let before = begun();
    let exchange = before.is_multiple_of(OPERATIONS_OF_A_DRAIN);
    let bytes = size_of::<Told>() as i32;
    // SAFETY: collective operations of all ranks, in the same order on each, on a communicator of
    // ours; one entry to and from every rank, in buffers that stay in the list, on the heap, until
    // the operation is complete.
    let error = unsafe {
        match exchange {
            true => named::MPI_Ialltoall(
                operation.sent.as_ptr().cast(),
                bytes,
                byte(),
                operation.expected.as_mut_ptr().cast(),
                bytes,
                byte(),
                internal_world(),
                operation.request.place(),
            ),
            false => named::MPI_Ibarrier(internal_world(), operation.request.place()),
        }
    };
    drop(left);
    check(error)?;
    clock().seq.store(before + 1, Ordering::Release);
    clock().left.store(before + 1, Ordering::Release);
    Ok(())
}

/// Goes on looking until the first operation that is left is complete; what every rank said in it.
fn finish_first() -> Result<Box<[Told]>, i32> {
    loop {
        let (mut flag, mut status) = (0, Status::EMPTY);
        let mut left = LEFT.lock();
        let Some(operation) = left.first_mut() else {
            return Err(ERR_OTHER);
        };
        let request = &mut operation.request;
        check(named::MPI_Test(request, &mut flag, Some(&mut status)))?;
        if flag != 0 {
            return Ok(left.remove(0).expected);
        }
        drop(left);
        step()?;
        service::yield_now();
    }
}

/// An operation of ours that fails leaves no way to agree with the other ranks again.
fn check(error: i32) -> Result<(), i32> {
    if error == SUCCESS {
        Ok(())
    } else {
        FAILED.store(true, Ordering::Relaxed);
        Err(error)
    }
}
