//! The clocks of a run that is recorded or replayed (docs/internals/record.md): the values that the initial thread of
//! the program reads are written, or come from the record.
//!
//! While that is on, the slots of the vDSO (`load/vdso.rs`) lead to system calls that trap. So a read is made in their
//! handler, where no signal comes between: it is recorded once, or not at all. Other threads, and children, get the
//! application's clock.
//!
//! # Safety
//! The lower half promises of a [`Window`] that it is mapped until another one is set.
#![allow(unsafe_code)]

use super::syscalls::Call;
use super::threads::Thread;
use crate::sys::clock;
use crate::sys::spin_lock::{Guard, Spin};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use record::clocks::{Clock, Reads, Values, MOST_BYTES};

/// The part of the record's file that is mapped for writing.
#[derive(Clone, Copy)]
pub struct Window {
    /// Its address.
    pub address: usize,
    /// Offset of its first byte among the events.
    pub begin: u64,
    /// Offset behind its last byte.
    pub end: u64,
    /// The number of bytes of events.
    pub counted: &'static AtomicU64,
}

/// A read that is not as in the recorded run. From here on the clocks are the machine's.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// Number of the read, from 1.
    pub number: u64,
    /// The clock that was read then; `None` where the record ends.
    pub then: Option<Clock>,
    /// The one that is read now.
    pub now: Clock,
}

enum Mode {
    Off,
    Record(Window),
    /// The events, and the offset of the next one.
    Replay(&'static [u8], usize),
    /// As before, behind a difference.
    Differed(usize),
}

struct State {
    mode: Mode,
    values: Values,
    reads: u64,
    /// Makes room for events, by [`move_window`]; whether there is any.
    room: fn() -> bool,
    tell: fn(Difference),
}

static STATE: Spin<State> = Spin::new(State {
    mode: Mode::Off,
    values: Values::NONE,
    reads: 0,
    room: || false,
    tell: |_| (),
});

/// Whether the slots lead here.
static ON: AtomicBool = AtomicBool::new(false);

/// Whether clocks are recorded or replayed.
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Records the clocks from the program's start, or from its restart. `room` is called where the window is full: it is
/// to move it, and tells whether there is room now. To be called before the program is prepared or restored.
pub fn record(window: Window, values: Values, room: fn() -> bool) {
    let mut state = STATE.lock();
    (state.mode, state.values, state.room) = (Mode::Record(window), values, room);
    ON.store(true, Ordering::Relaxed);
}

/// Replays the clocks of these events from an offset on. `tell` is called at the first difference. To be called before
/// the program is prepared or restored.
pub fn replay(events: &'static [u8], from: usize, tell: fn(Difference)) {
    let mut reads = Reads::of(events);
    let number = reads.skip_to(from as u64);
    let mut state = STATE.lock();
    state.mode = Mode::Replay(events, reads.at);
    (state.values, state.reads, state.tell) = (reads.values, number, tell);
    ON.store(true, Ordering::Relaxed);
}

/// Writes to another window from now on.
pub fn move_window(window: Window) {
    let mut state = STATE.lock();
    if let Mode::Record(now) = &mut state.mode {
        *now = window;
    }
}

/// Nothing is recorded or replayed any more.
pub fn stop() {
    STATE.lock().mode = Mode::Off;
}

/// Offset of the next event of the replay.
pub fn replayed() -> Option<usize> {
    match STATE.lock().mode {
        Mode::Replay(_, at) | Mode::Differed(at) => Some(at),
        Mode::Off | Mode::Record(_) => None,
    }
}

/// Sets the application's clocks near those of the recorded run, for deadlines and for other threads: each shows its
/// first value in the record. One in seconds or ticks says less than another one of the same clock.
pub fn set_clocks() {
    let state = STATE.lock();
    let Mode::Replay(events, at) = state.mode else {
        return;
    };
    let values = state.values.clone();
    drop(state);
    let mut known = [false; clock::SHIFTED];
    for fine in [true, false] {
        for (clock, value) in Reads::of(events).from(at, values.clone()) {
            let id = of_kernel(clock);
            let index = clock::shifted(id).filter(|_| clock::is_coarse(id) != fine);
            if index.is_some_and(|index| !core::mem::replace(&mut known[index], true)) {
                // No thread has seen a later value before.
                clock::show(
                    id,
                    nanoseconds(clock, value).saturating_add(clock.unit() - 1),
                );
            }
        }
    }
}

fn nanoseconds(clock: Clock, value: i64) -> i64 {
    value.saturating_mul(clock.unit())
}

/// The kernel's clock with the value.
fn of_kernel(clock: Clock) -> i32 {
    match clock {
        Clock::GETTIMEOFDAY => libc::CLOCK_REALTIME,
        // The kernel does not compute the part of a second for this function.
        Clock::TIME => libc::CLOCK_REALTIME_COARSE,
        // A clock without an id is one of those above.
        _ => clock.id().unwrap_or_default(),
    }
}

/// The value that the program gets, in the clock's unit.
///
/// # Errors
/// The kernel's negative error number if the clock cannot be read.
pub fn read(call: &Call, clock: Clock) -> Result<i64, isize> {
    loop {
        let now = application(clock)?;
        if !call.in_rank() || !call.thread.is_main() {
            return Ok(now);
        }
        let mut state = STATE.lock();
        match state.mode {
            Mode::Off | Mode::Differed(_) => return Ok(now),
            Mode::Record(window) => {
                if state.write(window, clock, now) {
                    return Ok(now);
                }
                let room = state.room;
                drop(state);
                if !call.thread.on_lower(room) {
                    stop();
                }
            }
            Mode::Replay(events, at) => match state.next(events, at, clock) {
                Ok(value) => return Ok(value),
                Err(difference) => differ(state, call.thread, at, difference),
            },
        }
    }
}

/// The value of the application's clock.
fn application(clock: Clock) -> Result<i64, isize> {
    Ok(clock::shown(of_kernel(clock))? / clock.unit())
}

impl State {
    /// Writes a read, if there is room.
    fn write(&mut self, window: Window, clock: Clock, value: i64) -> bool {
        let at = window.counted.load(Ordering::Relaxed);
        if at + MOST_BYTES as u64 > window.end {
            return false;
        }
        let (event, length) = self.values.encode(clock, value);
        let place = window.address + (at - window.begin) as usize;
        // SAFETY: the window is mapped (see the head), and all bytes of the event lie in it.
        unsafe { (place as *mut [u8; MOST_BYTES]).write_unaligned(event) };
        // Only now it counts: a process that is killed leaves whole events.
        window.counted.store(at + length as u64, Ordering::Release);
        self.values.note(clock, value);
        self.reads += 1;
        true
    }

