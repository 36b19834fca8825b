//! Redirected paths: the program's MPI library, `/proc/self/exe`, the process's own directory below `/proc`, and the
//! path by which the program requests a checkpoint.
//!
//! The dynamic linker identifies a library by its device and inode, also when it opens it again under another name,
//! perhaps after a restart. So it gets numbers for redirected libraries that do not depend on the place and version of
//! the Stasis installation.

use super::files::{returned, Opening};
use super::{fail, Call, Handler, Outcome};
use crate::interpose::signals::checkpoint_request;
use crate::interpose::{hooks, threads};
use crate::load::program_info;
use crate::sys::syscall::err;
use crate::sys::{user_copy, vectors};
use contract::{gate, CUDA, CUDA_DRIVER};
use core::ffi::CStr;
use core::mem::offset_of;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::io::Write;

pub const HANDLERS: &[(i64, Handler)] = &[
    // The MPI library's name leads to the front, `/proc/self/exe` to the application, the process's number before a
    // restart to `/proc/self`, `/proc/stasis/checkpoint` to the coordinator. The undo journal first records what the
    // call truncates or creates.
    (libc::SYS_open, open),
    (libc::SYS_openat, openat),
    // A front has the same device and inode in every version of Stasis, for the dynamic linker.
    (libc::SYS_fstat, fstat),
    (libc::SYS_newfstatat, newfstatat),
    // `/proc/self/exe` is the application, not the lower half; the numbers of before a restart lead to this process.
    (libc::SYS_readlink, readlink),
    (libc::SYS_readlinkat, readlinkat),
    // A path below `/proc` that names this process or a thread of it by a number of before a restart leads to it.
    (libc::SYS_stat, first_path),
    (libc::SYS_lstat, first_path),
    (libc::SYS_access, first_path),
    (libc::SYS_faccessat, second_path),
    (libc::SYS_faccessat2, second_path),
    (libc::SYS_statx, statx),
];

/// The number at the start of a path below `/proc`, and the rest of the path.
fn leading_number(path: &[u8]) -> Option<(u32, &[u8])> {
    let digits = path.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = path.split_at(digits);
    let number = number.iter().fold(0u32, |n, d| {
        n.wrapping_mul(10).wrapping_add(u32::from(d & 15))
    });
    let whole = (1..10).contains(&digits) && matches!(rest.first(), None | Some(b'/'));
    whole.then_some((number, rest))
}

/// The process that a path below `/proc` names, and the rest of the path.
fn process_named(path: &CStr) -> Option<(u32, &[u8])> {
    leading_number(path.to_bytes().strip_prefix(b"/proc/")?)
}

/// Whether the path names this process's program: `/proc/self/exe` and its equivalents.
pub fn is_own_exe(path: &CStr) -> bool {
    match process_named(path) {
        Some((number, rest)) => rest == b"/exe" && number == threads::virtual_pid(),
        None => [&b"/proc/self/exe"[..], b"/proc/thread-self/exe"].contains(&path.to_bytes()),
    }
}

/// Room for a path below `/proc/self`.
type OwnPath = [u8; 96];

/// The path below `/proc/self` for one that names this process or a thread of it by a number of before the restart.
fn of_own_number(path: &CStr, room: &mut OwnPath) -> bool {
    // Nothing allocates here, or fails when there is room.
    own_path(path, room).is_some()
}

