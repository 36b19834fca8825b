//! Calls that create, duplicate and close descriptors. Returned descriptors belong to the application, which can close
//! no others.

use super::file_changes::needs_room;
use super::{fail, file_owner, Call, Handler, Outcome};
use crate::interpose::descriptors::{closed_stdio, fd_owner, socketpair_registry};
use crate::interpose::file_changes::app_changes::{self, Left, Made};
use crate::interpose::file_changes::opened_for_write::note_opened;
use crate::interpose::file_changes::watched_fds;
use crate::sys::{syscall, user_copy};
use core::ffi::CStr;

pub const HANDLERS: &[(i64, Handler)] = &[
    // As `open`: the undo journal first records what the call truncates or creates.
    (libc::SYS_creat, creat),
    (libc::SYS_openat2, openat2),
    (libc::SYS_open_by_handle_at, open_by_handle_at),
    // The new descriptor is the application's: it may close it, and a checkpoint saves it.
    (libc::SYS_socket, new_fd),
    (libc::SYS_accept, new_fd),
    (libc::SYS_accept4, new_fd),
    (libc::SYS_epoll_create, new_fd),
    (libc::SYS_epoll_create1, new_fd),
    (libc::SYS_eventfd, new_fd),
    (libc::SYS_eventfd2, new_fd),
    (libc::SYS_timerfd_create, new_fd),
    (libc::SYS_inotify_init, new_fd),
    (libc::SYS_inotify_init1, new_fd),
    (libc::SYS_fanotify_init, new_fd),
    (libc::SYS_memfd_create, new_fd),
    (libc::SYS_memfd_secret, new_fd),
    (libc::SYS_userfaultfd, new_fd),
    (libc::SYS_perf_event_open, new_fd),
    (libc::SYS_pidfd_getfd, new_fd),
    (libc::SYS_mq_open, new_fd),
    (libc::SYS_bpf, pass_bpf),
    // Both descriptors are the application's; the loader remembers which ones are a pair.
    (libc::SYS_pipe, pipe),
    (libc::SYS_pipe2, pipe),
    (libc::SYS_socketpair, socketpair),
    // Descriptors that arrive in the message are the application's.
    (libc::SYS_recvmsg, recvmsg),
    (libc::SYS_recvmmsg, recvmmsg),
    // The lower half's descriptors cannot be duplicated, replaced, changed or closed (EBADF, EBUSY).
    (libc::SYS_dup, dup),
    (libc::SYS_dup2, dup_onto),
    (libc::SYS_dup3, dup_onto),
    (libc::SYS_close, close),
    (libc::SYS_close_range, close_range),
    // As `dup`: the lower half's descriptors are not the application's. Ids of owners (F_SETOWN, F_GETOWN and their
    // extended forms) are translated.
    (libc::SYS_fcntl, fcntl),
];

/// Records a returned descriptor. A vfork child has its own descriptor table but shares this memory, so nothing is
/// recorded for it.
pub fn returned(call: &Call, outcome: Outcome) -> Outcome {
    returned_from(call, outcome, 0)
}

/// As [`returned`], for a call that returns the lowest free number from `least` on.
fn returned_from(call: &Call, outcome: Outcome, least: i32) -> Outcome {
    match outcome {
        Outcome::Value(fd) if fd >= 0 && !call.vforked() => {
            Outcome::Value(take(fd as i32, least) as isize)
        }
        other => other,
    }
}

fn take(fd: i32, least: i32) -> i32 {
    let fd = closed_stdio::move_to_lowest(fd, least);
    fd_owner::own(fd);
    fd
}

/// A file that is being opened, perhaps for writing.
pub struct Opening {
    made: Made,
    /// Time before its creation.
    since: u64,
    writable: bool,
}

impl Opening {
    /// Attempts, because other processes may create and remove the file again and again.
    const TRIES: u32 = 100;

