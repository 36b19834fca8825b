//! Settings that the kernel keeps for the process and for each thread: limits, priorities, CPU affinity, options of
//! prctl.
//!
//! A restarted job gets the settings that its launcher gives it. Only those that the application itself has changed are
//! saved and set again: those that differ from the start of the process, which [`note_start`] records.

use crate::error::RestoreError;
use crate::interpose::memory_limits;
use crate::interpose::threads::stop::Stopped;
use crate::interpose::threads::Thread;
use crate::sys::mutex::lock_of;
use crate::sys::syscall::{self, limit, set_limit, StoredOption};
use serde::{Deserialize, Serialize};
use std::sync::atomic::Ordering;
use std::sync::Mutex;

/// Number of resource limits.
const LIMITS: usize = 16;
/// Words of a CPU set, for 8192 CPUs.
const PROCESSOR_WORDS: usize = 128;
const WHO_PROCESS: usize = 1;

/// Options of `prctl` that apply to the whole process: the number to read and the number to set each.
const PROCESS_OPTIONS: [(i32, i32); 3] = [
    (libc::PR_GET_DUMPABLE, libc::PR_SET_DUMPABLE),
    (libc::PR_GET_THP_DISABLE, libc::PR_SET_THP_DISABLE),
    (libc::PR_GET_CHILD_SUBREAPER, libc::PR_SET_CHILD_SUBREAPER),
];

/// Settings of the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessSettings {
    /// Resource limits.
    limits: Vec<Limit>,
    /// Options of `prctl`, by the number that sets them.
    options: Vec<(i32, usize)>,
}

/// A resource limit that the application has set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Limit {
    /// Its number, as in `setrlimit`.
    number: u32,
    /// Soft and hard limit, as the application sees them.
    seen: [u64; 2],
    /// Bytes that the process could still use, if this is a finite limit of memory.
    room: Option<u64>,
}

/// Settings of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSettings {
    /// CPU affinity that the thread has set.
    processors: Option<Vec<u64>>,
    /// Nice value.
    nice: Option<i32>,
    /// Scheduling policy and priority.
    scheduler: Option<(i32, i32)>,
    /// I/O priority.
    io_priority: Option<i32>,
    /// Timer slack in nanoseconds.
    timer_slack: Option<usize>,
    /// Signal sent to the thread when its parent process ends.
    parent_death_signal: Option<i32>,
    /// Whether execve grants no privileges.
    no_new_privileges: Option<bool>,
    /// Value of `personality`.
    personality: Option<u32>,
}

/// Current settings of a thread, inherited or changed.
#[derive(Clone, Copy, Default)]
struct Plain {
    nice: i32,
    scheduler: (i32, i32),
    io_priority: i32,
    own: Own,
}

/// Settings that only the thread itself can read.
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

/// Reads an option, which most return as a result and one stores in a variable.
fn option(get: i32) -> usize {
    if get == libc::PR_GET_CHILD_SUBREAPER {
        return syscall::stored_option(StoredOption::ChildSubreaper) as usize;
    }
    syscall::plain(libc::SYS_prctl, [get as usize, 0, 0, 0, 0, 0]).max(0) as usize
}

/// Settings of the calling thread.
fn own() -> Own {
    const ASK: usize = 0xffff_ffff;
    let personality = syscall::plain(libc::SYS_personality, [ASK, 0, 0, 0, 0, 0]);
    Own {
        timer_slack: option(libc::PR_GET_TIMERSLACK),
        parent_death_signal: syscall::stored_option(StoredOption::ParentDeathSignal),
        no_new_privileges: option(libc::PR_GET_NO_NEW_PRIVS) != 0,
        personality: personality as u32,
    }
}

fn plain(task: usize, own: Own) -> Plain {
    // The kernel returns 20 - nice, which is never negative.
    let nice = syscall::plain(libc::SYS_getpriority, [0, task, 0, 0, 0, 0]);
    let policy = syscall::plain(libc::SYS_sched_getscheduler, [task, 0, 0, 0, 0, 0]);
    let priority = syscall::scheduler_priority(task as u32);
    let io = syscall::plain(libc::SYS_ioprio_get, [WHO_PROCESS, task, 0, 0, 0, 0]);
    Plain {
        nice: 20 - nice as i32,
        scheduler: (policy as i32, core::hint::black_box(priority)),
        io_priority: io as i32,
        own,
    }
}

/// Records the settings at the start of the process, on the initial thread.
pub fn note_start() {
    let start = Start {
        limits: core::array::from_fn(|i| limit(i as u32)),
        options: PROCESS_OPTIONS.map(|(get, _)| option(get)),
        thread: plain(0, own()),
    };
    *lock_of(&START) = Some(start);
}

