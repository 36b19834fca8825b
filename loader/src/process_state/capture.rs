//! Reads the process's state while all its threads are parked.

use super::{files, pending_signals, proc_files, settings};
use super::{LockedMemory, ProcessState, ThreadState};
use crate::error::CaptureError;
use crate::interpose::posix_timers::{self, Timer};
use crate::interpose::signals::actions;
use crate::interpose::syscalls::{sysv_ipc, unsupported};
use crate::interpose::threads::stop::Stopped;
use crate::interpose::{children, syscalls, threads};
use crate::load::program_info;
use crate::sys::context::SigInfo;
use crate::sys::{c_library, clock, zeros};
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
        let mut now: libc::itimerval = zeros::value();
        c_library::getitimer(which as _, &mut now);
        let [interval, mut value] = [now.it_interval, now.it_value];
        if which == libc::ITIMER_REAL && (value.tv_sec, value.tv_usec) == (0, 0) {
            // The timer is off and has no interval, or it is rearmed when its signal is delivered.
            value = interval;
        }
        [
            interval.tv_sec,
            interval.tv_usec,
            value.tv_sec,
            value.tv_usec,
        ]
    })
}

/// Pending signals and the timers that will send more. A timer that expires during the read must be found either as its
/// pending signal or as its remaining time.
struct Signals {
    process: Vec<SigInfo>,
    threads: Vec<Vec<SigInfo>>,
    interval_timers: [[i64; 4]; 3],
    posix_timers: Vec<(u32, Timer)>,
}

fn signals(stopped: &Stopped) -> Result<Signals, CaptureError> {
    /// Attempts at a consistent read. Timers that expire faster than a read takes never give one. One signal is then
    /// saved twice, as if one more period had passed.
    const TRIES: usize = 20;
    let mut tries = 0;
    loop {
        tries += 1;
        let (interval_timers, posix_timers) = (interval_timers(), posix_timers::all());
        let process = pending_signals::of_process(stopped)?;
        let threads = stopped
            .threads()
            .map(|t| pending_signals::of_thread(stopped, t));
        let threads = threads.collect::<Result<_, _>>()?;
        // Timers only count down: a larger or a zero value means that the timer has expired.
        let expired = |was: &[i64; 4], is: &[i64; 4]| {
            (was[2], was[3]) != (0, 0) && ((is[2], is[3]) == (0, 0) || is[2..] > was[2..])
        };
        let rest = interval_timers.iter().zip(self::interval_timers());
        let at_rest = rest.into_iter().all(|(was, is)| !expired(was, &is))
            && !posix_timers::have_expired_since(&posix_timers);
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

/// Captures the files that the program had opened for writing and has closed; `mapped` as for [`capture`].
pub fn capture_closed(
    _stopped: &Stopped,
    mapped: &(dyn Fn(u64, u64) -> Option<files::MappedFile> + Sync),
) -> files::ClosedFileList {
    files::capture_closed(mapped)
}

/// Captures the process state outside memory. `mapped` gives the files, by device and inode, that are mapped shared and
/// therefore saved with the memory.
///
/// # Errors
/// [`CaptureError`] for the first thing that no image can hold.
pub fn capture(
    stopped: &Stopped,
    mapped: &(dyn Fn(u64, u64) -> Option<files::MappedFile> + Sync),
) -> Result<ProcessState, CaptureError> {
    if let Some(call) = unsupported::noted() {
        return Err(CaptureError::Unsupported { call });
    }
    if let Some(call) = sysv_ipc::known() {
        return Err(CaptureError::SysvIpc { call });
    }
    if let Some((id, timer)) = posix_timers::all()
        .into_iter()
        .find(|(_, timer)| timer.clock < 0)
    {
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
        program: PathBuf::from(OsStr::from_bytes(program_info::program().to_bytes())),
        pid: threads::virtual_pid(),
        threads,
        brk_end: syscalls::brk_end(),
        interpreter: program_info::interpreter(),
        actions: actions::all(),
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
        locked: LockedMemory::default(),
        proc_files: proc_files::of_process(),
    })
}
