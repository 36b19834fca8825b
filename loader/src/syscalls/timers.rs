//! POSIX timers. The application's ids are places in a table, which says how to make them again.

use super::{fail, Call, Handler, Outcome};
use crate::clock::{self, Timespec};
use crate::lock::Spin;
use crate::{raw, thread, user};
use serde::{Deserialize, Serialize};

pub const HANDLERS: &[(i64, Handler)] = &[
    // An id is a place in a table of the loader's, from which a restart makes the timers again.
    (libc::SYS_timer_create, timer_create),
    (libc::SYS_timer_settime, timer_settime),
    (libc::SYS_timer_gettime, with_timer),
    (libc::SYS_timer_getoverrun, with_timer),
    (libc::SYS_timer_delete, timer_delete),
];

/// Timers that an application can have at a time.
const TIMERS: usize = 1024;

/// `struct sigevent` in words: value (two), signal, notify, thread id.
type Event = [i32; 16];
const SIGNAL: usize = 2;
const NOTIFY: usize = 3;
const THREAD_ID: usize = 4;

/// Nanoseconds by which a moment may seem to be later because it was read twice.
const SLACK: i64 = 1_000_000;

/// A timer as it is made and runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timer {
    /// Its clock.
    pub clock: i32,
    /// `struct sigevent`, with thread ids as the application knows them.
    event: Event,
    /// It waits for a moment on the wall clock, rather than for a time to pass.
    wall: bool,
    /// Nanoseconds between two expirations.
    interval: i64,
    /// Nanoseconds until the next one, or its moment on the wall clock; 0: none.
    next: i64,
}

#[derive(Clone, Copy)]
struct Entry {
    kernel: i32,
    timer: Timer,
}

static TABLE: Spin<[Option<Entry>; TIMERS]> = Spin::new([None; TIMERS]);

fn is_wall(clock: i32) -> bool {
    matches!(
        clock,
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_ALARM | libc::CLOCK_TAI
    )
}

/// Has the kernel make one; its id there or the error.
fn create(timer: &Timer, real_tid: impl Fn(u32) -> u32) -> isize {
    let mut event = timer.event;
    if event[NOTIFY] & libc::SIGEV_THREAD_ID != 0 {
        event[THREAD_ID] = real_tid(event[THREAD_ID] as u32) as i32;
    }
    let mut id = 0i32;
    let args = [
        timer.clock as usize,
        event.as_ptr() as usize,
        &raw mut id as usize,
        0,
        0,
        0,
    ];
    match raw::on_locals(libc::SYS_timer_create, args) {
        0 => core::hint::black_box(id) as isize,
        error => error,
    }
}

fn timer_create(call: &mut Call) -> Outcome {
    let [clock, event, id_at, ..] = call.args();
    if call.vforked() {
        return fail(libc::EAGAIN);
    }
    let mut table = TABLE.lock();
    let Some(id) = table.iter().position(Option::is_none) else {
        return fail(libc::EAGAIN);
    };
    let event = match event {
        0 => {
            let mut usual = [0; 16];
            usual[0] = id as i32;
            usual[SIGNAL] = libc::SIGALRM;
            usual
        }
        event => match user::read::<Event>(event) {
            Ok(event) => event,
            Err(_) => return fail(libc::EFAULT),
        },
    };
    let timer = Timer {
        clock: clock as i32,
        event,
        wall: false,
        interval: 0,
        next: 0,
    };
    let kernel = create(&timer, thread::real_tid);
    if raw::is_err(kernel) {
        return Outcome::Value(kernel);
    }
    let kernel = kernel as i32;
    if user::write(id_at, id as i32).is_err() {
        raw::plain(libc::SYS_timer_delete, [kernel as usize, 0, 0, 0, 0, 0]);
        return fail(libc::EFAULT);
    }
    table[id] = Some(Entry { kernel, timer });
    Outcome::Value(0)
}

fn kernel_id(id: i32) -> Option<i32> {
    let table = TABLE.lock();
    let entry = usize::try_from(id).ok().and_then(|id| table.get(id));
    entry.copied().flatten().map(|entry| entry.kernel)
}

fn with_timer(call: &mut Call) -> Outcome {
    let (nr, mut args) = (call.nr() as i64, call.args());
    match kernel_id(args[0] as i32) {
        Some(kernel) => {
            args[0] = kernel as usize;
            Outcome::Value(call.kernel(nr, args))
        }
        None => fail(libc::EINVAL),
    }
}

