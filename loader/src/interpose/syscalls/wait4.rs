//! Waits for children. Those that ended before a restart come first, from the image; the kernel serves the others
//! (ECHILD for children that lived at the checkpoint).

use super::{Call, Handler, Outcome};
use crate::interpose::children::{self, Ended};

pub const HANDLERS: &[(i64, Handler)] = &[
    // Children that had ended before a restart come first, from the image.
    (libc::SYS_wait4, wait4),
    (libc::SYS_waitid, waitid),
];

/// `struct rusage` in words; a child's resource usage is not saved.
type Usage = [usize; 18];

/// Status word of an ended process, as `wait` returns it.
fn word(child: &Ended) -> i32 {
    const CORE: i32 = 0x80;
    match child.code {
        libc::CLD_EXITED => (child.status & 0xff) << 8,
        libc::CLD_DUMPED => child.status | CORE,
        _ => child.status,
    }
}

/// `result` if both answers could be written, else the error.
fn both(first: Outcome, second: Outcome, result: isize) -> Outcome {
    match (first, second) {
        (Outcome::Value(0), Outcome::Value(0)) => Outcome::Value(result),
        (Outcome::Value(0), failed) | (failed, _) => failed,
    }
}

fn wait4(call: &mut Call) -> Outcome {
    let [_, status, _, usage, ..] = call.args();
    let wanted = match call.int(0) {
        pid if pid > 0 => Some(pid),
        // Any child, or any of the caller's process group, which is that of a new child.
        -1 | 0 => None,
        _ => return call.pass(),
    };
    if !call.in_rank() {
        return call.pass();
    }
    let Some(child) = children::from_before(wanted, true) else {
        return call.pass();
    };
    let told = call.answer(status, word(&child));
    both(
        told,
        call.answer::<Usage>(usage, [0; 18]),
        child.pid as isize,
    )
}

fn waitid(call: &mut Call) -> Outcome {
    // struct siginfo in units of 32 bits.
    const SIGNAL: usize = 0;
    const CODE: usize = 2;
    const PID: usize = 4;
    const UID: usize = 5;
    const STATUS: usize = 6;
    let [_, id, info, _, usage, _] = call.args();
    let options = call.int(3);
    let wanted = match call.int(0) as libc::idtype_t {
        libc::P_ALL => None,
        libc::P_PID => Some(id as i32),
        libc::P_PGID if id == 0 => None,
        _ => return call.pass(),
    };
    if options & libc::WEXITED == 0 || !call.in_rank() {
        return call.pass();
    }
    let Some(child) = children::from_before(wanted, options & libc::WNOWAIT == 0) else {
        return call.pass();
    };
    let mut told = [0i32; 32];
    told[SIGNAL] = libc::SIGCHLD;
    told[CODE] = child.code;
    told[PID] = child.pid;
    told[UID] = child.uid as i32;
    told[STATUS] = child.status;
    let told = call.answer(info, told);
    both(told, call.answer::<Usage>(usage, [0; 18]), 0)
}
