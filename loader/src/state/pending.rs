//! Signals that were sent and not yet delivered: to the process and to each of its threads.
//!
//! The kernel tells which there are, but what came with them is learnt only by taking them. So
//! they are taken and sent again, in the same order, while all threads hold them back. The kernel
//! lets a thread send itself what only `kill` can send otherwise, and the initial thread the process:
//! so that is who does it.
//!
//! # Safety
//! Signal information is plain data that the kernel fills in or reads.
#![allow(unsafe_code)]

use crate::context::SigInfo;
use crate::error::CaptureError;
use crate::signals::{self, NEVER_BLOCKED};
use crate::stop::Stopped;
use crate::thread::{self, Thread};
use crate::{clock, raw};
use std::sync::atomic::Ordering;

/// Taken at a time.
const BATCH: usize = 32;

/// The set that a line of a thread's `status` shows.
fn shown(task: u32, line: &str) -> Result<u64, CaptureError> {
    let path = format!("/proc/self/task/{task}/status");
    let text = std::fs::read_to_string(&path)
        .map_err(|source| CaptureError::System { what: path, source })?;
    let set = text.lines().find_map(|l| l.strip_prefix(line));
    let set = set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    Ok(set.unwrap_or(0) & !NEVER_BLOCKED)
}

/// Takes signals of the set that wait for the calling thread or the process.
fn take(set: u64, into: &mut [SigInfo; BATCH]) -> usize {
    let now = clock::Timespec::default();
    let mut taken = 0;
    for info in into.iter_mut() {
        let args = [
            &raw const set as usize,
            info as *mut SigInfo as usize,
            &raw const now as usize,
            8,
            0,
            0,
        ];
        if raw::is_err(raw::on_locals(libc::SYS_rt_sigtimedwait, args)) {
            break;
        }
        taken += 1;
    }
    taken
}

fn take_all(mut take: impl FnMut(&mut [SigInfo; BATCH]) -> usize) -> Vec<SigInfo> {
    let mut all = Vec::new();
    loop {
        let mut batch = [SigInfo::default(); BATCH];
        let taken = take(&mut batch);
        let batch = batch[..taken].iter().copied();
        all.extend(batch.map(signals::with_own_ids));
        if taken < BATCH {
            return all;
        }
    }
}

/// Signals for the process as a whole. To be called by a thread of the lower half.
pub fn of_process(stopped: &Stopped) -> Result<Vec<SigInfo>, CaptureError> {
    let Some(any) = stopped.threads().next() else {
        return Ok(Vec::new());
    };
    let set = shown(any.real_tid.load(Ordering::Relaxed), "ShdPnd:")?;
    if set == 0 {
        return Ok(Vec::new());
    }
    let found = take_all(|batch| take(set, batch));
    stopped.run_on_main(|| send_to_process(&found));
    Ok(found)
}

/// Signals for one thread.
pub fn of_thread(stopped: &Stopped, thread: &'static Thread) -> Result<Vec<SigInfo>, CaptureError> {
    let task = thread.real_tid.load(Ordering::Relaxed);
    let set = shown(task, "SigPnd:")?;
    if set == 0 {
        return Ok(Vec::new());
    }
    let found = take_all(|batch| stopped.run_on(thread, || take(set, batch)));
    stopped.run_on(thread, || send_to_self(&found));
    Ok(found)
}

/// Sends them to the process, where every thread holds them back. Called by the initial thread.
pub fn send_to_process(infos: &[SigInfo]) {
    for info in infos {
        let info = signals::with_kernel_ids(*info);
        let (signal, at) = (info.signo as usize, &raw const info as usize);
        let pid = thread::real_pid() as usize;
        raw::on_locals(libc::SYS_rt_sigqueueinfo, [pid, signal, at, 0, 0, 0]);
    }
}

/// Sends them to the calling thread, which holds them back.
pub fn send_to_self(infos: &[SigInfo]) {
    for info in infos {
        let info = signals::with_kernel_ids(*info);
        let (signal, at) = (info.signo as usize, &raw const info as usize);
        let (pid, task) = (thread::real_pid() as usize, raw::gettid() as usize);
        raw::on_locals(libc::SYS_rt_tgsigqueueinfo, [pid, task, signal, at, 0, 0]);
    }
}
