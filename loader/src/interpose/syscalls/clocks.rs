//! Clocks that are read without the vDSO, or whose values are recorded or replayed (`clock_log.rs`).
//!
//! # Safety
//! A function of the upper half's vDSO writes to the address that it was given, as the kernel's does: a wrong address
//! is fatal.
#![allow(unsafe_code)]

use super::{fail, Call, Handler, Outcome};
use crate::interpose::clock_log;
use crate::load::vdso;
use crate::sys::clock::{self, Timespec, SECOND};
use record::clocks::Clock;

pub const HANDLERS: &[(i64, Handler)] = &[
    // The monotonic and boot-time clocks continue from their values at the checkpoint. With `--time` the values that
    // the initial thread reads are recorded, or come from the record.
    (libc::SYS_clock_gettime, clock_gettime),
    // With `--time` the values that the initial thread reads are recorded, or come from the record.
    (libc::SYS_gettimeofday, gettimeofday),
    (libc::SYS_time, time),
];

const MICROSECONDS: i64 = SECOND / 1000;

fn clock_gettime(call: &mut Call) -> Outcome {
    let [id, to, ..] = call.args();
    let Some(clock) = Clock::with_id(id as i32).filter(|_| clock_log::is_on()) else {
        return on_application(call, id as i32, to);
    };
    match clock_log::read(call, clock) {
        Ok(ns) if to != 0 => store(call, to, Timespec::new(ns)),
        Ok(_) => fail(libc::EFAULT),
        Err(error) => Outcome::Value(error),
    }
}

/// The value of the kernel, on the application's clock.
fn on_application(call: &mut Call, id: i32, to: usize) -> Outcome {
    let ahead = clock::ahead(id);
    let outcome = call.pass();
    if ahead == 0 || !matches!(outcome, Outcome::Value(0)) {
        return outcome;
    }
    let shown = call.read::<Timespec>(to).ns().saturating_add(ahead);
    call.answer(to, Timespec::new(shown))
}

fn gettimeofday(call: &mut Call) -> Outcome {
    let [to, zone, ..] = call.args();
    if !clock_log::is_on() {
        return call.pass();
    }
    if zone != 0 {
        let result = call.kernel(libc::SYS_gettimeofday, [0, zone, 0, 0, 0, 0]);
        if result != 0 || to == 0 {
            return Outcome::Value(result);
        }
    }
    match clock_log::read(call, Clock::GETTIMEOFDAY) {
        Ok(value) => {
            let parts = [
                value.div_euclid(MICROSECONDS),
                value.rem_euclid(MICROSECONDS),
            ];
            store(call, to, parts)
        }
        Err(error) => Outcome::Value(error),
    }
}

fn time(call: &mut Call) -> Outcome {
    let [to, ..] = call.args();
    if !clock_log::is_on() {
        return call.pass();
    }
    match clock_log::read(call, Clock::TIME) {
        Ok(seconds) => match store(call, to, seconds) {
            Outcome::Value(0) => Outcome::Value(seconds as isize),
            failed => failed,
        },
        Err(error) => Outcome::Value(error),
    }
}

/// Writes a value to the application's memory, unless the address is 0.
fn store<T: Copy>(call: &mut Call, to: usize, value: T) -> Outcome {
    if to != 0 && vdso::traps(call.frame().regs.rip) {
        // SAFETY: see the head.
        unsafe { (to as *mut T).write_unaligned(value) };
        return Outcome::Value(0);
    }
    call.answer(to, value)
}
