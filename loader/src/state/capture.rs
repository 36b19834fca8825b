//! Reads the process's state while all its threads are parked.
//!
//! # Safety
//! Only system calls that fill in locals.
#![allow(unsafe_code)]

use super::{files, ProcessState, ThreadState};
use crate::error::CaptureError;
use crate::stop::Stopped;
use crate::{cpu, facts, signals, syscalls, thread};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// The kernel's release.
fn kernel_release() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_owned()
}

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

fn timers() -> [[i64; 4]; 3] {
    [libc::ITIMER_REAL, libc::ITIMER_VIRTUAL, libc::ITIMER_PROF].map(|which| {
        // SAFETY: zero is a valid timer value; the kernel writes a local.
        unsafe {
            let mut now: libc::itimerval = core::mem::zeroed();
            libc::getitimer(which as _, &raw mut now);
            // A periodic timer whose signal is still pending stands still until that is taken, and
            // tells no time left: zero would mean never when it is set again.
            if now.it_value.tv_sec == 0 && now.it_value.tv_usec == 0 {
                now.it_value = now.it_interval;
            }
            [
                now.it_interval.tv_sec,
                now.it_interval.tv_usec,
                now.it_value.tv_sec,
                now.it_value.tv_usec,
            ]
        }
    })
}

/// Everything about the process that is not in its memory.
pub fn capture(stopped: &Stopped) -> Result<ProcessState, CaptureError> {
    let count = syscalls::posix_timers();
    if count > 0 {
        return Err(CaptureError::PosixTimers { count });
    }
    let mut threads: Vec<ThreadState> = stopped
        .threads()
        .map(|t| {
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
            }
        })
        .collect();
    threads.sort_by_key(|t| !t.main);
    let (cpu_model, cpu_flags) = cpu::description();
    let cwd = std::env::current_dir().map_err(|source| CaptureError::System {
        what: "the working directory".to_owned(),
        source,
    })?;
    Ok(ProcessState {
        contract_version: contract::VERSION,
        program: PathBuf::from(OsStr::from_bytes(facts::program().to_bytes())),
        kernel: kernel_release(),
        cpu_model,
        cpu_flags,
        pid: thread::virtual_pid(),
        threads,
        brk_end: syscalls::brk_end(),
        interpreter: facts::interpreter(),
        actions: signals::all(),
        timers: timers(),
        cwd,
        umask: umask()?,
        files: files::capture()?,
        membarriers: syscalls::membarriers(),
        fixed: super::restore::FIXED,
    })
}
