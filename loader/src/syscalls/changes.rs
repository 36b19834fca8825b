//! Calls that change what is in files, or what names lead to: the undo journal notes first what was there.
//!
//! A call that a stop abandons is made again, and noted again then: the journal takes notes of the same thing once
//! in each segment. What is noted of a call that fails does no harm.
//!
//! What the journal's functions return owns no memory: it would be given back here, with the upper half's FS.

use super::{Call, Handler, Outcome};
use crate::state::journal;
use crate::{raw, user, watched};
use core::ffi::CStr;
use core::ops::Range;

pub const HANDLERS: &[(i64, Handler)] = &[
    // What is overwritten is noted in the undo journal first, with the position and length that the call is
    // going to have.
    (libc::SYS_write, write),
    (libc::SYS_writev, write),
    (libc::SYS_pwrite64, pwrite),
    (libc::SYS_pwritev, pwritev),
    (libc::SYS_pwritev2, pwritev),
    (libc::SYS_sendfile, sendfile),
    (libc::SYS_splice, splice),
    (libc::SYS_copy_file_range, copy_file_range),
    // What is cut off, emptied or overwritten is noted in the undo journal first.
    (libc::SYS_ftruncate, ftruncate),
    (libc::SYS_truncate, truncate),
    (libc::SYS_fallocate, fallocate),
    // A file whose name goes is kept beside the journal first, so that a restart has it.
    (libc::SYS_unlink, unlink),
    (libc::SYS_unlinkat, unlink),
    (libc::SYS_rmdir, unlink),
    (libc::SYS_rename, rename),
    (libc::SYS_renameat, rename),
    (libc::SYS_renameat2, rename),
    // The new name is noted in the undo journal: a restart removes it.
    (libc::SYS_link, link),
    (libc::SYS_linkat, link),
    (libc::SYS_symlink, name),
    (libc::SYS_symlinkat, name),
    (libc::SYS_mkdir, name),
    (libc::SYS_mkdirat, name),
];

/// Whether what the call does is to be noted.
fn is_noted(call: &Call) -> bool {
    watched::is_on() && call.in_rank()
}

fn may_change(call: &Call, fd: i32) -> bool {
    watched::may_change(fd) && call.in_rank()
}

/// Passes on a call that may need more room than the disk has: what the journal takes is given back then.
fn pass(call: &mut Call) -> Outcome {
    let outcome = call.pass();
    match needs_room(call, &outcome) {
        true => call.pass(),
        false => outcome,
    }
}

/// Whether a call has failed because the disk is full, and there is room now that the journal took.
pub fn needs_room(call: &Call, outcome: &Outcome) -> bool {
    let full = matches!(outcome, Outcome::Value(result) if is_full(*result));
    full && is_noted(call) && call.thread.on_lower(journal::make_room)
}

fn is_full(result: isize) -> bool {
    result == raw::err(libc::ENOSPC) || result == raw::err(libc::EDQUOT)
}

/// What `write` or `pwrite64` of these arguments has returned, as it would be without the journal: the kernel writes as
/// much as there is room for, and there may be more.
fn whole(call: &mut Call, outcome: Outcome) -> Outcome {
    let (nr, [fd, from, len, at, ..]) = (call.nr() as i64, call.args());
    let done = match outcome {
        Outcome::Value(done @ 1..) if (done as usize) < len => done as usize,
        _ => return outcome,
    };
    let given = || journal::make_room_for(fd as i32);
    if !is_noted(call) || !call.thread.on_lower(given) {
        return outcome;
    }
    let rest = [fd, from + done, len - done, at.wrapping_add(done), 0, 0];
    match call.kernel(nr, rest) {
        more @ 0.. => Outcome::Value(done as isize + more),
        _ => outcome,
    }
}