    /// Journals what the call creates or truncates, or has overlayfs copy. Returns the result of the call (`nr`, with
    /// these arguments) if that was made. None if the open must start again.
    fn begin(
        call: &Call,
        (directory, path): (i32, usize),
        flags: i32,
        (nr, args, position): (usize, [usize; 6], Option<usize>),
    ) -> Option<(Opening, Option<Outcome>)> {
        let unnoted = Opening::unnoted(flags);
        let changes = unnoted.writable || flags & (libc::O_CREAT | libc::O_TRUNC) != 0;
        let noted = changes && watched_fds::is_on() && call.in_rank();
        let path = noted.then(|| user_copy::path(path)).flatten();
        let left = path.map(|path| {
            let open = |whole: &CStr, more: i32| {
                let mut args = args;
                if let Some(position) = position {
                    // An absolute path does not depend on the directory.
                    args[position] = whole.as_ptr() as usize;
                    args[position + 1] |= more as usize;
                }
                call.kernel(nr as i64, args)
            };
            let opening = || {
                (
                    undo::now(),
                    app_changes::opening(directory, path, flags, open),
                )
            };
            call.thread.on_lower(opening)
        });
        let (since, left) = left.unwrap_or((0, Left::All(Made::Not)));
        let opening = |made| Opening {
            made,
            since,
            ..unnoted
        };
        match left {
            Left::All(made) => Some((opening(made), None)),
            Left::Nothing(made, result) => Some((opening(made), Some(Outcome::Value(result)))),
            Left::Again => None,
        }
    }

    /// As [`Self::begin`], repeated as often as necessary.
    fn begin_at_last(
        call: &Call,
        name: (i32, usize),
        flags: i32,
        made: (usize, [usize; 6], Option<usize>),
    ) -> (Opening, Option<Outcome>) {
        let mut tries = 0..Opening::TRIES;
        let begun = tries.find_map(|_| Opening::begin(call, name, flags, made));
        begun.unwrap_or_else(|| (Opening::unnoted(flags), None))
    }

    /// Opening of a file without a journal record: the links of its path form a cycle, or other processes change them
    /// all the time.
    fn unnoted(flags: i32) -> Opening {
        Opening {
            made: Made::Not,
            since: 0,
            writable: flags & libc::O_PATH == 0 && flags & libc::O_ACCMODE != libc::O_RDONLY,
        }
    }

    /// Makes a call of `open` or `openat`, whose path is the argument at this position.
    pub fn run(
        call: &mut Call,
        nr: usize,
        mut args: [usize; 6],
        position: usize,
    ) -> (Outcome, Opening) {
        let directory = match position {
            0 => libc::AT_FDCWD,
            _ => args[0] as i32,
        };
        let flags = args[position + 1] as i32;
        for _ in 0..Opening::TRIES {
            let name = (directory, args[position]);
            let made = (nr, args, Some(position));
            let opening = match Opening::begin(call, name, flags, made) {
                None => continue,
                Some((opening, Some(outcome))) => return (outcome, opening),
                Some((opening, None)) => opening,
            };
            let (as_found, otherwise) = match opening.made {
                Made::Exclusively if flags & libc::O_EXCL == 0 => {
                    (flags | libc::O_EXCL, libc::EEXIST)
                }
                Made::There => (flags & !libc::O_CREAT, libc::ENOENT),
                _ => return (pass_with(call, nr, args), opening),
            };
            args[position + 1] = as_found as usize;
            let outcome = pass_with(call, nr, args);
            args[position + 1] = flags as usize;
            match outcome {
                Outcome::Value(result) if result == syscall::err(otherwise) => {}
                outcome => return (outcome, opening),
            }
        }
        (pass_with(call, nr, args), Opening::unnoted(flags))
    }

    /// Records the opened file after the call, because a file closed at a cut has no descriptor.
    pub fn end(&self, call: &Call, outcome: &Outcome) {
        let is_made = matches!(self.made, Made::Exclusively | Made::ByLink);
        let made = is_made.then_some(self.since);
        match outcome {
            Outcome::Value(fd @ 0..) if (self.writable || made.is_some()) && call.in_rank() => {
                call.thread.on_lower(|| {
                    if let Some(found) = note_opened(*fd as i32) {
                        app_changes::opened(*fd as i32, found, made);
                    }
                });
            }
            _ => {}
        }
    }
}

/// Makes a call that may create a file, and frees the journal's space if the disk is full.
fn pass_with(call: &mut Call, nr: usize, args: [usize; 6]) -> Outcome {
    let outcome = call.pass_with(nr, args);
    match needs_room(call, &outcome) {
        true => call.pass_with(nr, args),
        false => outcome,
    }
}

