//! `fcntl` commands for the owner of an open file, which gets its signals: the application's ids are translated.

use super::{Call, Outcome};
use crate::interpose::threads;
use crate::sys::syscall::{self, F_GETOWN_EX, F_OWNER_PGRP, F_SETOWN_EX};
use crate::sys::user_copy;

/// Whether it is such a command.
pub const fn is_command(command: i32) -> bool {
    matches!(
        command,
        libc::F_SETOWN | libc::F_GETOWN | F_SETOWN_EX | F_GETOWN_EX
    )
}

/// Makes the call.
pub fn fcntl(call: &mut Call) -> Outcome {
    match call.int(1) {
        libc::F_SETOWN => set(call),
        libc::F_GETOWN => get(call),
        F_SETOWN_EX => set_extended(call),
        _ => get_extended(call),
    }
}

/// A negative number is a process group.
fn set(call: &mut Call) -> Outcome {
    let (nr, mut args, id) = (call.nr(), call.args(), call.int(2));
    if id > 0 {
        args[2] = threads::real_id(id as u32) as usize;
    }
    call.pass_with(nr, args)
}

fn get(call: &mut Call) -> Outcome {
    match call.pass() {
        Outcome::Value(id @ 1..) => Outcome::Value(threads::application_id(id as u32) as isize),
        other => other,
    }
}

fn set_extended(call: &mut Call) -> Outcome {
    let (fd, address) = (call.int(0), call.args()[2]);
    let Ok([kind, id]) = user_copy::read::<[i32; 2]>(address) else {
        return call.pass();
    };
    let id = match kind {
        F_OWNER_PGRP => id,
        _ => threads::real_id(id as u32) as i32,
    };
    Outcome::Value(syscall::set_file_owner(fd, &[kind, id]))
}

fn get_extended(call: &mut Call) -> Outcome {
    let address = call.args()[2];
    let outcome = call.pass();
    if matches!(outcome, Outcome::Value(0)) {
        let [kind, id]: [i32; 2] = call.read(address);
        if kind != F_OWNER_PGRP && id > 0 {
            return call.answer(address, [kind, threads::application_id(id as u32) as i32]);
        }
    }
    outcome
}