/// Bytes in the vector of `count` buffers at an address.
fn length_of(vector: usize, count: usize) -> u64 {
    const MOST: usize = 1024; // UIO_MAXIOV: the kernel refuses more
    let buffers =
        (0..count.min(MOST)).map_while(|n| user::read::<[usize; 2]>(vector + n * 16).ok());
    buffers.fold(0, |sum, [_, len]| sum.saturating_add(len as u64))
}

fn write(call: &mut Call) -> Outcome {
    let outcome = noted_write(call);
    match call.nr() as i64 {
        libc::SYS_write => whole(call, outcome),
        _ => outcome,
    }
}

fn noted_write(call: &mut Call) -> Outcome {
    let fd = call.int(0);
    if !may_change(call, fd) {
        return pass(call);
    }
    let (nr, args) = (call.nr() as i64, call.args());
    let len = match nr {
        libc::SYS_writev => length_of(args[1], args[2]),
        _ => args[2] as u64,
    };
    // A file's write does not wait, and another thread must not move the position meanwhile.
    let write = || call.kernel(nr, args);
    let made = call
        .thread
        .on_lower(|| journal::changing_at_position(fd, len, write));
    match made {
        Some(result) if !is_full(result) => Outcome::Value(result),
        _ => pass(call),
    }
}

/// Notes what is in these bytes, and passes the call on.
fn pass_changing(call: &mut Call, fd: i32, bytes: impl FnOnce(&Call) -> Range<u64>) -> Outcome {
    if !may_change(call, fd) {
        return pass(call);
    }
    let bytes = bytes(call);
    call.thread.on_lower(|| journal::changing(fd, bytes));
    pass(call)
}

pub fn span(at: u64, len: u64) -> Range<u64> {
    at..at.saturating_add(len)
}

fn pwrite(call: &mut Call) -> Outcome {
    let [_, _, len, at, ..] = call.args();
    let fd = call.int(0);
    let outcome = pass_changing(call, fd, |_| span(at as u64, len as u64));
    whole(call, outcome)
}

fn pwritev(call: &mut Call) -> Outcome {
    let [_, vector, count, at, ..] = call.args();
    let fd = call.int(0);
    // pwritev2 may be told to use the position.
    let at = match at {
        usize::MAX => position(call, fd),
        at => at as u64,
    };
    pass_changing(call, fd, |_| span(at, length_of(vector, count)))
}

/// The position of an open file; 0 if it has none.
fn position(call: &Call, fd: i32) -> u64 {
    let args = [fd as usize, 0, libc::SEEK_CUR as usize, 0, 0, 0];
    u64::try_from(call.kernel(libc::SYS_lseek, args)).unwrap_or(0)
}

/// Where a call writes that is given a place for a position: at that, or else at the file's own.
fn target(call: &Call, fd: i32, place: usize) -> u64 {
    match place {
        0 => position(call, fd),
        place => user::read(place).unwrap_or(0),
    }
}

fn sendfile(call: &mut Call) -> Outcome {
    let fd = call.int(0);
    let len = call.args()[3] as u64;
    pass_changing(call, fd, |call| span(position(call, fd), len))
}

fn splice(call: &mut Call) -> Outcome {
    let [_, _, _, place, len, _] = call.args();
    let fd = call.int(2);
    pass_changing(call, fd, |call| span(target(call, fd, place), len as u64))
}

fn copy_file_range(call: &mut Call) -> Outcome {
    splice(call)
}

fn ftruncate(call: &mut Call) -> Outcome {
    let (fd, len) = (call.int(0), call.args()[1] as u64);
    pass_changing(call, fd, |_| len..u64::MAX)
}

fn fallocate(call: &mut Call) -> Outcome {
    let [_, _, at, len, ..] = call.args();
    let (fd, mode) = (call.int(0), call.int(1));
    pass_changing(call, fd, |_| allocated(mode, at as u64, len as u64))
}

