//! Calls that block, for a duration or until a deadline.
//!
//! A duration is recorded as its deadline, so that a call that a stop has interrupted waits only for the rest
//! (`syscall_restart.rs`). Deadlines on the application's clocks are converted to the machine's (`sys/clock.rs`).
//! SIGSYS and the stop signal are removed from signal masks.

use super::{fail, Call, Handler, Outcome};
use super::{pi_futex, signals};
use crate::interpose::signals::sender_ids;
use crate::interpose::syscall_restart;
use crate::sys::clock::{self, Timespec, SECOND};
use crate::sys::{syscall, user_copy};
use core::ffi::CStr;

pub const HANDLERS: &[(i64, Handler)] = &[
    // A checkpoint that interrupts the call keeps the rest of a duration; deadlines are on the application's clocks;
    // SIGSYS and the stop signal are removed from masks.
    (libc::SYS_nanosleep, nanosleep),
    (libc::SYS_clock_nanosleep, clock_nanosleep),
    (libc::SYS_poll, poll),
    (libc::SYS_ppoll, ppoll),
    (libc::SYS_select, select),
    (libc::SYS_pselect6, pselect6),
    (libc::SYS_epoll_wait, epoll_wait),
    (libc::SYS_epoll_pwait, epoll_wait),
    (libc::SYS_epoll_pwait2, epoll_pwait2),
    (libc::SYS_rt_sigtimedwait, rt_sigtimedwait),
    (libc::SYS_semtimedop, semtimedop),
    // Deadlines are on the application's clocks. After a restart the loader itself serves futexes with priority
    // inheritance, without raising a priority.
    (libc::SYS_futex, futex),
    // Deadlines are on the application's clocks.
    (libc::SYS_futex_waitv, futex_waitv),
    (libc::SYS_timerfd_settime, timerfd_settime),
];

const MASK_BYTES: usize = 8;
const MILLISECOND: i64 = 1_000_000;

/// Remaining duration of the call, from the one that the application gave.
fn rest(call: &Call, span: Timespec) -> Timespec {
    syscall_restart::remaining(call.thread, span.ns())
}

/// Makes the call with the duration at argument `position` replaced by the rest of it. If `told`, the kernel's final
/// rest is written to the application's argument.
fn with_span(call: &mut Call, mut args: [usize; 6], position: usize, told: bool) -> Outcome {
    let (nr, address) = (call.nr(), args[position]);
    if address == 0 {
        return call.pass_with(nr, args);
    }
    let Ok(span) = user_copy::read::<Timespec>(address) else {
        return fail(libc::EFAULT);
    };
    if !span.is_span() {
        return fail(libc::EINVAL);
    }
    let mut left = rest(call, span);
    args[position] = &raw mut left as usize;
    let outcome = call.pass_with(nr, args);
    if told && matches!(outcome, Outcome::Value(_)) {
        // As in the kernel, an error of this write has no effect.
        let _ = user_copy::write(address, core::hint::black_box(left));
    }
    core::hint::black_box(left);
    outcome
}

/// Sleeps until the deadline of the duration, so the kernel has no rest to report.
fn sleep(call: &mut Call, span: usize) -> Outcome {
    let Ok(span) = user_copy::read::<Timespec>(span) else {
        return fail(libc::EFAULT);
    };
    if !span.is_span() {
        return fail(libc::EINVAL);
    }
    let left = rest(call, span);
    let args = [
        libc::CLOCK_MONOTONIC as usize,
        0,
        &raw const left as usize,
        0,
        0,
        0,
    ];
    let outcome = call.pass_with(libc::SYS_clock_nanosleep as usize, args);
    core::hint::black_box(left);
    outcome
}

fn nanosleep(call: &mut Call) -> Outcome {
    let span = call.args()[0];
    sleep(call, span)
}

fn clock_nanosleep(call: &mut Call) -> Outcome {
    let [clock, flags, time, ..] = call.args();
    let clock = clock as i32;
    if flags as i32 & libc::TIMER_ABSTIME != 0 {
        return with_moment(call, clock, 2);
    }
    // A change of the wall clock does not affect a duration, so these three are equal.
    match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_MONOTONIC | libc::CLOCK_TAI => sleep(call, time),
        _ => call.pass(),
    }
}

