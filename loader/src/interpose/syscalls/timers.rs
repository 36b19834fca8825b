//! POSIX timers: the system calls. The table is in `posix_timers.rs`.

use super::{fail, Call, Handler, Outcome};
use crate::interpose::posix_timers::{create, is_wall, kernel_id, Entry, Event, Timer, TABLE};
use crate::interpose::threads;
use crate::sys::clock::{self, Timespec};
use crate::sys::{syscall, user_copy};

pub const HANDLERS: &[(i64, Handler)] = &[
    // An id is an index of the loader's table, from which a restart creates the timers again.
    (libc::SYS_timer_create, timer_create),
    (libc::SYS_timer_settime, timer_settime),
    (libc::SYS_timer_gettime, with_timer),
    (libc::SYS_timer_getoverrun, with_timer),
    (libc::SYS_timer_delete, timer_delete),
];

/// Word of `struct sigevent` with the signal.
const SIGNAL: usize = 2;

fn timer_create(call: &mut Call) -> Outcome {
    let [clock, event, id_at, ..] = call.args();
    if call.vforked() {
        return fail(libc::EAGAIN);
    }
    let mut table = TABLE.lock();
    let Some(id) = table.iter().position(Option::is_none) else {
        return fail(libc::EAGAIN);
    };
    let event = match event {
        0 => {
            let mut usual = [0; 16];
            usual[0] = id as i32;
            usual[SIGNAL] = libc::SIGALRM;
            usual
        }
        event => match user_copy::read::<Event>(event) {
            Ok(event) => event,
            Err(_) => return fail(libc::EFAULT),
        },
    };
    let timer = Timer {
        clock: clock as i32,
        event,
        wall: false,
        interval: 0,
        next: 0,
    };
    let kernel = create(&timer, threads::real_tid);
    if syscall::is_err(kernel) {
        return Outcome::Value(kernel);
    }
    let kernel = kernel as i32;
    if user_copy::write(id_at, id as i32).is_err() {
        syscall::plain(libc::SYS_timer_delete, [kernel as usize, 0, 0, 0, 0, 0]);
        return fail(libc::EFAULT);
    }
    table[id] = Some(Entry { kernel, timer });
    Outcome::Value(0)
}

fn with_timer(call: &mut Call) -> Outcome {
    let (nr, mut args) = (call.nr() as i64, call.args());
    match kernel_id(args[0] as i32) {
        Some(kernel) => {
            args[0] = kernel as usize;
            Outcome::Value(call.kernel(nr, args))
        }
        None => fail(libc::EINVAL),
    }
}

fn timer_delete(call: &mut Call) -> Outcome {
    let id = call.int(0);
    let outcome = with_timer(call);
    if matches!(outcome, Outcome::Value(0)) {
        TABLE.lock()[id as usize] = None;
    }
    outcome
}

fn timer_settime(call: &mut Call) -> Outcome {
    let [id, flags, new, old, ..] = call.args();
    let mut table = TABLE.lock();
    let Some(Some(entry)) = table.get_mut(id as i32 as usize) else {
        return fail(libc::EINVAL);
    };
    let Ok([interval, first]) = user_copy::read::<[Timespec; 2]>(new) else {
        return fail(libc::EFAULT);
    };
    let absolute = flags as i32 & libc::TIMER_ABSTIME != 0;
    let clock = entry.timer.clock;
    let first = match absolute {
        true => clock::timer_on_machine(clock, first),
        false => first,
    };
    let times = [interval, first];
    let args = [
        entry.kernel as usize,
        flags,
        times.as_ptr() as usize,
        old,
        0,
        0,
    ];
    let result = call.kernel(libc::SYS_timer_settime, args);
    core::hint::black_box(times);
    if result == 0 {
        entry.timer.wall = absolute && is_wall(clock);
    }
    Outcome::Value(result)
}
