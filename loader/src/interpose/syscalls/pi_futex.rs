//! Futexes with priority inheritance after a restart, when the kernel's thread ids differ from those of the
//! application.
//!
//! The word of such a futex holds the owner's thread id, by which the kernel finds the owner. Before a restart the
//! kernel serves these calls. After one they are served here, with the same words and ordinary waits: mutual exclusion,
//! EDEADLK and FUTEX_OWNER_DIED are as before, but no thread's priority is raised.

use super::{fail, Call, Outcome};
use crate::interpose::syscall_restart::LOCK_PI2;
use crate::sys::clock::{self, Timespec};
use crate::sys::{syscall, user_copy};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const CMP_REQUEUE_PI: i32 = 12;

const WAITERS: u32 = 0x8000_0000;
const OWNER_DIED: u32 = 0x4000_0000;
const OWNER: u32 = 0x3fff_ffff;

static SERVED_HERE: AtomicBool = AtomicBool::new(false);

/// Starts the service here, after a restart: the kernel would not find the owners.
pub fn serve_from_now_on() {
    SERVED_HERE.store(true, Ordering::Relaxed);
}

/// Serves the call, if it is one of these and the kernel cannot serve it.
pub fn serve(call: &mut Call, command: i32) -> Option<Outcome> {
    if !SERVED_HERE.load(Ordering::Relaxed) {
        return None;
    }
    match command {
        libc::FUTEX_LOCK_PI | LOCK_PI2 => Some(lock(call, command)),
        libc::FUTEX_TRYLOCK_PI => Some(try_lock(call)),
        libc::FUTEX_UNLOCK_PI => Some(unlock(call)),
        // Requeue to a futex that is served here is impossible; C libraries do without it since 2017.
        libc::FUTEX_WAIT_REQUEUE_PI | CMP_REQUEUE_PI => Some(fail(libc::ENOSYS)),
        _ => None,
    }
}

fn word(call: &mut Call) -> Result<&'static AtomicU32, Outcome> {
    match call.args()[0] {
        address if address % 4 != 0 => Err(fail(libc::EINVAL)),
        address => user_copy::word(address).map_err(|_| fail(libc::EFAULT)),
    }
}

/// Takes the futex if it is free; otherwise returns its value.
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
    // The deadline of LOCK_PI is always on the wall clock.
    let wall = command == libc::FUTEX_LOCK_PI || op as i32 & libc::FUTEX_CLOCK_REALTIME != 0;
    let mut until = Timespec::default();
    if time != 0 {
        match user_copy::read::<Timespec>(time) {
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
    // A thread that has waited does not know about other waiters, so it sets the bit.
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
            Outcome::Value(result) if result == syscall::err(libc::EAGAIN) => {}
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
    fn free_futex_is_taken_and_keeps_its_flags() {
        let word = AtomicU32::new(OWNER_DIED);
        assert_eq!(take(&word, 7, WAITERS), Ok(()));
        assert_eq!(word.load(Ordering::Relaxed), 7 | OWNER_DIED | WAITERS);
        assert_eq!(take(&word, 8, 0), Err(7 | OWNER_DIED | WAITERS));
    }
}