fn creat(call: &mut Call) -> Outcome {
    let [path, mode, ..] = call.args();
    let flags = libc::O_CREAT | libc::O_TRUNC | libc::O_WRONLY;
    let args = [path, flags as usize, mode, 0, 0, 0];
    let (outcome, opening) = Opening::run(call, libc::SYS_open as usize, args, 0);
    let outcome = returned(call, outcome);
    opening.end(call, &outcome);
    outcome
}

fn openat2(call: &mut Call) -> Outcome {
    let [directory, path, how, ..] = call.args();
    // The first word holds the flags; if it is unreadable, the call fails.
    let flags = user_copy::read::<u64>(how).unwrap_or(0) as i32;
    let made = (call.nr(), call.args(), None);
    let (opening, outcome) = Opening::begin_at_last(call, (directory as i32, path), flags, made);
    let outcome = match outcome {
        Some(outcome) => returned(call, outcome),
        None => new_fd(call),
    };
    opening.end(call, &outcome);
    outcome
}

fn open_by_handle_at(call: &mut Call) -> Outcome {
    const NO_PATH: usize = 0;
    let flags = call.int(2);
    let made = (call.nr(), call.args(), None);
    let (opening, _) = Opening::begin_at_last(call, (libc::AT_FDCWD, NO_PATH), flags, made);
    let outcome = new_fd(call);
    opening.end(call, &outcome);
    outcome
}

/// Makes a call that returns a descriptor.
pub fn new_fd(call: &mut Call) -> Outcome {
    let outcome = call.pass();
    returned(call, outcome)
}

fn pass_bpf(call: &mut Call) -> Outcome {
    const RETURN_NO_FD: [i32; 4] = [1, 2, 3, 4]; // the map element commands
    if RETURN_NO_FD.contains(&call.int(0)) {
        return call.pass();
    }
    new_fd(call)
}

fn note_pair(call: &Call, address: usize) {
    if !call.vforked() {
        let pair = call.read::<[i32; 2]>(address);
        // The kernel has written there just now.
        let _ = call.answer(address, pair.map(|fd| take(fd, 0)));
    }
}

fn pipe(call: &mut Call) -> Outcome {
    let (nr, args) = (call.nr() as i64, call.args());
    let result = call.kernel(nr, args);
    if result == 0 {
        note_pair(call, args[0]);
    }
    Outcome::Value(result)
}

fn socketpair(call: &mut Call) -> Outcome {
    let args = call.args();
    let result = call.kernel(libc::SYS_socketpair, args);
    if result == 0 {
        note_pair(call, args[3]);
        if call.in_rank() {
            let [first, second] = call.read::<[i32; 2]>(args[3]);
            socketpair_registry::note(inode(call, first), inode(call, second));
        }
    }
    Outcome::Value(result)
}

fn inode(call: &Call, fd: i32) -> u64 {
    let mut facts = core::mem::MaybeUninit::<libc::stat>::zeroed();
    let at = facts.as_mut_ptr() as usize;
    call.kernel(libc::SYS_fstat, [fd as usize, at, 0, 0, 0, 0]);
    call.read::<libc::stat>(at).st_ino
}

/// Descriptors may arrive in a message.
fn recvmsg(call: &mut Call) -> Outcome {
    let message = call.args()[1];
    let outcome = call.pass();
    if matches!(outcome, Outcome::Value(n) if n >= 0) {
        note_received(call, message);
    }
    outcome
}

fn recvmmsg(call: &mut Call) -> Outcome {
    const MESSAGE: usize = 64; // struct mmsghdr
    let messages = call.args()[1];
    let outcome = call.pass();
    if let Outcome::Value(count @ 1..) = outcome {
        for i in 0..count as usize {
            note_received(call, messages + i * MESSAGE);
        }
    }
    outcome
}

