//! Calls that change the content of files or the targets of names. The undo journal first records the old state.
//!
//! A call that a stop abandons is made again and recorded again: the journal records the same bytes once in each
//! segment. The record of a call that fails is harmless.
//!
//! The values that the journal's functions return own no memory: it would be freed here, with the upper half's FS.

use super::{Call, Handler, Outcome};
use crate::interpose::file_changes::ranges::{allocated, cloned, span};
use crate::interpose::file_changes::{app_changes, journal, watched_fds};
use crate::sys::{syscall, user_copy};
use core::ffi::CStr;
use core::ops::Range;

pub const HANDLERS: &[(i64, Handler)] = &[
    // The undo journal first records the bytes that the call overwrites, at the position and length that it will have.
    (libc::SYS_write, write),
    (libc::SYS_writev, write),
    (libc::SYS_pwrite64, pwrite),
    (libc::SYS_pwritev, pwritev),
    (libc::SYS_pwritev2, pwritev),
    (libc::SYS_sendfile, sendfile),
    (libc::SYS_splice, splice),
    (libc::SYS_copy_file_range, copy_file_range),
    // The undo journal first records the bytes that the call truncates or overwrites.
    (libc::SYS_ftruncate, ftruncate),
    (libc::SYS_truncate, truncate),
    (libc::SYS_fallocate, fallocate),
    // The undo journal first records the bytes that a clone of another file (FICLONE, FICLONERANGE) replaces.
    (libc::SYS_ioctl, ioctl),
    // A file that loses its name is first kept beside the journal, for a restart.
    (libc::SYS_unlink, unlink),
    (libc::SYS_unlinkat, unlink),
    (libc::SYS_rmdir, unlink),
    (libc::SYS_rename, rename),
    (libc::SYS_renameat, rename),
    (libc::SYS_renameat2, rename),
    // The undo journal records the new name: a restart removes it.
    (libc::SYS_link, link),
    (libc::SYS_linkat, link),
    (libc::SYS_symlink, name),
    (libc::SYS_symlinkat, name),
    (libc::SYS_mkdir, name),
    (libc::SYS_mkdirat, name),
    (libc::SYS_mknod, name),
    (libc::SYS_mknodat, name),
    (libc::SYS_bind, bind),
    // The undo journal first records the access rights.
    (libc::SYS_chmod, chmod),
    (libc::SYS_fchmod, chmod),
    (libc::SYS_fchmodat, chmod),
    (libc::SYS_fchmodat2, chmod),
];

/// Whether the call's changes are to be journaled.
fn is_noted(call: &Call) -> bool {
    watched_fds::is_on() && call.in_rank()
}

fn may_change(call: &Call, fd: i32) -> bool {
    watched_fds::may_change(fd) && call.in_rank()
}

fn may_overwrite(call: &Call, fd: i32) -> bool {
    watched_fds::may_overwrite(fd) && call.in_rank()
}

/// Makes a call that may find the disk full, and then frees the space of the journal.
fn pass(call: &mut Call) -> Outcome {
    let outcome = call.pass();
    match needs_room(call, &outcome) {
        true => call.pass(),
        false => outcome,
    }
}

/// Whether a call has failed because the disk is full, and the journal's space could be freed.
pub fn needs_room(call: &Call, outcome: &Outcome) -> bool {
    let full = matches!(outcome, Outcome::Value(result) if is_full(*result));
    full && is_noted(call) && call.thread.on_lower(journal::make_room)
}

fn is_full(result: isize) -> bool {
    result == syscall::err(libc::ENOSPC) || result == syscall::err(libc::EDQUOT)
}

/// Completes the result of `write` or `pwrite64` to its value without the journal: after a short write, freed space may
/// allow more.
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
        (0..count.min(MOST)).map_while(|n| user_copy::read::<[usize; 2]>(vector + n * 16).ok());
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
    if !may_overwrite(call, fd) {
        return pass(call);
    }
    let (nr, args) = (call.nr() as i64, call.args());
    let len = match nr {
        libc::SYS_writev => length_of(args[1], args[2]),
        _ => args[2] as u64,
    };
    // A write to a file does not block, and another thread must not move the position meanwhile.
    let write = || call.kernel(nr, args);
    let made = call
        .thread
        .on_lower(|| app_changes::changing_at_position(fd, len, write));
    match made {
        Some(result) if !is_full(result) => Outcome::Value(result),
        _ => pass(call),
    }
}

