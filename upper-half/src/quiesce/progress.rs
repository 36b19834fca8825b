//! Progress: a look at everything that is under way. Ranks that wait do it while a checkpoint is pending, and the drain
//! does it until nothing is left. Operations that are found finished are completed in their requests, where waits and
//! tests find them without a crossing.
//!
//! Receives are looked at even if no thread waits for them, because the counts must tell the coordinator truly whether
//! a message is under way.
//!
//! # Safety
//! One sweep runs at a time, under a lock, and leaves out requests that a thread has claimed for a call of its own; so
//! no lower handle is in two calls at once.
#![allow(unsafe_code)]

use crate::crossing::stubs::service;
use crate::crossing::{call_guard, stubs};
use crate::object::comm::live_comms;
use crate::object::request::pair::Pair;
use crate::object::request::partitioned::Partitioned;
use crate::object::request::{synchronous, State};
use crate::object::{unexpected, Request};
use crate::pt2pt::post::deliver;
use crate::quiesce::bookmarks::count_progress;
use crate::request::lifecycle;
use crate::runtime::lock::{multiple, Lock};
use crate::tools::{self, POLLS};
use contract::abi::{Status, SUCCESS};
use contract::{gate, Phase, TARGETS_ARE_KNOWN, TOOL_REDUCE_VISIBLE};
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};

static SWEEP: Lock<()> = Lock::new(());

/// What the agent wants.
#[inline(always)]
pub(crate) fn phase() -> Phase {
    match gate().phase.load(Ordering::Relaxed) {
        0 => Phase::Run,
        1 => Phase::Approach,
        3 => Phase::Explain,
        _ => Phase::Stop,
    }
}

/// Whether operations are under way that only looks of the upper half bring forward.
#[inline(always)]
pub(crate) fn polls() -> bool {
    tools::is_set(POLLS)
}

/// Requests whose lower handles a thread takes into a call of the lower half that completes them. To be
/// dropped only when their states say what that call did: a sweep before would ask for a lower handle that
/// is no more.
pub(crate) struct Claim<R: AsRef<[&'static Request]>> {
    /// The requests. A handle that becomes null meanwhile is claimed no more.
    pub(crate) requests: R,
}

impl<R: AsRef<[&'static Request]>> Claim<R> {
    /// Keeps sweeps off the requests. What a sweep did before shows in their states from now on.
    #[inline(always)]
    pub(crate) fn new(requests: R) -> Self {
        let claim = Claim { requests };
        claim.set(0, claimer());
        claim
    }

    #[inline(always)]
    fn set(&self, from: u32, to: u32) {
        match multiple() {
            true => self.set_alone(from, to),
            // Nobody sweeps now, but a thread that comes while this one is below may: so the mark must stand.
            false => self.mark(from, to),
        }
    }

    #[cold]
    fn set_alone(&self, from: u32, to: u32) {
        let _alone = SWEEP.lock();
        self.mark(from, to);
    }

    /// Changes the mark where it is `from`. A request that was given back meanwhile has none, or
    /// that of another thread.
    #[inline(always)]
    fn mark(&self, from: u32, to: u32) {
        let requests = self.requests.as_ref().iter();
        for request in requests.filter(|request| !request.is_predefined()) {
            let mark = &request.body.claimed;
            if mark.load(Ordering::Relaxed) == from {
                mark.store(to, Ordering::Release);
            }
        }
    }
}

impl<R: AsRef<[&'static Request]>> Drop for Claim<R> {
    #[inline(always)]
    fn drop(&mut self) {
        self.set(claimer(), 0);
    }
}

/// The calling thread's mark.
fn claimer() -> u32 {
    call_guard::thread_id().max(1)
}

/// Looks at every operation under way.
pub(crate) fn requests() {
    let alone = SWEEP.lock();
    for request in lifecycle::pending().filter(|request| !request.has_older_on_file()) {
        one(request);
    }
    drop(alone);
    lifecycle::reap();
}

/// Looks at a few orphans, so that they do not pile up in a program that makes many.
pub(crate) fn orphans() {
    const AT_A_TIME: usize = 4;
    look_at(lifecycle::some_orphans::<AT_A_TIME>());
    lifecycle::reap();
}

/// Looks at these operations.
pub(crate) fn look_at(requests: impl Iterator<Item = &'static Request>) {
    let _alone = SWEEP.lock();
    requests.for_each(one);
}

/// Looks at one operation. The caller holds the lock.
fn one(request: &'static Request) {
    let body = &request.body;
    if body.claimed.load(Ordering::Acquire) != 0 {
        return;
    }
    match body.state.get() {
        State::Active => {
            let mut lower_handle;
            let (mut flag, mut status) = (0, Status::EMPTY);
            // SAFETY: the lower handle of an active request, in no other call: no thread has claimed it, and the lock
            // is held.
            let error = unsafe {
                lower_handle = request.lower();
                let is_started = body.state.get() == State::Active;
                if lower_handle == Request::null_lower() || !is_started {
                    // Its thread is still starting it, or has just made a persistent one, and not started it: the
                    // state is written before the lower handle, so it is read again after that.
                    return;
                }
                stubs::MPI_Test(&raw mut lower_handle, &raw mut flag, &raw mut status)
            };
            if flag != 0 && error == SUCCESS && phase() == Phase::Stop && is_settled_later(request)
            {
                count_progress();
                request.finished_below(&status);
            } else if flag != 0 || error != SUCCESS {
                count_progress();
                request.ended(&status);
                if error != SUCCESS && body.kind.get().is_persistent_below() {
                    // One library frees even a persistent request that failed.
                    request.set_lower(lower_handle);
                }
                request.complete(&status, error);
            }
        }
        State::Upper => {
            // A generalized request has no entry: the application says when it is done.
            if let Some(mut entry) = body.entry.take() {
                let arrived = entry.look() == Ok(true);
                body.entry.set(Some(entry));
                if arrived {
                    deliver(request);
                }
            } else if let Some(pair) = request.pair() {
                for part in pair.parts() {
                    one(part);
                }
                if let Some((status, error)) = pair.outcome() {
                    request.complete(&status, error);
                }
            } else if let Some(partitioned) = request.partitioned() {
                if let Some(whole) = partitioned.whole() {
                    one(whole);
                }
                if let Some((status, error)) = partitioned.outcome() {
                    request.complete(&status, error);
                }
            } else {
                advance(request);
            }
        }
        State::Free | State::Inactive | State::Done => {}
    }
}

