//! Pending signals of the process and of each of its threads.
//!
//! The kernel tells which signals are pending, but only taking one gives its information. So all are taken, and sent
//! again in the same order, while all threads hold them back. A thread may send itself what only `kill` can send
//! otherwise, and the initial thread may send it to the process: therefore these threads send.

use crate::error::CaptureError;
use crate::interpose::signals::never_blocked;
use crate::interpose::signals::sender_ids;
use crate::interpose::threads::stop::Stopped;
use crate::interpose::threads::{self, Thread};
use crate::sys::context::SigInfo;
use crate::sys::syscall;
use std::sync::atomic::Ordering;

/// Signals taken at a time.
const BATCH: usize = 32;

/// Signal set in a line of a thread's `status`.
fn shown(task: u32, line: &str) -> Result<u64, CaptureError> {
    let path = format!("/proc/self/task/{task}/status");
    let text = std::fs::read_to_string(&path)
        .map_err(|source| CaptureError::System { what: path, source })?;
    let set = text.lines().find_map(|l| l.strip_prefix(line));
    let set = set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    Ok(set.unwrap_or(0) & !never_blocked())
}

/// Takes signals of the set that are pending for the calling thread or the process.
fn take(set: u64, into: &mut [SigInfo; BATCH]) -> usize {
    let mut taken = 0;
    for info in into.iter_mut() {
        if syscall::is_err(syscall::take_pending(set, info)) {
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
        all.extend(batch.map(sender_ids::with_own_ids));
        if taken < BATCH {
            return all;
        }
    }
}

/// Takes signals pending for the process. Call it on a thread of the lower half.
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

/// Takes signals pending for one thread.
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

/// Sends signals to the process, all of whose threads block them. Call it on the initial thread.
pub fn send_to_process(infos: &[SigInfo]) {
    for info in infos {
        let info = sender_ids::with_kernel_ids(*info);
        syscall::send_to_process(threads::real_pid(), info.signo, &info);
    }
}

/// Sends signals to the calling thread, which blocks them.
pub fn send_to_self(infos: &[SigInfo]) {
    for info in infos {
        let info = sender_ids::with_kernel_ids(*info);
        syscall::send_to_self(info.signo, &info);
    }
}