/// Journals these bytes and makes the call, which writes.
fn pass_writing(call: &mut Call, fd: i32, bytes: impl FnOnce(&Call) -> Range<u64>) -> Outcome {
    match may_overwrite(call, fd) {
        true => pass_changing(call, fd, bytes),
        false => pass(call),
    }
}

/// Journals these bytes and makes the call.
fn pass_changing(call: &mut Call, fd: i32, bytes: impl FnOnce(&Call) -> Range<u64>) -> Outcome {
    if !may_change(call, fd) {
        return pass(call);
    }
    let bytes = bytes(call);
    call.thread.on_lower(|| app_changes::changing(fd, bytes));
    pass(call)
}

fn pwrite(call: &mut Call) -> Outcome {
    let [_, _, len, at, ..] = call.args();
    let fd = call.int(0);
    let outcome = pass_writing(call, fd, |_| span(at as u64, len as u64));
    whole(call, outcome)
}

fn pwritev(call: &mut Call) -> Outcome {
    const NO_APPEND: usize = 0x20; // RWF_NOAPPEND, since Linux 6.9
    let [_, vector, count, at, _, flags] = call.args();
    let fd = call.int(0);
    // pwritev2 uses the position for -1.
    let at = match at {
        usize::MAX => position(call, fd),
        at => at as u64,
    };
    let bytes = |_: &Call| span(at, length_of(vector, count));
    match call.nr() as i64 == libc::SYS_pwritev2 && flags & NO_APPEND != 0 {
        true => pass_changing(call, fd, bytes),
        false => pass_writing(call, fd, bytes),
    }
}

/// Position of an open file; 0 if it has none.
fn position(call: &Call, fd: i32) -> u64 {
    let args = [fd as usize, 0, libc::SEEK_CUR as usize, 0, 0, 0];
    u64::try_from(call.kernel(libc::SYS_lseek, args)).unwrap_or(0)
}

/// Offset of a call's write: its argument, or the file's position if that is none.
fn target(call: &Call, fd: i32, place: usize) -> u64 {
    match place {
        0 => position(call, fd),
        place => user_copy::read(place).unwrap_or(0),
    }
}

fn sendfile(call: &mut Call) -> Outcome {
    let fd = call.int(0);
    let len = call.args()[3] as u64;
    pass_writing(call, fd, |call| span(position(call, fd), len))
}

fn splice(call: &mut Call) -> Outcome {
    let [_, _, _, place, len, _] = call.args();
    let fd = call.int(2);
    pass_writing(call, fd, |call| span(target(call, fd, place), len as u64))
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

/// FIDEDUPERANGE changes no content: it shares bytes that are equal.
fn ioctl(call: &mut Call) -> Outcome {
    let (fd, argument) = (call.int(0), call.args()[2]);
    match call.int(1) as u32 as libc::Ioctl {
        libc::FICLONE => pass_changing(call, fd, |_| cloned(0, 0)),
        libc::FICLONERANGE => pass_changing(call, fd, |_| {
            // The source, the offset there, the length, and the offset here. If they are unreadable, the call fails.
            let [_, _, len, at] = user_copy::read::<[u64; 4]>(argument).unwrap_or([u64::MAX; 4]);
            cloned(at, len)
        }),
        _ => call.pass(),
    }
}

fn truncate(call: &mut Call) -> Outcome {
    let [path, len, ..] = call.args();
    let (nr, args) = (call.nr() as i64, call.args());
    let made = note(call, (libc::AT_FDCWD, path), |directory, path| {
        let truncate =
            |whole: &CStr| call.kernel(nr, [whole.as_ptr() as usize, args[1], 0, 0, 0, 0]);
        app_changes::truncating(directory, path, len as u64, truncate)
    });
    made.flatten()
        .filter(|result| !is_full(*result))
        .map_or_else(|| pass(call), Outcome::Value)
}

/// Applies `work` to a name argument of the application, if it is to be journaled.
fn note<R>(
    call: &Call,
    (directory, path): (i32, usize),
    work: impl FnOnce(i32, &CStr) -> R,
) -> Option<R> {
    if !is_noted(call) {
        return None;
    }
    let path = user_copy::path(path)?;
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
        app_changes::unlinking(directory, path, || call.kernel(nr, args))
    });
    made.flatten().map_or_else(|| call.pass(), Outcome::Value)
}