/// The schedule of a request is over, or given up.
pub(crate) fn end_schedule(request: &'static Request) {
    let ended = request.body.schedule.lock().take();
    if ended.is_some() {
        tools::ends_here();
    }
}

thread_local! {
    /// Whether the thread is in [`visible_schedules`].
    static ADVANCES: Cell<bool> = const { Cell::new(false) };
}

/// Brings schedules forward whose messages a profiler sees. They call functions of the application, so that no sweep
/// can do that: the caller holds no lock and is in no crossing, and the thread may stop.
pub(crate) fn visible_schedules() {
    if tools::is_set(TOOL_REDUCE_VISIBLE) {
        all_visible_schedules();
    }
}

#[cold]
fn all_visible_schedules() {
    // A call that brings one forward looks around, too.
    if phase() == Phase::Stop || ADVANCES.replace(true) {
        return;
    }
    let upper = |request: &&Request| request.body.state.get() == State::Upper;
    for request in lifecycle::pending().filter(upper) {
        // Nobody else has it meanwhile.
        let mut schedule = request.body.schedule.lock();
        let taken = schedule.take_if(|schedule| schedule.visible.is_some());
        drop(schedule);
        let Some(mut schedule) = taken else {
            continue;
        };
        let over = (schedule.advance)(&mut schedule);
        *request.body.schedule.lock() = Some(schedule);
        if let Some(error) = over {
            let _alone = SWEEP.lock();
            end(request, error);
        }
    }
    ADVANCES.set(false);
}

/// The schedule of a request has ended. The caller holds the lock of sweeps.
fn end(request: &'static Request, error: i32) {
    count_progress();
    end_schedule(request);
    request.complete(&Status::EMPTY, error);
}

/// Brings the schedule of a request forward, if it has one that is not visible. Not during a drain, which counts the
/// messages that were sent before.
fn advance(request: &'static Request) {
    if phase() == Phase::Stop {
        return;
    }
    let mut schedule = request.body.schedule.lock();
    let over = schedule
        .as_mut()
        .filter(|schedule| schedule.visible.is_none())
        .and_then(|schedule| (schedule.advance)(schedule));
    drop(schedule);
    if let Some(error) = over {
        end(request, error);
    }
}

/// Whether the drain asks the receiver before a send that the library has finished is complete.
fn is_settled_later(request: &'static Request) -> bool {
    !request.body.cancelling.get() && synchronous::is_under_way(request)
}

/// All ranks are in the drain: no application sees a send end.
pub(crate) static ALL_HAVE_STOPPED: AtomicBool = AtomicBool::new(false);

/// Pulls messages for which no receive is posted, so that their senders can go on. Those of ranks that send
/// synchronously stay where they are until all ranks have stopped: their senders can stop without that. The result says
/// whether all that were pulled have arrived.
pub(crate) fn messages() -> Result<bool, i32> {
    let all = ALL_HAVE_STOPPED.load(Ordering::Relaxed);
    let mut queue = unexpected::queue();
    // The targets tell which ranks those are. Until they are known, all messages stay.
    let some = all || service::clock_target(TARGETS_ARE_KNOWN) != 0;
    for comm in live_comms().filter(|_| some) {
        match all {
            true => queue.pull(comm)?,
            false => queue.pull_unsynchronous(comm)?,
        }
    }
    queue.look()
}

impl Pair {
    /// Status and error of the whole, once both operations are done.
    pub(crate) fn outcome(&self) -> Option<(Status, i32)> {
        let is_done = |part: &&Request| part.body.state.get() == State::Done;
        if !self.parts().iter().all(is_done) {
            return None;
        }
        let (mut status, mut unwanted) = (Status::EMPTY, Status::EMPTY);
        let main = self.main.result(&mut status)?;
        let other = self.other.result(&mut unwanted)?;
        let error = if main == SUCCESS { other } else { main };
        Some((status, error))
    }
}

impl Partitioned {
    /// Status and error, once all partitions have been moved.
    pub(crate) fn outcome(&self) -> Option<(Status, i32)> {
        let whole = self.whole()?;
        if whole.body.state.get() != State::Done {
            return None;
        }
        let mut status = Status::EMPTY;
        let error = whole.result(&mut status)?;
        let mut handle = whole;
        whole.collect(&mut handle);
        if !self.sends {
            (status.source, status.tag) = (self.source, self.tag);
        }
        Some((status, error))
    }
}