/// What a call of `fallocate` changes of what is there.
pub fn allocated(mode: i32, at: u64, len: u64) -> Range<u64> {
    const SHIFTS: i32 = libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE;
    const CLEARS: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE;
    match mode {
        mode if mode & SHIFTS != 0 => at..u64::MAX,
        mode if mode & CLEARS != 0 => span(at, len),
        _ => u64::MAX..u64::MAX,
    }
}

fn truncate(call: &mut Call) -> Outcome {
    let [path, len, ..] = call.args();
    let (nr, args) = (call.nr() as i64, call.args());
    let made = note(call, (libc::AT_FDCWD, path), |directory, path| {
        let truncate =
            |whole: &CStr| call.kernel(nr, [whole.as_ptr() as usize, args[1], 0, 0, 0, 0]);
        journal::truncating(directory, path, len as u64, truncate)
    });
    made.flatten()
        .filter(|result| !is_full(*result))
        .map_or_else(|| pass(call), Outcome::Value)
}

/// Does something with a name of the application's, where that is to be noted.
fn note<R>(
    call: &Call,
    (directory, path): (i32, usize),
    work: impl FnOnce(i32, &CStr) -> R,
) -> Option<R> {
    if !is_noted(call) {
        return None;
    }
    let path = user::path(path)?;
    Some(call.thread.on_lower(|| work(directory, path)))
}

fn unlink(call: &mut Call) -> Outcome {
    let [first, second, ..] = call.args();
    let name = match call.nr() as i64 {
        libc::SYS_unlinkat => (first as i32, second),
        _ => (libc::AT_FDCWD, first),
    };
    let (nr, args) = (call.nr() as i64, call.args());
    let made = note(call, name, |directory, path| {
        journal::unlinking(directory, path, || call.kernel(nr, args))
    });
    made.flatten().map_or_else(|| call.pass(), Outcome::Value)
}

/// A call that gives a name to something.
fn name(call: &mut Call) -> Outcome {
    let [first, second, third, ..] = call.args();
    let name = match call.nr() as i64 {
        libc::SYS_mkdir => (libc::AT_FDCWD, first),
        libc::SYS_mkdirat => (first as i32, second),
        libc::SYS_symlinkat => (second as i32, third),
        _ => (libc::AT_FDCWD, second),
    };
    note(call, name, journal::naming);
    pass(call)
}

fn link(call: &mut Call) -> Outcome {
    let [first, second, third, fourth, flags, _] = call.args();
    let (from, to, flags) = match call.nr() as i64 {
        libc::SYS_link => ((libc::AT_FDCWD, first), (libc::AT_FDCWD, second), 0),
        _ => ((first as i32, second), (third as i32, fourth), flags as i32),
    };
    let follow = flags & libc::AT_SYMLINK_FOLLOW != 0;
    let to_path = user::path(to.1).filter(|_| is_noted(call));
    to_path.and_then(|to_path| {
        note(call, from, |directory, path| {
            journal::linking((directory, path), (to.0, to_path), follow);
        })
    });
    pass(call)
}

fn rename(call: &mut Call) -> Outcome {
    let [first, second, third, fourth, flags, _] = call.args();
    let (from, to, flags) = match call.nr() as i64 {
        libc::SYS_rename => ((libc::AT_FDCWD, first), (libc::AT_FDCWD, second), 0),
        libc::SYS_renameat => ((first as i32, second), (third as i32, fourth), 0),
        _ => ((first as i32, second), (third as i32, fourth), flags as u32),
    };
    let exchange = flags & libc::RENAME_EXCHANGE != 0;
    let to_path = user::path(to.1).filter(|_| is_noted(call));
    let (nr, args) = (call.nr() as i64, call.args());
    let made = to_path.and_then(|to_path| {
        note(call, from, |directory, path| {
            let rename = || call.kernel(nr, args);
            journal::renaming((directory, path), (to.0, to_path), exchange, rename)
        })
    });
    made.flatten()
        .filter(|result| !is_full(*result))
        .map_or_else(|| pass(call), Outcome::Value)
}
