//! Waiting while a checkpoint is pending. A thread that cannot go on looks at everything under way,
//! says on whom it waits, and gives the processor away; when all ranks are to stop, it stops here.
//! After a stop the lower half may be another one: nothing that was read before is used again.
//!
//! # Safety
//! As for `sweep.rs`; and a stop happens with no lock held and nothing of the lower half in hand.
#![allow(unsafe_code)]

use super::activity::{self, WaitSet};
use super::partitioned;
use super::sweep::{self, phase};
use crate::lower::service;
use crate::sync::Lock;
use contract::{gate, ActivityKind, Clock, Phase};
use core::sync::atomic::{AtomicU32, Ordering};

/// Parks the thread until the checkpoint is over, here or in another process.
///
/// The caller holds no lock, and reads every word again.
pub(super) fn stop_here() {
    #[cfg(not(test))]
    crate::wrapper::stop();
    #[cfg(test)]
    super::fake::stopped();
}

/// What a thread that waits finds when it looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// What it waits for is there.
    Ready,
    /// Only the lower half can bring it: a waiting service will do once no checkpoint is pending.
    Below,
    /// It must be looked for here.
    Here,
}

/// Waits until `look` says `Ready`, or `Below` with no checkpoint pending: the caller then goes
/// back to the service. `waits_for` names the ranks whose message would help.
///
/// # Safety
/// Crosses, and may stop: the caller must read every word again.
pub(super) unsafe fn until(
    mut look: impl FnMut() -> Look,
    mut waits_for: impl FnMut(&mut WaitSet),
) {
    let mut told = sweep::found();
    loop {
        let phase = phase();
        if phase == Phase::Stop {
            stop_here();
            continue;
        }
        match look() {
            Look::Ready => break,
            Look::Below if phase == Phase::Run => break,
            Look::Below | Look::Here => {}
        }
        // SAFETY: passed on to the caller.
        unsafe { look_around(phase) };
        if look() == Look::Ready {
            break;
        }
        if phase != Phase::Run {
            let mut set = WaitSet::new();
            waits_for(&mut set);
            let shown = set.show(&gate().activity);
            // SAFETY: passed on to the caller.
            unsafe { tell(shown, &mut told) };
        }
        // SAFETY: a service without arguments.
        unsafe { service::yield_now() };
    }
    // SAFETY: passed on to the caller.
    unsafe { moving() };
}

/// Waits until `there`, which looks for what any other rank may bring about.
///
/// # Safety
/// As for [`until`].
pub(crate) unsafe fn wait_until(mut there: impl FnMut() -> bool) {
    let look = || if there() { Look::Ready } else { Look::Here };
    // SAFETY: passed on to the caller.
    unsafe { until(look, WaitSet::add_all) };
}

/// Tells the agent if the activity changed, or if counts may have since they were `told`: on them
/// it depends whether the coordinator sees a message under way.
unsafe fn tell(changed: bool, told: &mut u64) {
    let found = sweep::found();
    if changed || *told != found {
        *told = found;
        // SAFETY: a service without arguments.
        unsafe { service::notify() };
    }
}

/// One look at everything under way.
///
/// # Safety
/// Crosses.
pub(super) unsafe fn look_around(phase: Phase) {
    // SAFETY: passed on to the caller.
    unsafe {
        sweep::requests();
        partitioned::match_announced();
        if phase != Phase::Run {
            // A message that cannot be pulled now (no memory) is tried again, and the drain says so.
            let _ = sweep::messages();
        }
    }
}

/// The thread goes on: it waits for nobody now.
///
/// # Safety
/// Crosses.
pub(super) unsafe fn moving() {
    if phase() == Phase::Run {
        return;
    }
    POLLS.store(0, Ordering::Relaxed);
    if activity::running() {
        // SAFETY: a service without arguments.
        unsafe { service::notify() };
    }
}

/// Tests and probes in a row that found nothing while a checkpoint was pending.
static POLLS: AtomicU32 = AtomicU32::new(0);
/// What the agent was told by such polls.
static TOLD: Lock<u64> = Lock::new(0);
/// So many make a program that does nothing but poll: it waits, in its own way.
const POLLS_THAT_WAIT: u32 = 1000;

/// A test or probe found nothing while a checkpoint is pending. A program that polls in a loop
/// depends on others like one that waits, so it says so too, if it goes on like that.
///
/// # Safety
/// Crosses.
pub(super) unsafe fn polled(waits_for: impl FnOnce(&mut WaitSet)) {
    let polls = POLLS.load(Ordering::Relaxed).saturating_add(1);
    POLLS.store(polls, Ordering::Relaxed);
    if polls < POLLS_THAT_WAIT {
        return;
    }
    let mut set = WaitSet::new();
    waits_for(&mut set);
    let shown = set.show(&gate().activity);
    // SAFETY: passed on to the caller; a service without arguments.
    unsafe {
        tell(shown, &mut TOLD.lock());
        service::yield_now();
    }
}

/// Parks before operation `seq` of `clock`, which passes its target: until the target is raised, the
/// checkpoint is over, or it is time to stop (which the caller sees by the phase). `kind` says to the
/// agent which operation it is.
///
/// # Safety
/// Crosses.
pub(super) unsafe fn before(clock: &'static Clock, seq: u64, kind: ActivityKind) {
    let mut told = sweep::found();
    while phase() == Phase::Approach && seq > clock.target.load(Ordering::Acquire) {
        // SAFETY: passed on to the caller.
        unsafe {
            look_around(Phase::Approach);
            let id = clock.id.load(Ordering::Relaxed);
            let shown = activity::show_parked(&gate().activity, kind, id, seq);
            tell(shown, &mut told);
            service::yield_now();
        }
    }
}
