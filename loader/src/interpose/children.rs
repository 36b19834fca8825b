//! Child processes of the application. They run natively and are not in an image. The image has the exit status of each
//! ended child that was not waited for, so that a restarted parent still gets it.
//!
//! The lower half may have children of its own (Open MPI without mpirun starts a daemon), so the children of the
//! application are marked. Handlers of system calls call these functions: nothing here allocates unless its
//! documentation mentions it.
//!
//! # Safety
//! Fields of what `waitid` fills in.
#![allow(unsafe_code)]

use crate::sys::spin_lock::Spin;
use crate::sys::{c_library, zeros};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use serde::{Deserialize, Serialize};

/// The largest `kernel.pid_max`.
const LIMIT: usize = 1 << 22;
/// One bit for each process id: whether it is or was a child that the application has created.
static MADE: [AtomicU64; LIMIT / 64] = [const { AtomicU64::new(0) }; LIMIT / 64];

/// A child that has ended and was not waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Process id.
    pub pid: i32,
    /// Real user id.
    pub uid: u32,
    /// CLD_EXITED, CLD_KILLED or CLD_DUMPED.
    pub code: i32,
    /// Exit status or signal.
    pub status: i32,
}

/// Maximum number of ended children that are saved across a restart.
pub const MOST: usize = 64;
/// Children of the process before the restart, from index 0 on, and their number.
static BEFORE: Spin<[Ended; MOST]> = Spin::new(
    [Ended {
        pid: 0,
        uid: 0,
        code: 0,
        status: 0,
    }; MOST],
);
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Marks a child of the application. (A failed fork marks nothing.)
pub fn note(pid: isize) {
    if let Some(pid) = usize::try_from(pid).ok().filter(|pid| *pid < LIMIT) {
        MADE[pid / 64].fetch_or(1 << (pid % 64), Ordering::Relaxed);
    }
}

/// The application's children: ids of live ones, and the status of ended ones. Allocates.
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

/// State of a child, which is not reaped: id 0 while it lives, none if it is no child.
fn look(pid: i32) -> Option<Ended> {
    // The kernel leaves it zero for a live child.
    let mut info: libc::siginfo_t = zeros::value();
    let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    if c_library::waitid(libc::P_PID, pid as u32, &mut info, how) != 0 {
        return None;
    }
    // SAFETY: these fields are integers, and the kernel has filled them in or left them zero.
    unsafe {
        Some(Ended {
            pid: info.si_pid(),
            uid: info.si_uid(),
            code: info.si_code,
            status: info.si_status(),
        })
    }
}

/// Sets the children that had ended before a restart.
pub fn remember(ended: &[Ended]) {
    let mut before = BEFORE.lock();
    let count = ended.len().min(MOST);
    before[..count].copy_from_slice(&ended[..count]);
    COUNT.store(count, Ordering::Relaxed);
}

/// First child from before the restart, or the one with this id; removed if `take`.
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
    fn ended_child_is_reported_until_it_is_reaped() {
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
        // Waits, and leaves the child unreaped.
        let how = libc::WEXITED | libc::WNOWAIT;
        c_library::waitid(libc::P_PID, quick.id(), &mut zeros::value(), how);
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
