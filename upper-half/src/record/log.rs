//! Events are written to the record, which the lower half has mapped, or asked for by its services.
//!
//! # Safety
//! The lower half promises of [`Record`](contract::record::Record) that its window, its number of bytes and its table
//! of calls are mapped until its service moves the window. One thread at a time uses them, under a lock.
#![allow(unsafe_code)]

use crate::crossing::call_guard;
use crate::crossing::stubs::service;
use crate::record::mode;
use crate::runtime::lock::{multiple, Lock};
use crate::tools;
use contract::record::{Binding, Call, CallTable, Outcome, Record, RecordMode, ENDED, LAST, MISS};
use contract::{gate, TOOL_CONTENTS};
use core::sync::atomic::{AtomicU64, Ordering};
use record::{again, table, Encoded, Event};

/// A run of misses of a thread, which grows in place until the thread writes another event.
struct Misses {
    thread: u32,
    /// Its offset.
    at: u64,
    number: u32,
}

/// The state of the writer.
struct Tail {
    /// The thread of the last ordered event.
    thread: u32,
    misses: Vec<Misses>,
}

static TAIL: Lock<Tail> = Lock::new(Tail::new());

impl Tail {
    /// Of a record whose next event is the initial thread's.
    const fn new() -> Tail {
        Tail {
            thread: 0,
            misses: Vec::new(),
        }
    }

    /// The table of calls.
    #[inline(always)]
    fn calls(&mut self, record: &Record) -> &mut CallTable {
        let calls = record.calls.load(Ordering::Relaxed) as *mut CallTable;
        // SAFETY: see the head; the lock is held.
        unsafe { &mut *calls }
    }

    /// The next event is an ordered one of the calling thread, which is written behind `record`'s end.
    fn begin(&mut self, record: &Record) {
        let thread = call_guard::thread_number();
        if !self.misses.is_empty() {
            self.misses.retain(|misses| misses.thread != thread);
        }
        if self.thread != thread {
            self.thread = thread;
            append(record, &Event::Thread(thread).encode());
        }
    }
}

/// The record, if there is one.
#[inline]
fn shared() -> Option<&'static Record> {
    let address = gate().record.load(Ordering::Acquire);
    // SAFETY: null or a static of the lower half.
    unsafe { (address as *const Record).as_ref() }
}

/// Learns from the lower half what is to be done. To be called when MPI is initialised, and first after a restart.
pub(crate) fn begin() {
    *TAIL.lock() = Tail::new();
    call_guard::forget_turns();
    let told = shared().map(|record| record.mode.load(Ordering::Relaxed));
    mode::set(told.unwrap_or(RecordMode::Off as u32));
    tools::set(TOOL_CONTENTS, tools::wanted() & TOOL_CONTENTS != 0);
}

/// Most bytes of a message whose digest is taken, plus one.
#[inline]
pub(super) fn digest_limit() -> u64 {
    shared().map_or(0, |record| record.digests.load(Ordering::Relaxed))
}

/// Whether the record that is replayed has a cancelled receive.
pub(super) fn has_cancels() -> bool {
    shared().is_some_and(|record| record.cancels.load(Ordering::Relaxed) != 0)
}

/// Whether several threads made the calls of the record that is replayed.
pub(super) fn has_threads() -> bool {
    shared().is_some_and(|record| record.threads.load(Ordering::Relaxed) != 0)
}

/// Whether digests of sent messages are taken.
#[inline]
pub(super) fn digests_of_sends() -> bool {
    shared().is_some_and(|record| record.sends.load(Ordering::Relaxed) != 0)
}

/// The number of bytes of events.
#[inline(always)]
fn end_of(record: &Record) -> &AtomicU64 {
    // SAFETY: see the head.
    unsafe { &*(record.end.load(Ordering::Relaxed) as *const AtomicU64) }
}

/// Stores bytes at an offset among the events, if they lie within the window. Whether they do.
#[inline(always)]
fn store(record: &Record, at: u64, bytes: &[u8]) -> bool {
    let begin = record.window_begin.load(Ordering::Relaxed);
    let after = at + bytes.len() as u64;
    if at < begin || after > record.window_end.load(Ordering::Relaxed) {
        return false;
    }
    let window = record.window.load(Ordering::Relaxed) as *mut u8;
    let place = window.wrapping_add((at - begin) as usize);
    // SAFETY: they lie within the window.
    unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    true
}

/// Appends an event. The result is its offset; `None` if there is no room in the window.
#[inline(always)]
fn append_within(record: &Record, bytes: &[u8]) -> Option<u64> {
    let end = end_of(record);
    let at = end.load(Ordering::Relaxed);
    if !store(record, at, bytes) {
        return None;
    }
    // Only now it counts: a process that is killed leaves whole events.
    end.store(at + bytes.len() as u64, Ordering::Release);
    Some(at)
}

/// The same. The window is moved if necessary; `None` if that fails.
fn append(record: &Record, encoded: &Encoded) -> Option<u64> {
    let appended = || append_within(record, encoded.bytes());
    appended().or_else(|| match service::record_room() {
        0 => None,
        _ => appended(),
    })
}

