//! Futexes with priority inheritance, once the kernel's thread ids are no longer those that the
//! application knows.
//!
//! The word of such a futex holds the owner's thread id, and the kernel looks the owner up by it.
//! Until a restart it can, and is left to. After one these calls are served here, with the same
//! words and ordinary waits: mutual exclusion, deadlock and dead owners are told as before, but
//! nobody's priority is raised.

use super::{fail, Call, Outcome};
use crate::clock::{self, Timespec};
use crate::{raw, user};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// `FUTEX_LOCK_PI2`, whose moment is on the monotonic clock.
pub const LOCK_PI2: i32 = 13;
const CMP_REQUEUE_PI: i32 = 12;

const WAITERS: u32 = 0x8000_0000;
const OWNER_DIED: u32 = 0x4000_0000;
const OWNER: u32 = 0x3fff_ffff;

static SERVED_HERE: AtomicBool = AtomicBool::new(false);

/// From now on the kernel would not find the owners.
pub fn serve_from_now_on() {
    SERVED_HERE.store(true, Ordering::Relaxed);
}

/// Whether a signal never ends the call with EINTR, whatever the handler asked for.
pub fn never_interrupted(op: usize) -> bool {
    let flags = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;
    matches!(op as i32 & !flags, libc::FUTEX_LOCK_PI | LOCK_PI2)
}

/// Serves the call, if it is one of these and not the kernel's affair.
pub fn serve(call: &mut Call, command: i32) -> Option<Outcome> {
    if !SERVED_HERE.load(Ordering::Relaxed) {
        return None;
    }
    match command {
        libc::FUTEX_LOCK_PI | LOCK_PI2 => Some(lock(call, command)),
        libc::FUTEX_TRYLOCK_PI => Some(try_lock(call)),
        libc::FUTEX_UNLOCK_PI => Some(unlock(call)),
        // What is served here cannot be requeued to; C libraries do without since 2017.
        libc::FUTEX_WAIT_REQUEUE_PI | CMP_REQUEUE_PI => Some(fail(libc::ENOSYS)),
        _ => None,
    }
}

fn word(call: &mut Call) -> Result<&'static AtomicU32, Outcome> {
    match call.args()[0] {
        address if address % 4 != 0 => Err(fail(libc::EINVAL)),
        address => user::word(address).map_err(|_| fail(libc::EFAULT)),
    }
}

/// Takes the futex if it is free; its value if not.
fn take(word: &AtomicU32, tid: u32, others_wait: u32) -> Result<(), u32> {
    let mut value = word.load(Ordering::Acquire);
    while value & OWNER == 0 {
        let mine = tid | (value & (OWNER_DIED | WAITERS)) | others_wait;
        match word.compare_exchange(value, mine, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return Ok(()),
            Err(now) => value = now,
        }
    }
    Err(value)
}

fn lock(call: &mut Call, command: i32) -> Outcome {
    const ANY: usize = u32::MAX as usize;
    let word = match word(call) {
        Ok(word) => word,
        Err(outcome) => return outcome,
    };
    let [address, op, _, time, ..] = call.args();
    // LOCK_PI's moment is always on the wall clock.
    let wall = command == libc::FUTEX_LOCK_PI || op as i32 & libc::FUTEX_CLOCK_REALTIME != 0;
    let mut until = Timespec::default();
    if time != 0 {
        match user::read::<Timespec>(time) {
            Ok(read) if read.is_span() && wall => until = read,
            Ok(read) if read.is_span() => until = clock::on_machine(libc::CLOCK_MONOTONIC, read),
            Ok(_) => return fail(libc::EINVAL),
            Err(_) => return fail(libc::EFAULT),
        }
    }
    let until_at = if time == 0 {
        0
    } else {
        &raw const until as usize
    };
    let wait = libc::FUTEX_WAIT_BITSET
        | if wall { libc::FUTEX_CLOCK_REALTIME } else { 0 }
        | op as i32 & libc::FUTEX_PRIVATE_FLAG;
    let tid = call.thread.tid();
    // Who has waited cannot know whether others still do, so it says they do.
    let mut others_wait = 0;
    loop {
        let value = match take(word, tid, others_wait) {
            Ok(()) => return Outcome::Value(0),
            Err(value) if value & OWNER == tid => return fail(libc::EDEADLK),
            Err(value) => value,
        };
        let marked = value | WAITERS;
        let exchange = word.compare_exchange(value, marked, Ordering::AcqRel, Ordering::Acquire);
        if exchange.is_err() {
            continue;
        }
        others_wait = WAITERS;
        let args = [address, wait as usize, marked as usize, until_at, 0, ANY];
        match call.pass_with(libc::SYS_futex as usize, args) {
            Outcome::Value(0) => {}
            Outcome::Value(result) if result == raw::err(libc::EAGAIN) => {}
            other => return other,
        }
        core::hint::black_box(&until);
    }
}

fn try_lock(call: &mut Call) -> Outcome {
    let tid = call.thread.tid();
    match word(call).map(|word| take(word, tid, 0)) {
        Ok(Ok(())) => Outcome::Value(0),
        Ok(Err(value)) if value & OWNER == tid => fail(libc::EDEADLK),
        Ok(Err(_)) => fail(libc::EAGAIN),
        Err(outcome) => outcome,
    }
}

fn unlock(call: &mut Call) -> Outcome {
    let word = match word(call) {
        Ok(word) => word,
        Err(outcome) => return outcome,
    };
    let [address, op, ..] = call.args();
    if word.load(Ordering::Acquire) & OWNER != call.thread.tid() {
        return fail(libc::EPERM);
    }
    word.store(0, Ordering::Release);
    let wake = libc::FUTEX_WAKE | op as i32 & libc::FUTEX_PRIVATE_FLAG;
    call.kernel(libc::SYS_futex, [address, wake as usize, 1, 0, 0, 0]);
    Outcome::Value(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_word_is_taken_with_its_history() {
        let word = AtomicU32::new(OWNER_DIED);
        assert_eq!(take(&word, 7, WAITERS), Ok(()));
        assert_eq!(word.load(Ordering::Relaxed), 7 | OWNER_DIED | WAITERS);
        assert_eq!(take(&word, 8, 0), Err(7 | OWNER_DIED | WAITERS));
        assert!(never_interrupted(libc::FUTEX_LOCK_PI as usize | 128));
        assert!(!never_interrupted(libc::FUTEX_WAIT as usize));
    }
}
