//! Settings that the kernel keeps for the process and for each thread.
//!
//! A job that is restarted gets what its launcher gives it: limits, priority, the processors it may
//! use. Only what the application itself has changed is saved and set again. That is what differs
//! from how the process was started, which is noted then ([`note_start`]).
//!
//! # Safety
//! The kernel fills in or reads locals.
#![allow(unsafe_code)]

use super::lock_of;
use crate::error::RestoreError;
use crate::raw;
use crate::stop::Stopped;
use crate::thread::Thread;
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering;
use std::sync::Mutex;

/// Resource limits that there are.
const LIMITS: usize = 16;
/// Words of a set of processors: 8192 of them.
const PROCESSOR_WORDS: usize = 128;
const WHO_PROCESS: usize = 1;

/// Settings of `prctl` that belong to the whole process: how to read and how to set them.
const PROCESS_OPTIONS: [(i32, i32); 3] = [
    (libc::PR_GET_DUMPABLE, libc::PR_SET_DUMPABLE),
    (libc::PR_GET_THP_DISABLE, libc::PR_SET_THP_DISABLE),
    (libc::PR_GET_CHILD_SUBREAPER, libc::PR_SET_CHILD_SUBREAPER),
];

/// Of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSettings {
    /// Resource limits, soft and hard, by number.
    limits: Vec<(u32, [u64; 2])>,
    /// Options of `prctl` with which to set them.
    options: Vec<(i32, usize)>,
}

/// Of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSettings {
    /// The processors to which it has bound itself.
    processors: Option<Vec<u64>>,
    /// Nice value.
    nice: Option<i32>,
    /// Scheduling policy and priority.
    scheduler: Option<(i32, i32)>,
    /// Priority of its input and output.
    io_priority: Option<i32>,
    /// Nanoseconds by which its timers may be late.
    timer_slack: Option<usize>,
    /// Signal that it gets when its parent process ends.
    parent_death_signal: Option<i32>,
    /// It can gain no privileges by executing a program.
    no_new_privileges: Option<bool>,
    /// `personality`.
    personality: Option<u32>,
}

/// What a thread has, whoever gave it.
#[derive(Clone, Copy, Default)]
struct Plain {
    nice: i32,
    scheduler: (i32, i32),
    io_priority: i32,
    own: Own,
}

/// What only the thread itself can find out.
#[derive(Clone, Copy, Default)]
struct Own {
    timer_slack: usize,
    parent_death_signal: i32,
    no_new_privileges: bool,
    personality: u32,
}

#[derive(Default)]
struct Start {
    limits: [[u64; 2]; LIMITS],
    options: [usize; PROCESS_OPTIONS.len()],
    thread: Plain,
}

static START: Mutex<Option<Start>> = Mutex::new(None);

fn limit(number: usize) -> [u64; 2] {
    let mut limit = [0u64; 2];
    let args = [0, number, 0, limit.as_mut_ptr() as usize, 0, 0];
    raw::on_locals(libc::SYS_prlimit64, args);
    core::hint::black_box(limit)
}

/// Some options are read as a result, one into a variable.
fn option(get: i32) -> usize {
    let mut value = 0i32;
    if get == libc::PR_GET_CHILD_SUBREAPER {
        let args = [get as usize, &raw mut value as usize, 0, 0, 0, 0];
        raw::on_locals(libc::SYS_prctl, args);
        return core::hint::black_box(value) as usize;
    }
    raw::plain(libc::SYS_prctl, [get as usize, 0, 0, 0, 0, 0]).max(0) as usize
}

/// Of the calling thread.
fn own() -> Own {
    const ASK: usize = 0xffff_ffff;
    let mut signal = 0i32;
    let get = libc::PR_GET_PDEATHSIG as usize;
    raw::on_locals(libc::SYS_prctl, [get, &raw mut signal as usize, 0, 0, 0, 0]);
    let personality = raw::plain(libc::SYS_personality, [ASK, 0, 0, 0, 0, 0]);
    Own {
        timer_slack: option(libc::PR_GET_TIMERSLACK),
        parent_death_signal: core::hint::black_box(signal),
        no_new_privileges: option(libc::PR_GET_NO_NEW_PRIVS) != 0,
        personality: personality as u32,
    }
}

fn plain(task: usize, own: Own) -> Plain {
    // The kernel returns 20 - nice, which is never negative.
    let nice = raw::plain(libc::SYS_getpriority, [0, task, 0, 0, 0, 0]);
    let policy = raw::plain(libc::SYS_sched_getscheduler, [task, 0, 0, 0, 0, 0]);
    let mut priority = 0i32;
    let args = [task, &raw mut priority as usize, 0, 0, 0, 0];
    raw::on_locals(libc::SYS_sched_getparam, args);
    let io = raw::plain(libc::SYS_ioprio_get, [WHO_PROCESS, task, 0, 0, 0, 0]);
    Plain {
        nice: 20 - nice as i32,
        scheduler: (policy as i32, core::hint::black_box(priority)),
        io_priority: io as i32,
        own,
    }
}

/// Notes how the process was started. To be called on its initial thread, before the application
/// or anything of an image runs.
pub fn note_start() {
    let start = Start {
        limits: core::array::from_fn(limit),
        options: PROCESS_OPTIONS.map(|(get, _)| option(get)),
        thread: plain(0, own()),
    };
    *lock_of(&START) = Some(start);
}