/// Writes an event of a receive, which has no order.
pub(super) fn write_keyed(event: Event) {
    let _alone = TAIL.lock();
    if let Some(record) = shared() {
        append(record, &event.encode());
    }
}

/// Writes an ordered event.
pub(super) fn write(event: Event) {
    let mut tail = TAIL.lock();
    if let Some(record) = shared() {
        tail.begin(record);
        append(record, &event.encode());
    }
}

/// Writes that a test or probe found nothing.
pub(super) fn write_miss() {
    let mut tail = TAIL.lock();
    let Some(record) = shared() else { return };
    let thread = call_guard::thread_number();
    let begin = record.window_begin.load(Ordering::Relaxed);
    let sealed = record.sealed.load(Ordering::Relaxed);
    let grows = |misses: &&mut Misses| {
        let is_open = misses.at >= begin && misses.at >= sealed && misses.number < u32::MAX;
        misses.thread == thread && is_open
    };
    if let Some(misses) = tail.misses.iter_mut().find(grows) {
        misses.number += 1;
        store(
            record,
            misses.at,
            Event::Misses(misses.number).encode().bytes(),
        );
        return;
    }
    tail.begin(record);
    let at = append(record, &Event::Misses(1).encode());
    tail.misses.extend(at.map(|at| Misses {
        thread,
        at,
        number: 1,
    }));
}

/// Writes a call if that is all that is to be done: it is one of the table, no thread takes turns, there is room, and
/// no digest follows. Whether it is written. Most calls of most programs go this way, so it calls nothing.
#[inline(always)]
pub(super) fn write_again(call: &Call) -> bool {
    if !mode::recording() || multiple() {
        return false;
    }
    let mut tail = TAIL.lock();
    let Some(record) = shared() else { return false };
    let is_next = tail.thread == call_guard::thread_number() && tail.misses.is_empty();
    if !is_next || record.sends.load(Ordering::Relaxed) != 0 {
        return false;
    }
    let number = table::find(tail.calls(record), call);
    number.is_some_and(|number| append_within(record, &again(number)).is_some())
}

/// Writes a call, and the outcome that belongs to it if the call is written with one only.
pub(super) fn write_call(call: &Call, outcome: Option<Event>) {
    let mut tail = TAIL.lock();
    let Some(record) = shared() else { return };
    tail.begin(record);
    let event = table::write(tail.calls(record), call);
    append(record, &event.encode());
    if let Some(outcome) = outcome {
        append(record, &outcome.encode());
    }
}

/// The outcome of a call in the recorded run.
pub(super) enum Told {
    /// It found nothing.
    Miss,
    /// It found this.
    Numbers([i32; 2]),
    /// The record ends.
    Ended,
    /// The run is not replayed any more.
    NotReplayed,
}

/// Asks for the outcome of a call. The call is given where it was written with an outcome only.
pub(super) fn ask(call: Option<&Call>, what: Outcome) -> Told {
    let mut numbers = [0; 2];
    let call = call.map_or(core::ptr::null(), core::ptr::from_ref);
    let thread = call_guard::thread_number();
    // SAFETY: null or a call, and a place for two numbers.
    match unsafe { service::replay_outcome(thread, call, what as u32, numbers.as_mut_ptr()) } {
        ENDED => Told::Ended,
        MISS => Told::Miss,
        _ => Told::Numbers(numbers),
    }
}

/// The fate of a posted receive in the recorded run.
pub(super) enum Got {
    Message(i32, i32),
    Cancelled,
    Nothing,
}

/// Asks what a posted receive got.
pub(super) fn ask_binding(posting: u64) -> Got {
    let mut numbers = [0; 2];
    // SAFETY: a place for two numbers.
    let binding = unsafe { service::replay_binding(posting, numbers.as_mut_ptr()) };
    if binding == Binding::Bound as i32 {
        Got::Message(numbers[0], numbers[1])
    } else if binding == Binding::Cancelled as i32 {
        Got::Cancelled
    } else {
        Got::Nothing
    }
}

/// The place of a call in the record.
pub(super) enum Place {
    /// The record has more behind it.
    Within,
    /// The record ends in it.
    Last,
    /// The record ends before it.
    Behind,
}

/// The replayed run makes a call, whose turn it is.
pub(super) fn ask_call(call: &Call) -> Place {
    let thread = call_guard::thread_number();
    // SAFETY: a call.
    match unsafe { service::replay_call(thread, call) } {
        ENDED => Place::Behind,
        LAST => Place::Last,
        _ => Place::Within,
    }
}

/// Whether it is the calling thread's turn to ask for its next event, as for `contract::service::ReplayTurn`. `looks`
/// is whether it asks for the outcome of a test or probe.
pub(super) fn ask_turn(looks: bool) -> u64 {
    service::replay_turn(call_guard::thread_number(), i32::from(looks))
}

/// Compares a digest.
pub(super) fn compare_digest(bytes: u64, crc: u32) {
    service::replay_digest(call_guard::thread_number(), bytes, crc);
}
