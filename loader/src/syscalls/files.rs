//! Descriptors: those that calls return are the application's; only those may it close.

use super::{fail, Call, Handler, Outcome};
use crate::state::note_opened;
use crate::{fds, pairs, raw, user, vacant};

pub const HANDLERS: &[(i64, Handler)] = &[
    (libc::SYS_creat, creat),
    (libc::SYS_openat2, openat2),
    (libc::SYS_open_by_handle_at, open_by_handle_at),
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
    (libc::SYS_pipe, pipe),
    (libc::SYS_pipe2, pipe),
    (libc::SYS_socketpair, socketpair),
    (libc::SYS_recvmsg, recvmsg),
    (libc::SYS_recvmmsg, recvmmsg),
    (libc::SYS_dup, dup),
    (libc::SYS_dup2, dup_onto),
    (libc::SYS_dup3, dup_onto),
    (libc::SYS_fcntl, fcntl),
    (libc::SYS_close, close),
    (libc::SYS_close_range, close_range),
];

/// Notes a returned descriptor. A vfork child has its own table of descriptors but shares our
/// memory, so nothing is noted for it.
pub fn returned(call: &Call, outcome: Outcome) -> Outcome {
    returned_from(call, outcome, 0)
}

/// The same for a call that returns the lowest free number from `least` on.
fn returned_from(call: &Call, outcome: Outcome, least: i32) -> Outcome {
    match outcome {
        Outcome::Value(fd) if fd >= 0 && !call.vforked() => {
            Outcome::Value(take(fd as i32, least) as isize)
        }
        other => other,
    }
}

fn take(fd: i32, least: i32) -> i32 {
    let fd = vacant::settle(fd, least);
    fds::own(fd);
    fd
}

/// Remembers what was opened for writing: a file that is closed at a cut is among no descriptors.
pub fn opened(call: &Call, outcome: &Outcome, flags: i32) {
    let writable = flags & libc::O_PATH == 0 && flags & libc::O_ACCMODE != libc::O_RDONLY;
    match outcome {
        Outcome::Value(fd @ 0..) if writable && call.in_rank() => {
            call.thread.on_lower(|| note_opened(*fd as i32));
        }
        _ => {}
    }
}

fn creat(call: &mut Call) -> Outcome {
    let outcome = new_fd(call);
    opened(call, &outcome, libc::O_WRONLY);
    outcome
}

fn openat2(call: &mut Call) -> Outcome {
    let how = call.args()[2];
    let outcome = new_fd(call);
    if let Outcome::Value(0..) = outcome {
        // Flags are its first word, which the kernel has read just now.
        let flags = user::read::<u64>(how).unwrap_or(0);
        opened(call, &outcome, flags as i32);
    }
    outcome
}

fn open_by_handle_at(call: &mut Call) -> Outcome {
    let flags = call.int(2);
    let outcome = new_fd(call);
    opened(call, &outcome, flags);
    outcome
}

/// Passes on a call that returns a descriptor.
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
            pairs::note(inode(call, first), inode(call, second));
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
                fds::own(call.read(control + at + HEADER + i * 4));
                fds::note_shared();
            }
        }
        at += (size + 7) & !7;
    }
}

/// Whether a descriptor is the lower half's, as far as this caller is concerned.
fn is_lowers(call: &Call, fd: i32) -> bool {
    call.in_rank() && !fds::is_owned(fd)
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
    let lowers = is_lowers(call, new) && !vacant::is_vacant(new);
    if lowers && !raw::is_err(raw::plain(libc::SYS_fcntl, in_use)) {
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
        _ if call.in_rank() && vacant::is_vacant(fd) => fail(libc::EBADF),
        _ => call.pass(),
    }
}

fn close(call: &mut Call) -> Outcome {
    let fd = call.int(0);
    if is_lowers(call, fd) {
        return fail(libc::EBADF);
    }
    if call.in_rank() && (0..3).contains(&fd) {
        return Outcome::Value(vacant::vacate(fd));
    }
    // Before the call: afterwards another thread may have been given the number.
    if !call.vforked() {
        fds::disown(fd);
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
    for fd in fds::owned(cap(first), cap(last)) {
        if cloexec {
            let set = [
                fd as usize,
                libc::F_SETFD as usize,
                libc::FD_CLOEXEC as usize,
                0,
                0,
                0,
            ];
            raw::plain(libc::SYS_fcntl, set);
        } else if fd < 3 {
            vacant::vacate(fd);
        } else {
            fds::disown(fd);
            raw::plain(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]);
        }
    }
    Outcome::Value(0)
}