fn changed<T: PartialEq>(now: T, start: T) -> Option<T> {
    (now != start).then_some(now)
}

/// What the application has changed for the whole process.
pub fn of_process() -> ProcessSettings {
    let guard = lock_of(&START);
    let Some(start) = guard.as_ref() else {
        return ProcessSettings::default();
    };
    let limits = (0..LIMITS).filter_map(|i| Some((i as u32, changed(limit(i), start.limits[i])?)));
    let options = PROCESS_OPTIONS.iter().zip(start.options);
    let options = options.filter_map(|((get, set), was)| Some((*set, changed(option(*get), was)?)));
    ProcessSettings {
        limits: limits.collect(),
        options: options.collect(),
    }
}

/// What it has changed for a thread.
pub fn of_thread(stopped: &Stopped, thread: &'static Thread) -> ThreadSettings {
    let start = lock_of(&START)
        .as_ref()
        .map(|s| s.thread)
        .unwrap_or_default();
    let task = thread.real_tid.load(Ordering::Relaxed) as usize;
    let now = plain(task, stopped.run_on(thread, own));
    let processors = thread.bound.load(Ordering::Relaxed).then(|| {
        let mut set = vec![0u64; PROCESSOR_WORDS];
        let args = [
            task,
            PROCESSOR_WORDS * 8,
            set.as_mut_ptr() as usize,
            0,
            0,
            0,
        ];
        let bytes = raw::on_locals(libc::SYS_sched_getaffinity, args);
        set.truncate(bytes.max(0) as usize / 8);
        set
    });
    ThreadSettings {
        processors,
        nice: changed(now.nice, start.nice),
        scheduler: changed(now.scheduler, start.scheduler),
        io_priority: changed(now.io_priority, start.io_priority),
        timer_slack: changed(now.own.timer_slack, start.own.timer_slack),
        parent_death_signal: changed(now.own.parent_death_signal, start.own.parent_death_signal),
        no_new_privileges: changed(now.own.no_new_privileges, start.own.no_new_privileges),
        personality: changed(now.own.personality, start.own.personality),
    }
}

fn set_limit(number: u32, limit: &[u64; 2]) -> isize {
    let args = [0, number as usize, limit.as_ptr() as usize, 0, 0, 0];
    raw::on_locals(libc::SYS_prlimit64, args)
}

/// Sets them again for the process, but limits are only raised, where they are higher than those here: see
/// [`ProcessSettings::limit`]. They decide what works and what does not, so one that cannot be raised is an
/// error.
pub fn restore(settings: &ProcessSettings) -> Result<(), RestoreError> {
    for (number, [soft, hard]) in &settings.limits {
        let now = limit(*number as usize);
        let result = set_limit(*number, &[now[0].max(*soft), now[1].max(*hard)]);
        if raw::is_err(result) {
            return Err(RestoreError::Limit {
                number: *number,
                soft: *soft,
                hard: *hard,
                source: raw::io_error(result),
            });
        }
    }
    for (set, value) in &settings.options {
        raw::plain(libc::SYS_prctl, [*set as usize, *value, 0, 0, 0, 0]);
    }
    Ok(())
}

impl ProcessSettings {
    /// Lowers the limits, which always works. Not before the MPI library has all that it needs to make the
    /// program's objects again: natively the program had set the limits when these were there, and another
    /// library may need more for the same. Does not allocate.
    pub fn limit(&self) {
        for (number, limit) in &self.limits {
            set_limit(*number, limit);
        }
    }
}

/// Sets them again for the calling thread. None of these changes what a program computes: where
/// this machine or this user has less to offer, the thread runs with what there is. Does not
/// allocate.
pub fn restore_own(settings: &ThreadSettings) {
    if let Some(set) = &settings.processors {
        let args = [0, set.len() * 8, set.as_ptr() as usize, 0, 0, 0];
        raw::on_locals(libc::SYS_sched_setaffinity, args);
    }
    if let Some(nice) = settings.nice {
        raw::plain(
            libc::SYS_setpriority,
            [0, 0, nice as isize as usize, 0, 0, 0],
        );
    }
    if let Some((policy, priority)) = settings.scheduler {
        let args = [0, policy as usize, &raw const priority as usize, 0, 0, 0];
        raw::on_locals(libc::SYS_sched_setscheduler, args);
    }
    if let Some(priority) = settings.io_priority {
        let args = [WHO_PROCESS, 0, priority as usize, 0, 0, 0];
        raw::plain(libc::SYS_ioprio_set, args);
    }
    if let Some(slack) = settings.timer_slack {
        let set = libc::PR_SET_TIMERSLACK as usize;
        raw::plain(libc::SYS_prctl, [set, slack, 0, 0, 0, 0]);
    }
    if let Some(signal) = settings.parent_death_signal {
        let set = libc::PR_SET_PDEATHSIG as usize;
        raw::plain(libc::SYS_prctl, [set, signal as usize, 0, 0, 0, 0]);
    }
    if settings.no_new_privileges == Some(true) {
        let set = libc::PR_SET_NO_NEW_PRIVS as usize;
        raw::plain(libc::SYS_prctl, [set, 1, 0, 0, 0, 0]);
    }
    if let Some(personality) = settings.personality {
        raw::plain(libc::SYS_personality, [personality as usize, 0, 0, 0, 0, 0]);
    }
}

impl ThreadSettings {
    /// Whether it has bound itself to processors.
    pub fn bound(&self) -> bool {
        self.processors.is_some()
    }
}