fn own_path(path: &CStr, mut room: &mut [u8]) -> Option<()> {
    const SELF: &[u8] = b"/proc/self";
    let named = process_named(path);
    let names_process = named.is_some_and(|(number, _)| number == threads::virtual_pid());
    let (thread, rest) = match named {
        Some((_, rest)) if names_process => (None, rest),
        Some((number, rest)) => (Some(number), rest),
        None => (None, path.to_bytes().strip_prefix(SELF)?),
    };
    let (thread, rest) = match (thread, rest.strip_prefix(b"/task/")) {
        (None, Some(below)) => {
            leading_number(below).map_or((None, rest), |(tid, rest)| (Some(tid), rest))
        }
        _ => (thread, rest),
    };
    if named.is_none() && thread.is_none() {
        return None;
    }
    room.write_all(SELF).ok()?;
    if let Some(thread) = thread {
        let real = match threads::find(thread) {
            Some(known) => known.real_tid.load(Ordering::Relaxed),
            // The kernel's number, from a list of the folder, as CUDA's driver reads it to find its own thread.
            None if names_process => thread,
            None => return None,
        };
        write!(room, "/task/{real}").ok()?;
    }
    room.write_all(rest).ok()?;
    room.write_all(&[0]).ok()
}

/// Whether the numbers of this process and its threads are others than the kernel's.
fn was_restarted() -> bool {
    threads::virtual_pid() != threads::real_pid()
}

/// Serves a call on a file whose path is the argument at this position, and which opens none. The kernel sees the path
/// first, as in [`open_at`].
fn by_path(call: &mut Call, position: usize) -> Outcome {
    let (nr, mut args) = (call.nr(), call.args());
    let outcome = call.pass();
    let is_seen = matches!(outcome, Outcome::Value(result) if result != err(libc::EFAULT));
    if !is_seen || !was_restarted() || !is_in_proc(call, args[position]) {
        return outcome;
    }
    let mut own = [0; size_of::<OwnPath>()];
    let path = user_copy::path(args[position]);
    if !path.is_some_and(|path| vectors::kept(|| of_own_number(path, &mut own))) {
        return outcome;
    }
    args[position] = own.as_ptr() as usize;
    call.pass_with(nr, args)
}

fn first_path(call: &mut Call) -> Outcome {
    by_path(call, 0)
}

fn second_path(call: &mut Call) -> Outcome {
    by_path(call, 1)
}

/// The path may be a null pointer where the call is on the descriptor itself.
fn statx(call: &mut Call) -> Outcome {
    match call.int(2) & libc::AT_EMPTY_PATH {
        0 => by_path(call, 1),
        _ => call.pass(),
    }
}

fn replacement(path: &CStr) -> Option<&'static CStr> {
    if is_own_exe(path) {
        return Some(program_info::program());
    }
    checkpoint_request::instead_of(path)
}

/// Whether a path lies below `/proc`, where those are that [`replacement`] replaces. The kernel has read it in this
/// call.
fn is_in_proc(call: &Call, path: usize) -> bool {
    let mut expected = b"/proc/".iter().enumerate();
    expected.all(|(at, byte)| call.read::<u8>(path + at) == *byte)
}

/// Serves a call that opens the file whose path is the argument at this position. A check of the path's address costs a
/// system call of its own, so the kernel sees most paths first.
fn open_at(call: &mut Call, position: usize) -> Outcome {
    let (nr, args) = (call.nr(), call.args());
    let linker = program_info::in_interpreter(call.frame().regs.rip);
    let flags = args[position + 1] as i32;
    if linker || flags & (libc::O_CREAT | libc::O_TRUNC) != 0 {
        return open_by_name(call, position, linker);
    }
    let (outcome, opening) = Opening::run(call, nr, args, position);
    let Outcome::Value(result) = outcome else {
        return outcome;
    };
    if result != err(libc::EFAULT) && is_in_proc(call, args[position]) {
        if result >= 0 {
            call.kernel(libc::SYS_close, [result as usize, 0, 0, 0, 0, 0]);
        }
        return open_by_name(call, position, linker);
    }
    let outcome = returned(call, outcome);
    opening.end(call, &outcome);
    outcome
}

