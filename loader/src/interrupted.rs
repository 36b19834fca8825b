//! Calls that waited when something interrupted them.
//!
//! A stop turns a thread that waits in a call into one that is about to make it. Two things would
//! be lost with that: how long it has waited already, and that a handler of the application which
//! runs next has interrupted it. So the number of such a call is marked in its frame, where the
//! kernel, too, would now have another number (`restart_syscall`):
//!
//! - the call goes on waiting until the moment noted in the mark, which is one of the
//!   application's monotonic clock (`clock.rs`) and hence has a meaning after a restart;
//! - a handler that runs before the call is made again ends it with EINTR, under the conditions
//!   under which the kernel would have ([`end_by_handler`]).
//!
//! A frame holds all of this, so it does not matter how many of them lie on a stack, or whether
//! the application ever returns to them.

use crate::clock::{self, Timespec, SECOND};
use crate::context::{Context, Registers, SYSCALL_LEN};
use crate::syscalls::pi_futex;
use crate::thread::Thread;
use crate::{raw, user};
use core::sync::atomic::Ordering;

// A marked number: 4 bits that no number has, restartable, 9 bits of number, 50 bits of deadline.
const MARK: usize = 0xa << 60;
const MARK_BITS: usize = 0xf << 60;
const RESTARTABLE: usize = 1 << 59;
const NUMBER_SHIFT: u32 = 50;
const NUMBERS: usize = 1 << 9;
const DEADLINE_BITS: usize = (1 << NUMBER_SHIFT) - 1;

/// Nanoseconds in the unit of deadlines, of which 50 bits last for 35 years.
const UNIT: i64 = 1000;

/// What is served now: notes the call and returns its plain number.
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

/// The number with which the call is to be made again, where it was not made.
pub fn not_made(thread: &Thread) -> usize {
    thread.call.load(Ordering::Relaxed)
}

/// Likewise, where it waited. `restartable`: the kernel makes it again after handlers that want so.
pub fn waited(thread: &Thread, number: usize, restartable: bool) -> usize {
    if number >= NUMBERS {
        return number;
    }
    let deadline = thread.deadline.load(Ordering::Relaxed) as usize & DEADLINE_BITS;
    let restartable = if restartable { RESTARTABLE } else { 0 };
    MARK | restartable | (number << NUMBER_SHIFT) | deadline
}

/// For a call that waits for at most `span`: how long it still has to. Negative spans have no end.
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

/// A handler that interrupts this frame runs now: a marked call ends with EINTR, unless it and the
/// handler (`restarts`) are of those after which the kernel makes it again.
pub fn end_by_handler(frame: &mut Context, restarts: bool) {
    const SYSCALL: [u8; SYSCALL_LEN] = [0x0f, 0x05];
    let number = frame.regs.rax;
    if number & MARK_BITS != MARK || user::read(frame.regs.rip) != Ok(SYSCALL) {
        return;
    }
    frame.regs.rax = (number >> NUMBER_SHIFT) & (NUMBERS - 1);
    if never_ends(&frame.regs) || (number & RESTARTABLE != 0 && restarts) {
        frame.regs.rax = number;
        return;
    }
    tell_remaining(&frame.regs, (number & DEADLINE_BITS) as u64);
    frame.regs.rax = raw::err(libc::EINTR) as usize;
    frame.regs.rip += SYSCALL_LEN;
}

/// Whether a handler never ends the call in `regs`.
pub fn never_ends(regs: &Registers) -> bool {
    regs.rax as i64 == libc::SYS_futex && pi_futex::never_interrupted(regs.rsi)
}

/// The call in `regs` ends before `deadline` (as noted in the thread; 0: it has none): writes the
/// time that is left to where the kernel would. A wrong address is the application's affair.
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
    let _ = user::write(address, time);
}
