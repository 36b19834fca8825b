//! Waiting while a checkpoint is pending. A thread that cannot go on looks at everything under way, reports on which
//! ranks it waits, and gives the processor away. When all ranks are to stop, it stops here. After a stop the lower half
//! may be another one: nothing that was read before is used again.
//!
//! A stop happens with no lock held and nothing of the lower half in hand.
//!
//! # Safety
//! A look at announcements crosses, as a sweep does.
#![allow(unsafe_code)]

use crate::crossing::call_guard::{self, record};
use crate::crossing::stubs::service;
use crate::perturb::delivery;
use crate::pt2pt::{partition_matching, receipts_heard};
use crate::quiesce::progress::phase;
use crate::quiesce::waits::{Report, Waits};
use crate::quiesce::{bookmarks, progress, unasked, wait_report};
use crate::runtime::lock::Lock;
use contract::recorder::Event;
use contract::{gate, ActivityKind, Clock, Phase};
use core::sync::atomic::{AtomicU32, Ordering};

/// Parks the thread until the checkpoint is over, here or in another process.
///
/// The caller holds no lock, and reads every word again.
pub(crate) fn stop_here() {
    call_guard::stop();
}

/// Clocks before whose next operation a thread is parked.
static PARKED: Lock<Vec<u64>> = Lock::new(Vec::new());

/// Parks a thread that is before an operation on `clock`, as [`stop_here`]. The result says whether the job was
/// restarted meanwhile.
pub(crate) fn stop_before(clock: &'static Clock) -> bool {
    let id = clock.id.load(Ordering::Relaxed);
    PARKED.lock().push(id);
    let restarted = call_guard::stop();
    let mut parked = PARKED.lock();
    if let Some(place) = parked.iter().position(|its| *its == id) {
        parked.swap_remove(place);
    }
    restarted
}

/// Whether a thread is parked before an operation on that clock.
pub(crate) fn is_parked_before(clock: &Clock) -> bool {
    let id = clock.id.load(Ordering::Relaxed);
    PARKED.lock().contains(&id)
}

/// The state of what a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitState {
    /// What it waits for is there.
    Ready,
    /// Only the lower half can bring it: a waiting service will do once no checkpoint is pending.
    InLibrary,
    /// It must be looked for here.
    PollHere,
}

/// Waits until `look` returns `Ready`, or `InLibrary` with no checkpoint pending: the caller then goes
/// back to the service. `waits_for` names the ranks whose message would help.
///
/// The thread may stop: the caller holds no lock, and reads every word again.
pub(crate) fn until(mut look: impl FnMut() -> WaitState, mut waits_for: impl FnMut(&mut Waits)) {
    let mut told = bookmarks::progress_count();
    let mut report = Report::new();
    loop {
        let phase = phase();
        if phase == Phase::Stop {
            stop_here();
            continue;
        }
        match look() {
            WaitState::Ready => break,
            WaitState::InLibrary if phase == Phase::Run => break,
            WaitState::InLibrary | WaitState::PollHere => {}
        }
        look_around(phase);
        if look() == WaitState::Ready {
            break;
        }
        if phase != Phase::Run {
            let mut waits = Waits::new();
            waits_for(&mut waits);
            report.tell(&waits);
            let shown = waits.show(&gate().activity);
            tell(shown, &mut told);
        }
        service::yield_now();
    }
    drop(report);
    moving();
}

/// Waits until `there`, which looks for what any other rank may bring about. The thread may stop, as in [`until`].
pub(crate) fn wait_until(mut there: impl FnMut() -> bool) {
    let look = || {
        if there() {
            WaitState::Ready
        } else {
            WaitState::PollHere
        }
    };
    until(look, Waits::anyone);
}

/// Tells the agent if the activity changed, or if counts may have since they were `told`: on them
/// it depends whether the coordinator sees a message under way.
pub(crate) fn tell(changed: bool, told: &mut u64) {
    let found = bookmarks::progress_count();
    if changed || *told != found {
        *told = found;
        service::notify();
    }
}

/// One look at everything under way. The thread may stop, as in [`until`].
pub(crate) fn look_around(phase: Phase) {
    progress::visible_schedules();
    look_from_library(phase);
}

/// The same for a thread in a call of the library.
pub(crate) fn look_from_library(phase: Phase) {
    progress::requests();
    partition_matching::match_announced();
    receipts_heard::listen();
    delivery::look(1);
    match phase {
        Phase::Run => {}
        Phase::Explain => unasked::answer(),
        Phase::Approach | Phase::Stop => {
            // A message that cannot be pulled now (no memory) is tried again, and the drain says so.
            let _ = progress::messages();
        }
    }
}

/// The thread goes on: it waits for nobody now.
pub(crate) fn moving() {
    if phase() == Phase::Run {
        return;
    }
    POLLS.store(0, Ordering::Relaxed);
    if wait_report::running() {
        service::notify();
    }
}

/// Tests and probes in a row that found nothing while a checkpoint was pending.
static POLLS: AtomicU32 = AtomicU32::new(0);
/// Last progress count that such a poll has reported to the agent.
static TOLD: Lock<u64> = Lock::new(0);
/// A program that polls more often than this in a row does nothing else: it waits.
const POLLS_THAT_WAIT: u32 = 1000;

/// A test or probe found nothing while a checkpoint is pending. A program that polls in a loop
/// depends on others like one that waits, so it says so too, if it goes on like that.
pub(crate) fn polled(waits_for: impl FnOnce(&mut Waits)) {
    let polls = POLLS.load(Ordering::Relaxed).saturating_add(1);
    POLLS.store(polls, Ordering::Relaxed);
    if polls < POLLS_THAT_WAIT {
        return;
    }
    let mut waits = Waits::new();
    waits_for(&mut waits);
    let shown = waits.show(&gate().activity);
    tell(shown, &mut TOLD.lock());
    service::yield_now();
}

/// Parks before operation `seq` of `clock`, which passes its target: until the target is raised, the
/// checkpoint is over, or it is time to stop (which the caller sees by the phase). `kind` says to the
/// agent which operation it is.
pub(crate) fn before(clock: &'static Clock, seq: u64, kind: ActivityKind) {
    let mut told = bookmarks::progress_count();
    let id = clock.id.load(Ordering::Relaxed);
    let mut parked = false;
    while phase() == Phase::Approach && seq > clock.target.load(Ordering::Acquire) {
        look_around(Phase::Approach);
        if !parked {
            parked = true;
            record(Event::Parked, [id, seq]);
        }
        let shown = wait_report::show_parked(&gate().activity, kind, id, seq);
        tell(shown, &mut told);
        service::yield_now();
    }
    if parked {
        record(Event::Unparked, [id, seq]);
    }
}