fn note_received(call: &Call, message: usize) {
    const CONTROL: usize = 4; // words into struct msghdr: the control data, then its length
    const HEADER: usize = 16;
    if call.vforked() {
        return;
    }
    let [control, len] = call.read::<[usize; 2]>(message + CONTROL * 8);
    let mut at = 0;
    while control != 0 && at + HEADER <= len {
        let size: usize = call.read(control + at);
        let [level, kind]: [i32; 2] = call.read(control + at + 8);
        if size < HEADER || size > len - at {
            break;
        }
        if level == libc::SOL_SOCKET && kind == libc::SCM_RIGHTS {
            for i in 0..(size - HEADER) / 4 {
                fd_owner::own(call.read(control + at + HEADER + i * 4));
                fd_owner::note_shared();
            }
        }
        at += (size + 7) & !7;
    }
}

/// Whether a descriptor belongs to the lower half, for this caller.
fn is_lowers(call: &Call, fd: i32) -> bool {
    call.in_rank() && !fd_owner::is_owned(fd)
}

fn dup(call: &mut Call) -> Outcome {
    let old = call.int(0);
    if is_lowers(call, old) {
        return fail(libc::EBADF);
    }
    let least = match call.nr() as i64 {
        libc::SYS_fcntl => call.int(2),
        _ => 0,
    };
    let outcome = call.pass();
    returned_from(call, outcome, least)
}

fn dup_onto(call: &mut Call) -> Outcome {
    let (old, new) = (call.int(0), call.int(1));
    if is_lowers(call, old) {
        return fail(libc::EBADF);
    }
    let in_use = [new as usize, libc::F_GETFD as usize, 0, 0, 0, 0];
    let lowers = is_lowers(call, new) && !closed_stdio::is_vacant(new);
    if lowers && !syscall::is_err(syscall::plain(libc::SYS_fcntl, in_use)) {
        return fail(libc::EBUSY);
    }
    let outcome = call.pass();
    returned_from(call, outcome, new)
}

fn fcntl(call: &mut Call) -> Outcome {
    let (fd, command) = (call.int(0), call.int(1));
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => dup(call),
        libc::F_SETFD if is_lowers(call, fd) => fail(libc::EBADF),
        libc::F_SETFL => {
            let ends = watched_fds::is_on() && ends_appending(call, fd);
            let outcome = call.pass();
            match ends {
                // The flags are those of the open file, which several numbers may share.
                true => watched_fds::forget_all(),
                false => watched_fds::forget(fd),
            }
            outcome
        }
        _ if call.in_rank() && closed_stdio::is_vacant(fd) => fail(libc::EBADF),
        _ if file_owner::is_command(command) => file_owner::fcntl(call),
        _ => call.pass(),
    }
}

/// Whether F_SETFL has writes through the descriptor append no more.
fn ends_appending(call: &mut Call, fd: i32) -> bool {
    let asked = [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0];
    let now = call.kernel(libc::SYS_fcntl, asked);
    let appends = |flags: i32| flags & libc::O_APPEND != 0;
    now >= 0 && appends(now as i32) && !appends(call.int(2))
}

fn close(call: &mut Call) -> Outcome {
    let fd = call.int(0);
    if is_lowers(call, fd) {
        return fail(libc::EBADF);
    }
    if call.in_rank() && (0..3).contains(&fd) {
        return Outcome::Value(closed_stdio::vacate(fd));
    }
    // This comes before the call: afterwards another thread may get the number.
    if !call.vforked() {
        fd_owner::disown(fd);
    }
    Outcome::Value(call.kernel(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]))
}

fn close_range(call: &mut Call) -> Outcome {
    const CLOSE_RANGE_CLOEXEC: i32 = 4;
    if !call.in_rank() {
        return call.pass();
    }
    let [first, last, flags, ..] = call.args();
    let (first, last) = (first as u32, last as u32);
    if first > last {
        return fail(libc::EINVAL);
    }
    let cloexec = flags as i32 & CLOSE_RANGE_CLOEXEC != 0;
    let cap = |n: u32| i32::try_from(n).unwrap_or(i32::MAX);
    for fd in fd_owner::owned(cap(first), cap(last)) {
        if cloexec {
            let set = [
                fd as usize,
                libc::F_SETFD as usize,
                libc::FD_CLOEXEC as usize,
                0,
                0,
                0,
            ];
            syscall::plain(libc::SYS_fcntl, set);
        } else if fd < 3 {
            closed_stdio::vacate(fd);
        } else {
            fd_owner::disown(fd);
            syscall::plain(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]);
        }
    }
    Outcome::Value(0)
}
