//! Paths that mean something else to the application: its MPI library, `/proc/self/exe`, and that with
//! which it asks for a checkpoint.
//!
//! The dynamic linker knows a library by its device and inode, also when it opens it once more under another
//! name, perhaps after a restart. So for those that it gets from us it is told numbers that stay the same
//! wherever, and in which version, Stasis is installed.

use super::files::{returned, Opening};
use super::{fail, Call, Handler, Outcome};
use crate::{asked, facts, hooks, thread, user};
use core::ffi::CStr;
use core::mem::offset_of;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

pub const HANDLERS: &[(i64, Handler)] = &[
    // The MPI library's name leads to the front, `/proc/self/exe` to the application, `/proc/stasis/checkpoint` to
    // the coordinator. What is emptied or made is noted in the undo journal first.
    (libc::SYS_open, open),
    (libc::SYS_openat, openat),
    // A front has the same device and inode in every version of Stasis, for the dynamic linker.
    (libc::SYS_fstat, fstat),
    (libc::SYS_newfstatat, newfstatat),
    // `/proc/self/exe` is the application, not the lower half.
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

fn replacement(path: &CStr) -> Option<&'static CStr> {
    if is_own_exe(path) {
        return Some(facts::program());
    }
    asked::instead_of(path)
}

fn open_at(call: &mut Call, position: usize) -> Outcome {
    let (nr, mut args) = (call.nr(), call.args());
    let linker = facts::in_interpreter(call.frame().regs.rip);
    let path = user::path(args[position]);
    let library = path.filter(|_| linker).and_then(hooks::redirect);
    let other = library.or_else(|| path.and_then(replacement));
    if let Some(path) = other {
        args[position] = path.as_ptr() as usize;
    }
    let (outcome, opening) = Opening::run(call, nr, args, position);
    let opened = matches!(outcome, Outcome::Value(fd) if fd >= 0);
    if opened && other == Some(asked::NOTHING) {
        asked::by_program();
    }
    let outcome = returned(call, outcome);
    opening.end(call, &outcome);
    if let (true, true, Outcome::Value(fd)) = (opened, linker, &outcome) {
        opened_by_linker(*fd as i32, library);
    }
    outcome
}

fn open(call: &mut Call) -> Outcome {
    open_at(call, 0)
}

fn openat(call: &mut Call) -> Outcome {
    open_at(call, 1)
}

fn fstat(call: &mut Call) -> Outcome {
    let [fd, facts, ..] = call.args();
    stat_of(call, fd, facts)
}

/// How C libraries from 2.33 on ask about a descriptor: with an empty path.
fn newfstatat(call: &mut Call) -> Outcome {
    let [fd, _, facts, flags, ..] = call.args();
    match flags as i32 & libc::AT_EMPTY_PATH {
        0 => call.pass(),
        _ => stat_of(call, fd, facts),
    }
}

/// What the kernel says of a descriptor, but for the one by which the dynamic linker loads a library of ours.
fn stat_of(call: &mut Call, fd: usize, facts: usize) -> Outcome {
    let outcome = call.pass();
    let loading = LOADING.load(Ordering::Relaxed) == fd as i32;
    let linker = facts::in_interpreter(call.frame().regs.rip);
    if let (true, true, Outcome::Value(0)) = (loading, linker, &outcome) {
        let (device, inode) = (
            offset_of!(libc::stat, st_dev),
            offset_of!(libc::stat, st_ino),
        );
        // The kernel has written there just now.
        let _ = call.answer(facts + device, OUR_DEVICE);
        let _ = call.answer(facts + inode, LIBRARY.load(Ordering::Relaxed));
    }
    outcome
}

/// No file system has this device number.
const OUR_DEVICE: u64 = u64::from_le_bytes(*b"STASIS\0\0");

/// The descriptor by which the dynamic linker, which holds a lock meanwhile, loads a library of ours.
static LOADING: AtomicI32 = AtomicI32::new(-1);

/// The number of that library.
static LIBRARY: AtomicU64 = AtomicU64::new(0);

/// The dynamic linker has opened a file; `ours` is the one it got instead of another.
fn opened_by_linker(fd: i32, ours: Option<&CStr>) {
    match ours {
        Some(file) => {
            LIBRARY.store(number_of(file), Ordering::Relaxed);
            LOADING.store(fd, Ordering::Relaxed);
        }
        None => {
            let _ = LOADING.compare_exchange(fd, -1, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

/// A number that belongs to the name of a file, wherever it lies (FNV-1a).
fn number_of(file: &CStr) -> u64 {
    let path = file.to_bytes();
    let name = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
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
