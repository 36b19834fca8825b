//! The waits of the threads of this rank, for `stasis explain`.
//!
//! While the phase is *explain*, functions of MPI that wait come back to the upper half, which tells what they wait for
//! (`contract::waits`), and blocking collective operations get turns. Nothing is held back, and no message is pulled:
//! the program goes on as before, a little slower.
//!
//! # Safety
//! The reports are in upper-half memory that stays mapped, and hold atomics only.
#![allow(unsafe_code)]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use contract::recorder::Event;
use contract::waits::{
    self, WaitFor, WaitKind, WaitReports, WaitSlot, ANY_PEER, ANY_TAG, ONE_IS_ENOUGH, SOME_AMOUNT,
};
use contract::{gate, is_clock_of_communicator, Activity, ActivityKind, Clock, MpiState, Phase};
use coordinator::protocol::{Entered, RankWaits, Tag, ThreadWaits, Unasked, Wait};

use crate::agent::current_call;
use crate::mpi;
use crate::recorder;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_millis(20);
/// Looks without a change after which a rank stands still.
const STILL_LOOKS: u32 = 6;
/// Longest time for which a rank is watched.
const LIMIT: Duration = Duration::from_secs(1);

fn reports() -> Option<&'static WaitReports> {
    let reports = gate().waits.load(Ordering::Acquire) as *const WaitReports;
    // SAFETY: the upper half's reports, or null; see the head.
    unsafe { reports.as_ref() }
}

/// The phase *explain*, until this is dropped. A pending checkpoint keeps its own phase, in which waits are told, too.
pub struct Explaining(bool);

impl Explaining {
    /// Enters the phase, if the upper half knows it and no checkpoint is pending.
    pub fn begin() -> Explaining {
        // The report to an earlier checkpoint may still be there. Threads write it again in the phase.
        if gate().phase.load(Ordering::SeqCst) == Phase::Run as u32 {
            let kind = &gate().activity.kind;
            let (waiting, running) = (ActivityKind::Waiting as u32, ActivityKind::Running as u32);
            let _ = kind.compare_exchange(waiting, running, Ordering::SeqCst, Ordering::Relaxed);
        }
        let known = reports().is_some() && gate().mpi_is(MpiState::Initialised);
        Explaining(known && change(Phase::Run, Phase::Explain))
    }
}

impl Drop for Explaining {
    fn drop(&mut self) {
        if self.0 {
            change(Phase::Explain, Phase::Run);
        }
    }
}

/// Changes the phase, if it is still the expected one.
fn change(from: Phase, to: Phase) -> bool {
    if to != Phase::Run {
        mpi::contents::disturb();
    }
    let phase = &gate().phase;
    let changed =
        phase.compare_exchange(from as u32, to as u32, Ordering::SeqCst, Ordering::SeqCst);
    if changed.is_ok() {
        mpi::set_pending(to != Phase::Run);
        recorder::note(Event::Phase, [to as u64, 0]);
    }
    changed.is_ok()
}

/// Watches the rank until nothing changes any more: neither what it tells, nor its `progress`. Returns whether that
/// came about in time.
pub fn watch(progress: impl Fn() -> u64) -> bool {
    let begun = Instant::now();
    let (mut last, mut same) = (None, 0);
    while begun.elapsed() < LIMIT {
        if let Some(reports) = reports() {
            reports.unasked.asked.fetch_add(1, Ordering::Release);
        }
        sleep(INTERVAL);
        let now = (progress(), fingerprint());
        // Where many ranks share a processor, a thread that is to tell its wait may get none for as long.
        same = match last == Some(now) && !current_call::is_about_to_end() {
            true => same + 1,
            false => 0,
        };
        last = Some(now);
        if same >= STILL_LOOKS {
            return true;
        }
    }
    false
}