/// Makes the call with the deadline at argument `position` converted to the machine's clock.
fn with_moment(call: &mut Call, clock: i32, position: usize) -> Outcome {
    let (nr, mut args) = (call.nr(), call.args());
    let mut moment = Timespec::default();
    if args[position] != 0 && clock::ahead(clock) != 0 {
        match user_copy::read::<Timespec>(args[position]) {
            Ok(read) if read.is_span() => moment = clock::on_machine(clock, read),
            Ok(_) => return fail(libc::EINVAL),
            Err(_) => return fail(libc::EFAULT),
        }
        args[position] = &raw const moment as usize;
    }
    let outcome = call.pass_with(nr, args);
    core::hint::black_box(moment);
    outcome
}

fn poll(call: &mut Call) -> Outcome {
    let [list, count, milliseconds, ..] = call.args();
    let milliseconds = i64::from(milliseconds as i32);
    if milliseconds <= 0 {
        return call.pass();
    }
    let left = rest(call, Timespec::new(milliseconds * MILLISECOND));
    let args = [list, count, &raw const left as usize, 0, MASK_BYTES, 0];
    let outcome = call.pass_with(libc::SYS_ppoll as usize, args);
    core::hint::black_box(left);
    outcome
}

fn ppoll(call: &mut Call) -> Outcome {
    let mut args = call.args();
    let Ok(mask) = signals::mask_argument(args[3]) else {
        return fail(libc::EFAULT);
    };
    args[3] = mask.as_ref().map_or(0, |mask| mask as *const u64 as usize);
    with_span(call, args, 2, true)
}

fn select(call: &mut Call) -> Outcome {
    let (nr, mut args) = (call.nr(), call.args());
    let address = args[4];
    if address == 0 {
        return call.pass();
    }
    // Seconds and microseconds; more than one second of microseconds is allowed.
    let Ok([seconds, microseconds]) = user_copy::read::<[i64; 2]>(address) else {
        return fail(libc::EFAULT);
    };
    if seconds < 0 || microseconds < 0 {
        return fail(libc::EINVAL);
    }
    let span = seconds
        .saturating_mul(SECOND)
        .saturating_add(microseconds.saturating_mul(1000));
    let left = rest(call, Timespec::new(span));
    let mut left = [left.seconds, left.nanoseconds / 1000];
    args[4] = left.as_mut_ptr() as usize;
    let outcome = call.pass_with(nr, args);
    if matches!(outcome, Outcome::Value(_)) {
        let _ = user_copy::write(address, core::hint::black_box(left));
    }
    core::hint::black_box(left);
    outcome
}

fn pselect6(call: &mut Call) -> Outcome {
    let mut args = call.args();
    let mut pair = [0usize; 2];
    let mut mask = None;
    if args[5] != 0 {
        let read = user_copy::read(args[5]).and_then(|read| {
            pair = read;
            mask = signals::mask_argument(pair[0])?;
            Ok(())
        });
        if read.is_err() {
            return fail(libc::EFAULT);
        }
        pair[0] = mask.as_ref().map_or(0, |mask| mask as *const u64 as usize);
        args[5] = pair.as_ptr() as usize;
    }
    let outcome = with_span(call, args, 4, true);
    core::hint::black_box((mask, pair));
    outcome
}

fn epoll_wait(call: &mut Call) -> Outcome {
    let (nr, mut args) = (call.nr(), call.args());
    let mut mask = None;
    if nr == libc::SYS_epoll_pwait as usize {
        mask = match signals::mask_argument(args[4]) {
            Ok(mask) => mask,
            Err(_) => return fail(libc::EFAULT),
        };
        args[4] = mask.as_ref().map_or(0, |mask| mask as *const u64 as usize);
    }
    let milliseconds = i64::from(args[3] as i32);
    if milliseconds > 0 {
        let left = rest(call, Timespec::new(milliseconds * MILLISECOND)).ns();
        args[3] = ((left + MILLISECOND - 1) / MILLISECOND) as usize;
    }
    let outcome = call.pass_with(nr, args);
    core::hint::black_box(mask);
    outcome
}

fn epoll_pwait2(call: &mut Call) -> Outcome {
    let mut args = call.args();
    let Ok(mask) = signals::mask_argument(args[4]) else {
        return fail(libc::EFAULT);
    };
    args[4] = mask.as_ref().map_or(0, |mask| mask as *const u64 as usize);
    with_span(call, args, 3, false)
}