/// Serves a call that creates a name.
fn name(call: &mut Call) -> Outcome {
    let [first, second, third, ..] = call.args();
    let name = match call.nr() as i64 {
        libc::SYS_mkdir | libc::SYS_mknod => (libc::AT_FDCWD, first),
        libc::SYS_mkdirat | libc::SYS_mknodat => (first as i32, second),
        libc::SYS_symlinkat => (second as i32, third),
        _ => (libc::AT_FDCWD, second),
    };
    note(call, name, app_changes::naming);
    pass(call)
}

/// A local socket gets a name, unless that begins with a NUL.
fn bind(call: &mut Call) -> Outcome {
    const LOCAL: u16 = libc::AF_UNIX as u16;
    let [_, address, len, ..] = call.args();
    if is_noted(call) && user_copy::read::<u16>(address) == Ok(LOCAL) {
        // The kernel takes a name without a NUL at its end, too.
        let mut name = [0_u8; size_of::<libc::sockaddr_un>()];
        let bytes = (address + size_of::<u16>()..address + len.min(name.len() - 1))
            .map_while(|at| user_copy::read::<u8>(at).ok());
        for (byte, given) in name.iter_mut().zip(bytes) {
            *byte = given;
        }
        if let Some(path) = CStr::from_bytes_until_nul(&name)
            .ok()
            .filter(|path| !path.is_empty())
        {
            call.thread
                .on_lower(|| app_changes::naming(libc::AT_FDCWD, path));
        }
    }
    pass(call)
}

fn chmod(call: &mut Call) -> Outcome {
    let [first, second, _, flags, ..] = call.args();
    let nr = call.nr() as i64;
    let (directory, path, flags) = match nr {
        libc::SYS_chmod => (libc::AT_FDCWD, first, 0),
        libc::SYS_fchmodat => (first as i32, second, 0),
        _ => (first as i32, second, flags as i32),
    };
    let of_fd = nr == libc::SYS_fchmod
        || flags & libc::AT_EMPTY_PATH != 0 && user_copy::path(path).is_none_or(CStr::is_empty);
    match of_fd {
        true if is_noted(call) => call
            .thread
            .on_lower(|| app_changes::changing_mode_of(directory)),
        true => {}
        false => {
            let follow = flags & libc::AT_SYMLINK_NOFOLLOW == 0;
            note(call, (directory, path), |directory, path| {
                app_changes::changing_mode(directory, path, follow);
            });
        }
    }
    pass(call)
}

fn link(call: &mut Call) -> Outcome {
    let [first, second, third, fourth, flags, _] = call.args();
    let (from, to, flags) = match call.nr() as i64 {
        libc::SYS_link => ((libc::AT_FDCWD, first), (libc::AT_FDCWD, second), 0),
        _ => ((first as i32, second), (third as i32, fourth), flags as i32),
    };
    let follow = flags & libc::AT_SYMLINK_FOLLOW != 0;
    let to_path = user_copy::path(to.1).filter(|_| is_noted(call));
    to_path.and_then(|to_path| {
        note(call, from, |directory, path| {
            app_changes::linking((directory, path), (to.0, to_path), follow);
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
    let to_path = user_copy::path(to.1).filter(|_| is_noted(call));
    let (nr, args) = (call.nr() as i64, call.args());
    let made = to_path.and_then(|to_path| {
        note(call, from, |directory, path| {
            let rename = || call.kernel(nr, args);
            app_changes::renaming((directory, path), (to.0, to_path), exchange, rename)
        })
    });
    made.flatten()
        .filter(|result| !is_full(*result))
        .map_or_else(|| pass(call), Outcome::Value)
}