/// A number that changes with what the threads tell.
fn fingerprint() -> u64 {
    let mut hasher = DefaultHasher::new();
    let RankWaits {
        threads, unasked, ..
    } = told();
    (threads, unasked).hash(&mut hasher);
    gate()
        .activity
        .kind
        .load(Ordering::Relaxed)
        .hash(&mut hasher);
    hasher.finish()
}

/// The reports of the upper half.
pub fn told() -> RankWaits {
    let Some(reports) = reports() else {
        return RankWaits::default();
    };
    let unasked = &reports.unasked;
    let messages = waits::read(&unasked.version, || {
        let used = unasked.entries_used.load(Ordering::Relaxed) as usize;
        let entries = unasked.entries.iter().take(used);
        entries.map(|entry| message(&entry.load())).collect()
    });
    RankWaits {
        multiple: reports.multiple.load(Ordering::Relaxed) != 0,
        threads: reports.slots.iter().filter_map(thread).collect(),
        names: reports.names.iter().filter_map(name).collect(),
        unasked: messages.unwrap_or_default(),
        ..RankWaits::default()
    }
}

/// The wait of one thread.
fn thread(slot: &WaitSlot) -> Option<ThreadWaits> {
    let told = waits::read(&slot.version, || {
        let how = slot.how.load(Ordering::Relaxed);
        let used = slot.entries_used.load(Ordering::Relaxed) as usize;
        let entries = slot.entries.iter().take(used);
        ThreadWaits {
            thread: slot.thread.load(Ordering::Relaxed),
            one_is_enough: how & ONE_IS_ENOUGH != 0,
            on: entries.map(|entry| wait(&entry.load())).collect(),
            more: slot.more.load(Ordering::Relaxed),
        }
    });
    told.filter(|told| told.thread != 0)
}

fn wait(told: &WaitFor) -> Wait {
    let comm = told.comm;
    let tag = match told.tag {
        ANY_TAG => Tag::Any,
        tag if tag < 0 => Tag::Unknown,
        tag => Tag::Is(tag),
    };
    let amount = (told.amount != SOME_AMOUNT).then_some(told.amount);
    match told.kind {
        WaitKind::Message => Wait::Message {
            from: (told.peer != ANY_PEER).then_some(told.peer),
            comm,
            tag,
            room: amount,
        },
        WaitKind::Receiver if told.peer != ANY_PEER => Wait::Receiver {
            to: told.peer,
            comm,
            tag,
            bytes: amount,
        },
        WaitKind::Members => Wait::Members {
            comm,
            number: told.amount,
        },
        WaitKind::Receiver | WaitKind::Anyone => Wait::Anyone,
    }
}

fn message(told: &WaitFor) -> Unasked {
    Unasked {
        from: told.peer,
        comm: told.comm,
        tag: told.tag,
        bytes: told.amount,
    }
}

fn name(entry: &waits::CommName) -> Option<(u64, String)> {
    let id = entry.id.load(Ordering::Acquire);
    let words = entry.text.iter().map(|word| word.load(Ordering::Relaxed));
    let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    (id != 0).then(|| (id, String::from_utf8_lossy(text).into_owned()))
}

/// The last operation that the rank has entered on each communicator. A retractable one counts only when it is over, so
/// the `activity` tells it.
pub fn entered(clocks: &[Clock], activity: &Activity) -> Vec<Entered> {
    let collective = [
        ActivityKind::Collective,
        ActivityKind::Parked,
        ActivityKind::Finalising,
    ];
    let kind = activity.kind.load(Ordering::Acquire);
    let is_inside = collective.iter().any(|known| *known as u32 == kind);
    let inside = is_inside.then(|| activity.clock_id.load(Ordering::Relaxed));
    let entered = clocks.iter().filter_map(|clock| {
        let comm = clock.id.load(Ordering::Acquire);
        let left = clock.left.load(Ordering::Acquire);
        let inside = clock.seq.load(Ordering::Acquire) != left || inside == Some(comm);
        is_clock_of_communicator(comm).then_some(Entered {
            comm,
            number: left + u64::from(inside),
            inside,
        })
    });
    entered.collect()
}