    /// The next value of the record.
    fn next(&mut self, events: &[u8], at: usize, clock: Clock) -> Result<i64, Difference> {
        let rest = events.get(at..).unwrap_or_default();
        let difference = |then| Difference {
            number: self.reads + 1,
            then,
            now: clock,
        };
        match self.values.decode(rest) {
            Some((then, value, length)) if then == clock => {
                self.values.note(clock, value);
                self.reads += 1;
                if let Mode::Replay(_, at) = &mut self.mode {
                    *at += length;
                }
                Ok(value)
            }
            Some((then, ..)) => Err(difference(Some(then))),
            None => Err(difference(None)),
        }
    }
}

/// The clocks go on without the record, and not back.
fn differ(mut state: Guard<'_, State>, thread: &Thread, at: usize, difference: Difference) {
    state.mode = Mode::Differed(at);
    for clock in Clock::all() {
        if let Some(value) = state.values.last(clock) {
            clock::not_before(of_kernel(clock), nanoseconds(clock, value));
        }
    }
    let tell = state.tell;
    drop(state);
    thread.on_lower(|| tell(difference));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(mode: Mode) -> State {
        State {
            mode,
            values: Values::NONE,
            reads: 0,
            room: || false,
            tell: |_| (),
        }
    }

    #[test]
    fn what_is_written_is_replayed_until_another_clock_is_read() {
        static COUNTED: AtomicU64 = AtomicU64::new(0);
        let mut events = vec![0; 3 * MOST_BYTES];
        let window = Window {
            address: events.as_mut_ptr() as usize,
            begin: 0,
            end: events.len() as u64,
            counted: &COUNTED,
        };
        let (first, other) = (Clock::TIME, Clock::GETTIMEOFDAY);
        let mut written = state(Mode::Record(window));
        let mut value = 1_800_000_000;
        while written.write(window, first, value) {
            value += 7;
        }
        let counted = COUNTED.load(Ordering::Relaxed);
        assert!(counted + MOST_BYTES as u64 > window.end);

        events.truncate(counted as usize);
        let events: &'static [u8] = events.leak();
        let mut replayed = state(Mode::Replay(events, 0));
        let mut ask = |clock| match replayed.mode {
            Mode::Replay(events, at) => replayed.next(events, at, clock),
            _ => unreachable!("nothing else sets the mode"),
        };
        assert_eq!(ask(first).ok(), Some(1_800_000_000));
        let difference = ask(other).unwrap_err();
        assert_eq!((difference.number, difference.then), (2, Some(first)));
        let rest: Vec<i64> = std::iter::from_fn(|| ask(first).ok()).collect();
        assert_eq!(rest.last(), Some(&(value - 7)));
        let ended = ask(first).unwrap_err();
        assert_eq!(ended.number, written.reads + 1);
        assert_eq!(ended.then, None);
    }
}
