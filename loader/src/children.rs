//! The application's child processes. They run natively and are no part of an image; but how one
//! ended that nobody has waited for is, so that a restarted parent is still told.
//!
//! The lower half may have children of its own (Open MPI without mpirun starts a daemon), so it is
//! noted which ones the application has made. Called in handlers of system calls: nothing here
//! allocates but what says so.
//!
//! # Safety
//! `waitid` fills a local.
#![allow(unsafe_code)]

use crate::lock::Spin;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use serde::{Deserialize, Serialize};

/// The largest `kernel.pid_max`.
const LIMIT: usize = 1 << 22;
/// One bit for each process id: a child of this process that the application has made, or was.
static MADE: [AtomicU64; LIMIT / 64] = [const { AtomicU64::new(0) }; LIMIT / 64];

/// A child that has ended and that nobody has waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Its process id.
    pub pid: i32,
    /// Whose it was.
    pub uid: u32,
    /// CLD_EXITED, CLD_KILLED or CLD_DUMPED.
    pub code: i32,
    /// Exit status or signal.
    pub status: i32,
}

/// More than these are not remembered across a restart.
pub const MOST: usize = 64;
/// Children of the process before the restart, in the first places, and how many there are.
static BEFORE: Spin<[Ended; MOST]> = Spin::new(
    [Ended {
        pid: 0,
        uid: 0,
        code: 0,
        status: 0,
    }; MOST],
);
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The application has made this process (nothing is noted for the result of a fork that failed).
pub fn note(pid: isize) {
    if let Some(pid) = usize::try_from(pid).ok().filter(|pid| *pid < LIMIT) {
        MADE[pid / 64].fetch_or(1 << (pid % 64), Ordering::Relaxed);
    }
}

/// The application's children: ids of those that live, and how the others ended. Allocates.
pub fn all() -> (Vec<i32>, Vec<Ended>) {
    let mut living = Vec::new();
    let mut ended = BEFORE.lock()[..COUNT.load(Ordering::Relaxed)].to_vec();
    for (index, word) in MADE.iter().enumerate() {
        let mut bits = word.load(Ordering::Relaxed);
        while bits != 0 {
            let bit = bits.trailing_zeros();
            bits &= bits - 1;
            let pid = (index * 64) as i32 + bit as i32;
            match look(pid) {
                None => {
                    word.fetch_and(!(1 << bit), Ordering::Relaxed);
                }
                Some(child) if child.pid == 0 => living.push(pid),
                Some(child) => ended.push(child),
            }
        }
    }
    (living, ended)
}

/// How a child stands, without taking it away: id 0 while it lives, none if it is no child.
fn look(pid: i32) -> Option<Ended> {
    let mut info = core::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the kernel fills the local; of a living child it leaves it zero.
    unsafe {
        if libc::waitid(libc::P_PID, pid as u32, info.as_mut_ptr(), how) != 0 {
            return None;
        }
        let info = info.assume_init();
        Some(Ended {
            pid: info.si_pid(),
            uid: info.si_uid(),
            code: info.si_code,
            status: info.si_status(),
        })
    }
}

/// At a restart: these had ended before.
pub fn remember(ended: &[Ended]) {
    let mut before = BEFORE.lock();
    let count = ended.len().min(MOST);
    before[..count].copy_from_slice(&ended[..count]);
    COUNT.store(count, Ordering::Relaxed);
}

/// The first child from before the restart that is this one, if one is asked for; forgotten with
/// that if `take`.
pub fn from_before(pid: Option<i32>, take: bool) -> Option<Ended> {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let mut before = BEFORE.lock();
    let count = COUNT.load(Ordering::Relaxed);
    let at = (0..count).find(|at| pid.is_none_or(|pid| before[*at].pid == pid))?;
    let found = before[at];
    if take {
        before.copy_within(at + 1..count, at);
        COUNT.store(count - 1, Ordering::Relaxed);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_ended_is_told_until_somebody_waits() {
        let spawn = |command| {
            let child = std::process::Command::new("sh")
                .args(["-c", command])
                .spawn();
            let child = child.expect("sh");
            note(child.id() as isize);
            child
        };
        let (mut sleeper, mut quick) = (spawn("sleep 100"), spawn("exit 7"));
        let quick_id = quick.id() as i32;
        // Waits, and leaves the child as it is.
        // SAFETY: a null pointer is allowed.
        unsafe {
            let how = libc::WEXITED | libc::WNOWAIT;
            let mut info = core::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
            libc::waitid(libc::P_PID, quick.id(), info.as_mut_ptr(), how);
        }
        let (living, ended) = all();
        assert_eq!(living, [sleeper.id() as i32]);
        let [child] = ended[..] else {
            panic!("{ended:?}");
        };
        assert_eq!(
            (child.pid, child.code, child.status),
            (quick_id, libc::CLD_EXITED, 7)
        );
        quick.wait().expect("a child");
        sleeper.kill().expect("a child");
        sleeper.wait().expect("a child");
        assert_eq!(all(), (vec![], vec![]));

        let other = Ended { pid: 5, ..child };
        remember(&[child, other]);
        assert_eq!(all().1, [child, other]);
        assert_eq!(from_before(Some(6), true), None);
        assert_eq!(from_before(Some(5), false), Some(other));
        assert_eq!(from_before(None, true), Some(child));
        assert_eq!(from_before(None, true), Some(other));
        assert_eq!(from_before(None, true), None);
    }
}