fn rt_sigtimedwait(call: &mut Call) -> Outcome {
    let mut args = call.args();
    let facts = args[1];
    let Ok(mask) = signals::mask_argument(args[0]) else {
        return fail(libc::EFAULT);
    };
    args[0] = mask.as_ref().map_or(0, |mask| mask as *const u64 as usize);
    let outcome = with_span(call, args, 2, false);
    if matches!(outcome, Outcome::Value(signal) if signal > 0) && facts != 0 {
        let shown = sender_ids::with_own_ids(call.read(facts));
        let _ = user_copy::write(facts, shown);
    }
    outcome
}

fn semtimedop(call: &mut Call) -> Outcome {
    let args = call.args();
    with_span(call, args, 3, false)
}

fn futex(call: &mut Call) -> Outcome {
    const ANY: usize = u32::MAX as usize;
    let [word, op, value, time, ..] = call.args();
    let private = op & libc::FUTEX_PRIVATE_FLAG as usize;
    let realtime = op as i32 & libc::FUTEX_CLOCK_REALTIME != 0;
    let command = op as i32 & !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);
    if let Some(outcome) = pi_futex::serve(call, command) {
        return outcome;
    }
    match command {
        libc::FUTEX_WAIT if time != 0 && !realtime => {
            let Ok(span) = user_copy::read::<Timespec>(time) else {
                return fail(libc::EFAULT);
            };
            if !span.is_span() {
                return fail(libc::EINVAL);
            }
            // The same wait, with a deadline.
            let left = rest(call, span).ns();
            let now = clock::now(libc::CLOCK_MONOTONIC) - clock::ahead(libc::CLOCK_MONOTONIC);
            let until = Timespec::new(now.saturating_add(left));
            let op = libc::FUTEX_WAIT_BITSET as usize | private;
            let until_at = &raw const until as usize;
            let args = [word, op, value, until_at, 0, ANY];
            let outcome = call.pass_with(libc::SYS_futex as usize, args);
            core::hint::black_box(until);
            outcome
        }
        libc::FUTEX_WAIT_BITSET | libc::FUTEX_WAIT_REQUEUE_PI | syscall_restart::LOCK_PI2
            if time != 0 =>
        {
            let clock = match realtime {
                true => libc::CLOCK_REALTIME,
                false => libc::CLOCK_MONOTONIC,
            };
            with_moment(call, clock, 3)
        }
        _ => call.pass(),
    }
}

fn futex_waitv(call: &mut Call) -> Outcome {
    let clock = call.int(4);
    with_moment(call, clock, 3)
}

/// Clock of a timerfd, as the kernel reports it.
fn timerfd_clock(fd: i32) -> Option<i32> {
    const NAME: &[u8] = b"clockid: ";
    let mut path = *b"/proc/self/fdinfo/\0\0\0\0\0\0\0\0\0\0\0";
    let mut digits = fd.checked_ilog10()? as usize + 1;
    let mut rest = fd;
    while digits > 0 {
        digits -= 1;
        path[b"/proc/self/fdinfo/".len() + digits] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let mut text = [0u8; 512];
    let path = CStr::from_bytes_until_nul(&path).ok()?;
    let info = syscall::open(path, libc::O_CLOEXEC);
    if syscall::is_err(info) {
        return None;
    }
    syscall::read(info as i32, &mut text);
    syscall::plain(libc::SYS_close, [info as usize, 0, 0, 0, 0, 0]);
    let found = text.windows(NAME.len() + 1).find(|w| w.starts_with(NAME))?;
    Some(i32::from(found[NAME.len()] - b'0'))
}

fn timerfd_settime(call: &mut Call) -> Outcome {
    let [fd, flags, new, old, ..] = call.args();
    let absolute = flags as i32 & libc::TFD_TIMER_ABSTIME != 0;
    if !absolute || clock::are_the_machines() {
        return call.pass();
    }
    let Some(clock) = timerfd_clock(fd as i32) else {
        return call.pass();
    };
    let Ok([interval, first]) = user_copy::read::<[Timespec; 2]>(new) else {
        return fail(libc::EFAULT);
    };
    let times = [interval, clock::timer_on_machine(clock, first)];
    let nr = libc::SYS_timerfd_settime;
    let result = call.kernel(nr, [fd, flags, times.as_ptr() as usize, old, 0, 0]);
    core::hint::black_box(times);
    Outcome::Value(result)
}