fn changed<T: PartialEq>(now: T, start: T) -> Option<T> {
    (now != start).then_some(now)
}

/// Settings that the application has changed for the process.
pub fn of_process() -> ProcessSettings {
    let guard = lock_of(&START);
    let Some(start) = guard.as_ref() else {
        return ProcessSettings::default();
    };
    let limits = (0..LIMITS).filter_map(|i| {
        let number = i as u32;
        let now = limit(number);
        Some(Limit {
            number,
            seen: changed(memory_limits::seen(number, now), start.limits[i])?,
            room: memory_limits::room(number, now),
        })
    });
    let options = PROCESS_OPTIONS.iter().zip(start.options);
    let options = options.filter_map(|((get, set), was)| Some((*set, changed(option(*get), was)?)));
    ProcessSettings {
        limits: limits.collect(),
        options: options.collect(),
    }
}

/// Settings that the application has changed for a thread.
pub fn of_thread(stopped: &Stopped, thread: &'static Thread) -> ThreadSettings {
    let start = lock_of(&START)
        .as_ref()
        .map(|s| s.thread)
        .unwrap_or_default();
    let task = thread.real_tid.load(Ordering::Relaxed) as usize;
    let now = plain(task, stopped.run_on(thread, own));
    let processors = thread.bound.load(Ordering::Relaxed).then(|| {
        let mut set = vec![0u64; PROCESSOR_WORDS];
        let bytes = syscall::affinity(task as u32, &mut set);
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

/// Sets the settings of the process. Limits are only raised here, where they are higher than those of this process: see
/// [`ProcessSettings::limit`]. The program depends on them, so a limit that cannot be raised is an error.
pub fn restore(settings: &ProcessSettings) -> Result<(), RestoreError> {
    for saved in &settings.limits {
        let [soft, hard] = saved.seen;
        let now = limit(saved.number);
        let result = set_limit(saved.number, &[now[0].max(soft), now[1].max(hard)]);
        if syscall::is_err(result) {
            return Err(RestoreError::Limit {
                number: saved.number,
                soft,
                hard,
                source: syscall::io_error(result),
            });
        }
    }
    for (set, value) in &settings.options {
        syscall::plain(libc::SYS_prctl, [*set as usize, *value, 0, 0, 0, 0]);
    }
    Ok(())
}

impl ProcessSettings {
    /// Lowers the limits, which never fails. Call it after the MPI library has created the program's objects again:
    /// natively the program set the limits when these existed, and another library may need more for them. Limits of
    /// memory leave the room that there was. Does not allocate.
    pub fn limit(&self) {
        for saved in &self.limits {
            let [soft, hard] = match saved.room {
                Some(room) => memory_limits::with_room(saved.number, saved.seen, room),
                None => saved.seen,
            };
            let highest = limit(saved.number)[1];
            set_limit(saved.number, &[soft.min(highest), hard.min(highest)]);
        }
    }
}

/// Sets the settings of the calling thread. None of them changes the results of the program: where this machine or user
/// has less to offer, the thread runs without. Does not allocate.
pub fn restore_own(settings: &ThreadSettings) {
    if let Some(set) = &settings.processors {
        syscall::set_affinity(set);
    }
    if let Some(nice) = settings.nice {
        syscall::plain(
            libc::SYS_setpriority,
            [0, 0, nice as isize as usize, 0, 0, 0],
        );
    }
    if let Some((policy, priority)) = settings.scheduler {
        syscall::set_scheduler(policy, priority);
    }
    if let Some(priority) = settings.io_priority {
        let args = [WHO_PROCESS, 0, priority as usize, 0, 0, 0];
        syscall::plain(libc::SYS_ioprio_set, args);
    }
    if let Some(slack) = settings.timer_slack {
        let set = libc::PR_SET_TIMERSLACK as usize;
        syscall::plain(libc::SYS_prctl, [set, slack, 0, 0, 0, 0]);
    }
    if let Some(signal) = settings.parent_death_signal {
        let set = libc::PR_SET_PDEATHSIG as usize;
        syscall::plain(libc::SYS_prctl, [set, signal as usize, 0, 0, 0, 0]);
    }
    if settings.no_new_privileges == Some(true) {
        let set = libc::PR_SET_NO_NEW_PRIVS as usize;
        syscall::plain(libc::SYS_prctl, [set, 1, 0, 0, 0, 0]);
    }
    if let Some(personality) = settings.personality {
        syscall::plain(libc::SYS_personality, [personality as usize, 0, 0, 0, 0, 0]);
    }
}

impl ThreadSettings {
    /// Whether the thread has set its CPU affinity.
    pub fn bound(&self) -> bool {
        self.processors.is_some()
    }
}
