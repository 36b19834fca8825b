//! Paths that mean something else to the application: its MPI library, `/proc/self/exe`, and that with
//! which it asks for a checkpoint.

use super::files::returned;
use super::{fail, Call, Handler, Outcome};
use crate::{asked, facts, hooks, thread, user};
use core::ffi::CStr;

pub const HANDLERS: &[(i64, Handler)] = &[
    (libc::SYS_open, open),
    (libc::SYS_openat, openat),
    (libc::SYS_readlink, readlink),
    (libc::SYS_readlinkat, readlinkat),
];

/// Whether the path names this process's program: `/proc/self/exe` and its like.
pub fn is_own_exe(path: &CStr) -> bool {
    let Some(rest) = path.to_bytes().strip_prefix(b"/proc/") else {
        return false;
    };
    let Some(who) = rest.strip_suffix(b"/exe") else {
        return false;
    };
    who == b"self" || who == b"thread-self" || {
        let digits = !who.is_empty() && who.len() < 10 && who.iter().all(u8::is_ascii_digit);
        let number = who.iter().fold(0u32, |n, d| {
            n.wrapping_mul(10).wrapping_add(u32::from(d & 15))
        });
        digits && number == thread::virtual_pid()
    }
}

fn replacement(call: &mut Call, address: usize) -> Option<&'static CStr> {
    let path = user::path(address)?;
    if facts::in_interpreter(call.frame().regs.rip) {
        if let Some(other) = hooks::redirect(path) {
            return Some(other);
        }
    }
    if is_own_exe(path) {
        return Some(facts::program());
    }
    asked::instead_of(path)
}

fn open_at(call: &mut Call, position: usize) -> Outcome {
    let (nr, mut args) = (call.nr(), call.args());
    let other = replacement(call, args[position]);
    if let Some(path) = other {
        args[position] = path.as_ptr() as usize;
    }
    let outcome = call.pass_with(nr, args);
    if other == Some(asked::NOTHING) && matches!(outcome, Outcome::Value(fd) if fd >= 0) {
        asked::by_program();
    }
    returned(call, outcome)
}

fn open(call: &mut Call) -> Outcome {
    open_at(call, 0)
}

fn openat(call: &mut Call) -> Outcome {
    open_at(call, 1)
}

fn read_link(call: &mut Call, position: usize) -> Outcome {
    let args = call.args();
    let (buffer, size) = (args[position + 1], args[position + 2]);
    match user::path(args[position]) {
        Some(path) if is_own_exe(path) && size as isize > 0 => {
            let target = facts::program().to_bytes();
            let len = target.len().min(size);
            match user::write_bytes(buffer, &target[..len]) {
                Ok(()) => Outcome::Value(len as isize),
                Err(_) => fail(libc::EFAULT),
            }
        }
        _ => call.pass(),
    }
}

fn readlink(call: &mut Call) -> Outcome {
    read_link(call, 0)
}

fn readlinkat(call: &mut Call) -> Outcome {
    read_link(call, 1)
}