fn timer_delete(call: &mut Call) -> Outcome {
    let id = call.int(0);
    let outcome = with_timer(call);
    if matches!(outcome, Outcome::Value(0)) {
        TABLE.lock()[id as usize] = None;
    }
    outcome
}

fn timer_settime(call: &mut Call) -> Outcome {
    let [id, flags, new, old, ..] = call.args();
    let mut table = TABLE.lock();
    let Some(Some(entry)) = table.get_mut(id as i32 as usize) else {
        return fail(libc::EINVAL);
    };
    let Ok([interval, first]) = user::read::<[Timespec; 2]>(new) else {
        return fail(libc::EFAULT);
    };
    let absolute = flags as i32 & libc::TIMER_ABSTIME != 0;
    let clock = entry.timer.clock;
    let first = match absolute {
        true => clock::timer_on_machine(clock, first),
        false => first,
    };
    let times = [interval, first];
    let args = [
        entry.kernel as usize,
        flags,
        times.as_ptr() as usize,
        old,
        0,
        0,
    ];
    let result = call.kernel(libc::SYS_timer_settime, args);
    core::hint::black_box(times);
    if result == 0 {
        entry.timer.wall = absolute && is_wall(clock);
    }
    Outcome::Value(result)
}

/// The application's id of a timer that the kernel knows by `kernel`.
pub fn application_id(kernel: i32) -> Option<i32> {
    let table = TABLE.lock();
    let mut entries = table.iter();
    let found = entries.position(|e| e.is_some_and(|e| e.kernel == kernel));
    found.map(|id| id as i32)
}

/// The kernel's id for one of the application's.
pub fn kernels_id(id: i32) -> Option<i32> {
    kernel_id(id)
}

/// All timers with their ids, as they run now.
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
            let mut times = [Timespec::default(); 2];
            let args = [kernel as usize, times.as_mut_ptr() as usize, 0, 0, 0, 0];
            raw::on_locals(libc::SYS_timer_gettime, args);
            let [interval, next] = core::hint::black_box(times).map(|t| t.ns());
            (timer.interval, timer.next) = (interval, next);
            if timer.wall && next != 0 {
                timer.next = next.saturating_add(clock::now(timer.clock));
            }
            (id, timer)
        });
    running.collect()
}

/// Whether one of these has expired since it was looked at.
pub fn have_expired_since(timers: &[(u32, Timer)]) -> bool {
    let now = all();
    timers
        .iter()
        .filter(|(_, was)| was.next != 0)
        .any(|(id, was)| {
            let is = now.iter().find(|(other, _)| other == id);
            // A moment on the wall clock stays what it is, up to reading it, until the next one.
            let slack = if was.wall { SLACK } else { 0 };
            is.is_some_and(|(_, is)| is.next == 0 || is.next > was.next.saturating_add(slack))
        })
}

/// Makes a saved timer; it does not run yet. `real_tid` finds the threads that are told.
pub fn restore(id: u32, timer: &Timer, real_tid: impl Fn(u32) -> u32) -> std::io::Result<()> {
    let kernel = create(timer, real_tid);
    if raw::is_err(kernel) {
        return Err(raw::io_error(kernel));
    }
    let entry = Entry {
        kernel: kernel as i32,
        timer: *timer,
    };
    match TABLE.lock().get_mut(id as usize) {
        Some(place) => *place = Some(entry),
        None => return Err(raw::io_error(raw::err(libc::EINVAL))),
    }
    Ok(())
}

/// Starts all timers that were restored.
pub fn start() {
    for entry in TABLE.lock().iter().flatten() {
        let timer = &entry.timer;
        let times = [Timespec::new(timer.interval), Timespec::new(timer.next)];
        let flags = if timer.wall { libc::TIMER_ABSTIME } else { 0 };
        let args = [
            entry.kernel as usize,
            flags as usize,
            times.as_ptr() as usize,
            0,
            0,
            0,
        ];
        if timer.next != 0 {
            raw::on_locals(libc::SYS_timer_settime, args);
        }
    }
}

/// A forked child has none.
pub fn after_fork() {
    *TABLE.lock() = [None; TIMERS];
}