/// As [`open_at`], with a look at the path first. `linker`: the dynamic linker makes the call.
fn open_by_name(call: &mut Call, position: usize, linker: bool) -> Outcome {
    let (nr, mut args) = (call.nr(), call.args());
    let path = user_copy::path(args[position]);
    // Names are compared by the C library.
    let mut own = [0; size_of::<OwnPath>()];
    let (library, other) = vectors::kept(|| {
        let library = path.filter(|_| linker).and_then(hooks::redirect);
        (library, library.or_else(|| path.and_then(replacement)))
    });
    if let Some(path) = other {
        args[position] = path.as_ptr() as usize;
    } else if was_restarted()
        && path.is_some_and(|path| vectors::kept(|| of_own_number(path, &mut own)))
    {
        args[position] = own.as_ptr() as usize;
    }
    let (outcome, opening) = Opening::run(call, nr, args, position);
    let opened = matches!(outcome, Outcome::Value(fd) if fd >= 0);
    if opened && other == Some(checkpoint_request::NOTHING) {
        checkpoint_request::by_program();
    }
    let outcome = returned(call, outcome);
    opening.end(call, &outcome);
    if let (true, true, Outcome::Value(fd)) = (opened, linker, &outcome) {
        opened_by_linker(*fd as i32, library);
        if path.is_some_and(|path| vectors::kept(|| is_cuda_driver(path))) {
            loads_cuda();
        }
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

/// C libraries from 2.33 on query a descriptor by this call with an empty path.
fn newfstatat(call: &mut Call) -> Outcome {
    let [fd, _, facts, flags, ..] = call.args();
    match flags as i32 & libc::AT_EMPTY_PATH {
        0 => by_path(call, 1),
        _ => stat_of(call, fd, facts),
    }
}

/// Attributes from the kernel, except for the descriptor by which the dynamic linker loads a library of Stasis.
fn stat_of(call: &mut Call, fd: usize, facts: usize) -> Outcome {
    let outcome = call.pass();
    let loading = LOADING.load(Ordering::Relaxed) == fd as i32;
    let linker = program_info::in_interpreter(call.frame().regs.rip);
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

/// Device number that no file system has.
const OUR_DEVICE: u64 = u64::from_le_bytes(*b"STASIS\0\0");

/// Descriptor by which the dynamic linker, under its lock, loads a library of Stasis.
static LOADING: AtomicI32 = AtomicI32::new(-1);

/// Number of that library.
static LIBRARY: AtomicU64 = AtomicU64::new(0);

/// Records that the dynamic linker has opened a file; `ours` is its replacement, if any.
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

fn is_cuda_driver(path: &CStr) -> bool {
    file_name(path) == CUDA_DRIVER.to_bytes()
}

/// Tells the upper half that the program loads CUDA's driver. One that starts later looks for itself.
fn loads_cuda() {
    let word = gate().tools.load(Ordering::Acquire) as *const AtomicU32;
    // SAFETY: a word of the upper half, which is never unloaded; or null.
    if let Some(word) = unsafe { word.as_ref() } {
        word.fetch_or(CUDA, Ordering::Relaxed);
    }
}

fn file_name(file: &CStr) -> &[u8] {
    let path = file.to_bytes();
    path.rsplit(|&b| b == b'/').next().unwrap_or(path)
}

/// Number of a file name, independent of its directory (FNV-1a).
fn number_of(file: &CStr) -> u64 {
    file_name(file)
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

fn read_link(call: &mut Call, position: usize) -> Outcome {
    let args = call.args();
    let outcome = by_path(call, position);
    if !matches!(outcome, Outcome::Value(result) if result != err(libc::EFAULT))
        || !is_in_proc(call, args[position])
    {
        return outcome;
    }
    let (buffer, size) = (args[position + 1], args[position + 2]);
    match user_copy::path(args[position]) {
        Some(path) if vectors::kept(|| is_own_exe(path)) && size as isize > 0 => {
            let target = program_info::program().to_bytes();
            let len = target.len().min(size);
            match user_copy::write_bytes(buffer, &target[..len]) {
                Ok(()) => Outcome::Value(len as isize),
                Err(_) => fail(libc::EFAULT),
            }
        }
        _ => outcome,
    }
}

fn readlink(call: &mut Call) -> Outcome {
    read_link(call, 0)
}

fn readlinkat(call: &mut Call) -> Outcome {
    read_link(call, 1)
}
