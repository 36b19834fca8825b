//! Table of POSIX timers. The application's id of a timer is its index in the table, from which a restart creates the
//! timers again. The handlers of the system calls are in `syscalls/timers.rs`.

use crate::sys::clock::{self, Timespec};
use crate::sys::spin_lock::Spin;
use crate::sys::syscall;
use serde::{Deserialize, Serialize};

/// Timers that an application can have at a time.
const TIMERS: usize = 1024;

/// `struct sigevent` in words: value (two), signal, notify, thread id.
pub(super) type Event = [i32; 16];

const NOTIFY: usize = 3;

const THREAD_ID: usize = 4;

/// Error of an absolute time in nanoseconds, because its two clocks are read one after the other.
const SLACK: i64 = 1_000_000;

/// A timer: its parameters and its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    /// Clock.
    pub clock: i32,
    /// `struct sigevent`, with the application's thread ids.
    pub(super) event: Event,
    /// Whether it expires at an absolute time of the wall clock.
    pub(super) wall: bool,
    /// Nanoseconds between two expirations.
    pub(super) interval: i64,
    /// Nanoseconds until the next expiration, or its time on the wall clock; 0: none.
    pub(super) next: i64,
}

#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) kernel: i32,
    pub(super) timer: Timer,
}

pub(super) static TABLE: Spin<[Option<Entry>; TIMERS]> = Spin::new([None; TIMERS]);

pub(super) fn is_wall(clock: i32) -> bool {
    matches!(
        clock,
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_ALARM | libc::CLOCK_TAI
    )
}

/// Creates the timer in the kernel; returns its kernel id or the error.
pub(super) fn create(timer: &Timer, real_tid: impl Fn(u32) -> u32) -> isize {
    let mut event = timer.event;
    if event[NOTIFY] & libc::SIGEV_THREAD_ID != 0 {
        event[THREAD_ID] = real_tid(event[THREAD_ID] as u32) as i32;
    }
    syscall::timer_create(timer.clock, &event)
}

/// Kernel id of one of the application's timers.
pub fn kernel_id(id: i32) -> Option<i32> {
    let table = TABLE.lock();
    let entry = usize::try_from(id).ok().and_then(|id| table.get(id));
    entry.copied().flatten().map(|entry| entry.kernel)
}

/// Application's id of the timer with this kernel id.
pub fn application_id(kernel: i32) -> Option<i32> {
    let table = TABLE.lock();
    let mut entries = table.iter();
    let found = entries.position(|e| e.is_some_and(|e| e.kernel == kernel));
    found.map(|id| id as i32)
}

/// All timers with their ids, in their current state.
pub fn all() -> Vec<(u32, Timer)> {
    let entries: Vec<(u32, Entry)> = {
        let table = TABLE.lock();
        let used = (0..).zip(table.iter());
        used.filter_map(|(id, entry)| Some((id, (*entry)?)))
            .collect()
    };
    let running = entries
        .into_iter()
        .map(|(id, Entry { kernel, mut timer })| {
            let [interval, next] = syscall::timer_gettime(kernel).map(|t| t.ns());
            (timer.interval, timer.next) = (interval, next);
            if timer.wall && next != 0 {
                timer.next = next.saturating_add(clock::now(timer.clock));
            }
            (id, timer)
        });
    running.collect()
}

/// Whether one of these has expired since it was captured.
pub fn have_expired_since(timers: &[(u32, Timer)]) -> bool {
    let now = all();
    timers
        .iter()
        .filter(|(_, was)| was.next != 0)
        .any(|(id, was)| {
            let is = now.iter().find(|(other, _)| other == id);
            // An absolute time stays the same, up to the error of reading it, until the expiration.
            let slack = if was.wall { SLACK } else { 0 };
            is.is_some_and(|(_, is)| is.next == 0 || is.next > was.next.saturating_add(slack))
        })
}

/// Creates a saved timer, not armed. `real_tid` maps the ids of the notified threads.
pub fn restore(id: u32, timer: &Timer, real_tid: impl Fn(u32) -> u32) -> std::io::Result<()> {
    let kernel = create(timer, real_tid);
    if syscall::is_err(kernel) {
        return Err(syscall::io_error(kernel));
    }
    let entry = Entry {
        kernel: kernel as i32,
        timer: *timer,
    };
    match TABLE.lock().get_mut(id as usize) {
        Some(place) => *place = Some(entry),
        None => return Err(syscall::io_error(syscall::err(libc::EINVAL))),
    }
    Ok(())
}

/// Arms all restored timers.
pub fn start() {
    for entry in TABLE.lock().iter().flatten() {
        let timer = &entry.timer;
        let times = [Timespec::new(timer.interval), Timespec::new(timer.next)];
        let flags = if timer.wall { libc::TIMER_ABSTIME } else { 0 };
        if timer.next != 0 {
            syscall::timer_settime(entry.kernel, flags, &times);
        }
    }
}

/// Clears the table in a forked child, which has no timers.
pub fn after_fork() {
    *TABLE.lock() = [None; TIMERS];
}
