//! Reads the process's state while all its threads are parked.
//!
//! # Safety
//! Only system calls that fill in locals.
#![allow(unsafe_code)]

use super::{files, pending, settings, ProcessState, ThreadState};
use crate::context::SigInfo;
use crate::error::CaptureError;
use crate::stop::Stopped;
use crate::syscalls::timers::{self, Timer};
use crate::syscalls::unsaved;
use crate::{children, clock, facts, syscalls, thread};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

fn umask() -> Result<u32, CaptureError> {
    let path = "/proc/self/status";
    let text = std::fs::read_to_string(path).map_err(|source| CaptureError::System {
        what: path.to_owned(),
        source,
    })?;
    let value = text.lines().find_map(|line| line.strip_prefix("Umask:"));
    Ok(value
        .and_then(|v| u32::from_str_radix(v.trim(), 8).ok())
        .unwrap_or(0o22))
}

fn interval_timers() -> [[i64; 4]; 3] {
    [libc::ITIMER_REAL, libc::ITIMER_VIRTUAL, libc::ITIMER_PROF].map(|which| {
        // SAFETY: zero is a valid timer value; the kernel writes a local.
        unsafe {
            let mut now: libc::itimerval = core::mem::zeroed();
            libc::getitimer(which as _, &raw mut now);
            let [interval, mut value] = [now.it_interval, now.it_value];
            if which == libc::ITIMER_REAL && (value.tv_sec, value.tv_usec) == (0, 0) {
                // It is off and has no interval, or starts anew when its signal is taken.
                value = interval;
            }
            [
                interval.tv_sec,
                interval.tv_usec,
                value.tv_sec,
                value.tv_usec,
            ]
        }
    })
}

/// What is pending and what timers are going to send. A timer that expires while this is read must
/// be found either as the signal that it has sent or as the time that it still had.
struct Signals {
    process: Vec<SigInfo>,
    threads: Vec<Vec<SigInfo>>,
    interval_timers: [[i64; 4]; 3],
    posix_timers: Vec<(u32, Timer)>,
}

fn signals(stopped: &Stopped) -> Result<Signals, CaptureError> {
    /// Timers that expire faster than they can be read are never found at rest; then one signal
    /// is saved twice, as if one more period had passed.
    const TRIES: usize = 20;
    let mut tries = 0;
    loop {
        tries += 1;
        let (interval_timers, posix_timers) = (interval_timers(), timers::all());
        let process = pending::of_process(stopped)?;
        let threads = stopped.threads().map(|t| pending::of_thread(stopped, t));
        let threads = threads.collect::<Result<_, _>>()?;
        // Timers only count down: one that shows more, or nothing any more, has expired.
        let expired = |was: &[i64; 4], is: &[i64; 4]| {
            (was[2], was[3]) != (0, 0) && ((is[2], is[3]) == (0, 0) || is[2..] > was[2..])
        };
        let rest = interval_timers.iter().zip(self::interval_timers());
        let at_rest = rest.into_iter().all(|(was, is)| !expired(was, &is))
            && !timers::have_expired_since(&posix_timers);
        if at_rest || tries == TRIES {
            return Ok(Signals {
                process,
                threads,
                interval_timers,
                posix_timers,
            });
        }
    }
}

/// The files that the program had opened for writing and that are closed now; `mapped` as for [`capture`].
pub fn capture_closed(
    _stopped: &Stopped,
    mapped: &(dyn Fn(u64, u64) -> Option<files::MappedFile> + Sync),
) -> files::ClosedFiles {
    files::capture_closed(mapped)
}

/// Everything about the process that is not in its memory. `mapped` tells which files, by device and
/// inode, are mapped shared and therefore in the image of the memory.
pub fn capture(
    stopped: &Stopped,
    mapped: &(dyn Fn(u64, u64) -> Option<files::MappedFile> + Sync),
) -> Result<ProcessState, CaptureError> {
    if let Some(call) = unsaved::noted() {
        return Err(CaptureError::Unsaved { call });
    }
    if let Some((id, timer)) = timers::all().into_iter().find(|(_, timer)| timer.clock < 0) {
        return Err(CaptureError::CpuTimer {
            id,
            clock: timer.clock,
        });
    }
    let signals = signals(stopped)?;
    let mut threads: Vec<ThreadState> = stopped
        .threads()
        .zip(signals.threads)
        .map(|(t, pending)| {
            let task = t.real_tid.load(Ordering::Relaxed);
            let name = std::fs::read_to_string(format!("/proc/self/task/{task}/comm"));
            ThreadState {
                tid: t.tid(),
                main: t.is_main(),
                frame: t.frame.load(Ordering::Relaxed),
                fs: t.upper_fs(),
                clear_tid: t.clear_tid.load(Ordering::Relaxed),
                robust: t.robust.load(Ordering::Relaxed),
                in_wrapper: t.in_wrapper(),
                by_request: t.by_request.load(Ordering::Relaxed),
                name: name.unwrap_or_default().trim_end().to_owned(),
                pending,
                settings: settings::of_thread(stopped, t),
            }
        })
        .collect();
    threads.sort_by_key(|t| !t.main);
    let cwd = std::env::current_dir().map_err(|source| CaptureError::System {
        what: "the working directory".to_owned(),
        source,
    })?;
    Ok(ProcessState {
        contract_version: contract::VERSION,
        program: PathBuf::from(OsStr::from_bytes(facts::program().to_bytes())),
        pid: thread::virtual_pid(),
        threads,
        brk_end: syscalls::brk_end(),
        interpreter: facts::interpreter(),
        actions: crate::signals::all(),
        timers: signals.interval_timers,
        posix_timers: signals.posix_timers,
        clocks: clock::all(),
        pending: signals.process,
        settings: settings::of_process(),
        cwd,
        umask: umask()?,
        files: files::capture(mapped)?,
        children: children::all().1,
        membarriers: syscalls::membarriers(),
        fixed: super::restore::FIXED,
    })
}
