//! Restart of a blocking system call that a stop or a signal interrupted (`ERESTART_RESTARTBLOCK`).
//!
//! A stop turns a thread that waits in a call into one that is about to make it. Two facts would be lost with that: the
//! time that it has waited already, and the interruption by an application handler that runs next. So the number of
//! such a call is marked in its frame, where the kernel, too, would now have another number (`restart_syscall`):
//!
//! - the call waits until the deadline in the mark, which is on the application's monotonic clock (`sys/clock.rs`) and
//!   hence valid after a restart;
//! - a handler that runs before the call is made again ends it with EINTR, under the same conditions as in the kernel
//!   ([`end_by_handler`]).
//!
//! A frame holds all of this, so any number of frames may lie on a stack, and the application need not return to them.

use super::sites::slots;
use super::threads::Thread;
use crate::sys::clock::{self, Timespec, SECOND};
use crate::sys::context::{Context, Registers, SYSCALL_LEN};
use crate::sys::{syscall, user_copy};
use core::sync::atomic::Ordering;

/// `FUTEX_LOCK_PI2`, whose deadline is on the monotonic clock.
pub const LOCK_PI2: i32 = 13;

// A marked number: 4 bits that no call number has, restartable, 9 bits of number, 50 bits of deadline.
const MARK: usize = 0xa << 60;
const MARK_BITS: usize = 0xf << 60;
const RESTARTABLE: usize = 1 << 59;
const NUMBER_SHIFT: u32 = 50;
const NUMBERS: usize = 1 << 9;
const DEADLINE_BITS: usize = (1 << NUMBER_SHIFT) - 1;

/// Nanoseconds in a unit of deadlines; 50 bits of units last for 35 years.
const UNIT: i64 = 1000;

/// Records the call that is being served and returns its plain number.
pub fn begin(thread: &Thread, number: usize) -> usize {
    thread.call.store(number, Ordering::Relaxed);
    if number & MARK_BITS != MARK {
        thread.deadline.store(0, Ordering::Relaxed);
        return number;
    }
    let deadline = number & DEADLINE_BITS;
    thread.deadline.store(deadline as u64, Ordering::Relaxed);
    (number >> NUMBER_SHIFT) & (NUMBERS - 1)
}

/// Number with which to repeat a call that was not made.
pub fn not_made(thread: &Thread) -> usize {
    thread.call.load(Ordering::Relaxed)
}

/// Number with which to repeat a call that waited. `restartable`: the kernel repeats it after SA_RESTART handlers.
pub fn waited(thread: &Thread, number: usize, restartable: bool) -> usize {
    if number >= NUMBERS {
        return number;
    }
    let deadline = thread.deadline.load(Ordering::Relaxed) as usize & DEADLINE_BITS;
    let restartable = if restartable { RESTARTABLE } else { 0 };
    MARK | restartable | (number << NUMBER_SHIFT) | deadline
}

/// Remaining time of a call that waits for at most `span`. A negative span has no end.
pub fn remaining(thread: &Thread, span: i64) -> Timespec {
    let now = clock::now(libc::CLOCK_MONOTONIC);
    let noted = thread.deadline.load(Ordering::Relaxed);
    if noted != 0 {
        return Timespec::new((noted as i64 * UNIT - now).max(0));
    }
    let deadline = now.saturating_add(span).saturating_add(UNIT - 1) / UNIT;
    if deadline <= DEADLINE_BITS as i64 {
        thread.deadline.store(deadline as u64, Ordering::Relaxed);
    }
    Timespec::new(span)
}

/// Ends a marked call of this frame with EINTR, because a handler runs now. A call is repeated instead if the kernel
/// would repeat it after such a handler (`restarts`: SA_RESTART).
pub fn end_by_handler(frame: &mut Context, restarts: bool) {
    let number = frame.regs.rax;
    if number & MARK_BITS != MARK || !slots::is_call(frame.regs.rip) {
        return;
    }
    frame.regs.rax = (number >> NUMBER_SHIFT) & (NUMBERS - 1);
    if never_ends(&frame.regs) || (number & RESTARTABLE != 0 && restarts) {
        frame.regs.rax = number;
        return;
    }
    tell_remaining(&frame.regs, (number & DEADLINE_BITS) as u64);
    frame.regs.rax = syscall::err(libc::EINTR) as usize;
    frame.regs.rip += SYSCALL_LEN;
}

/// Whether a signal never ends the call with EINTR, with any handler flags.
pub fn never_interrupted(op: usize) -> bool {
    let flags = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;
    matches!(op as i32 & !flags, libc::FUTEX_LOCK_PI | LOCK_PI2)
}

/// Whether a handler never ends the call in `regs`.
pub fn never_ends(regs: &Registers) -> bool {
    regs.rax as i64 == libc::SYS_futex && never_interrupted(regs.rsi)
}

/// Writes the remaining time of the call in `regs`, which ends before `deadline` (as stored in the thread; 0: none), to
/// the address that the kernel would use. Faults at a wrong address are ignored.
pub fn tell_remaining(regs: &Registers, deadline: u64) {
    if deadline == 0 {
        return;
    }
    let address = match regs.rax as i64 {
        libc::SYS_nanosleep => regs.rsi,
        libc::SYS_clock_nanosleep => regs.r10,
        libc::SYS_ppoll => regs.rdx,
        libc::SYS_select | libc::SYS_pselect6 => regs.r8,
        _ => 0,
    };
    if address == 0 {
        return;
    }
    let now = clock::now(libc::CLOCK_MONOTONIC);
    let left = (deadline as i64 * UNIT - now).max(0);
    let mut time = Timespec::new(left);
    if regs.rax as i64 == libc::SYS_select {
        time.nanoseconds /= SECOND / 1_000_000;
    }
    let _ = user_copy::write(address, time);
}

#[cfg(test)]
mod tests {
    use super::never_interrupted;

    #[test]
    fn priority_inheritance_lock_is_never_interrupted() {
        assert!(never_interrupted(libc::FUTEX_LOCK_PI as usize | 128));
        assert!(!never_interrupted(libc::FUTEX_WAIT as usize));
    }
}
