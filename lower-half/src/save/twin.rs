//! A copy of this process's memory as it is now, made in milliseconds: a child made by `fork`, which
//! the kernel gives the same pages and copies each of them only when one of the two writes to it.
//!
//! The child does nothing but what it is asked for: to write some of its memory into the image (`scribe.rs`).
//! It runs no code of any library, allocates nothing, takes no lock and holds no file of the rank's open; a
//! thread of this process makes the image, and reads the memory that has to be seen for that. So whatever other
//! threads were doing at the fork (the MPI library's progress threads in `malloc`, say) is of no
//! consequence, and no launcher waits for the end of a pipe that a child has kept open.
//!
//! Nobody sees it: it is made without libc, so that no `atfork` handler runs; its end sends no signal,
//! and `wait` is told of it only where it asks for such children (`__WALL`). It answers to no signal but
//! SIGKILL and ends with the thread that has made it: a rank that is killed leaves no copy behind. If
//! memory becomes scarce nevertheless, the kernel takes the copy first, and the job runs on.
//!
//! Memory that is shared, or that must not be in children (MADV_DONTFORK), is not copied so: see
//! `by_hand.rs`. Pages that a network adapter reads or writes directly the kernel copies at the fork
//! (since Linux 5.12), so that the adapter keeps those of this process.
//!
//! # Safety
//! `clone` gives the child a copy of the whole address space and of the caller's stack; the child makes
//! system calls without memory arguments (but the name, a constant) and those of `scribe.rs` until it is killed.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;

use ckpt_image::{Span, WriteOrder};

use super::{maps, scribe};

/// A copy; given up when dropped.
pub struct Twin {
    child: Child,
    memory: File,
    /// Where it takes orders.
    orders: OwnedFd,
}

impl Twin {
    /// Makes a copy, for the calling thread.
    pub fn make() -> io::Result<Twin> {
        let (orders, its) = scribe::pair()?;
        let child = Child::fork(&its)?;
        // Only a help, where memory becomes scarce.
        let _ = fs::write(format!("/proc/{}/oom_score_adj", child.pid), "1000");
        let memory = File::open(format!("/proc/{}/mem", child.pid))?;
        Ok(Twin {
            child,
            memory,
            orders,
        })
    }

    /// Where it has memory of the upper half, in ascending order.
    pub fn mappings(&self) -> io::Result<Vec<Range<u64>>> {
        let end = contract::ARENA_END as u64;
        let mappings = maps::short(&self.child.pid.to_string(), end)?;
        Ok(mappings.iter().map(|m| m.start..m.end).collect())
    }

    /// Copies `into.len()` bytes from `address`, whether or not the process itself may read there.
    ///
    /// Not by `process_vm_readv`: that pins pages, and before it pins one that two processes share, the
    /// kernel gives the copy a page of its own. All memory would be there twice, for three to ten times
    /// the time.
    pub fn read(&self, address: u64, into: &mut [u8]) -> io::Result<()> {
        self.memory.read_exact_at(into, address)
    }

    /// Has it write, from `order.runs`, which this process could read when the copy was made.
    pub fn write(&self, order: &WriteOrder<'_>) -> io::Result<Vec<Span>> {
        let written = scribe::write(&self.orders, order);
        if matches!(&written, Err(error) if error.kind() == io::ErrorKind::BrokenPipe) {
            // On its way out, but perhaps not yet seen to have ended.
            Child::ended(&self.child.descriptor, libc::WNOWAIT);
        }
        written
    }

    /// Fails if the copy has ended, so that what was read may be anything.
    pub fn check(&self) -> io::Result<()> {
        match Child::ended(&self.child.descriptor, libc::WNOHANG | libc::WNOWAIT) {
            false => Ok(()),
            true => Err(io::Error::other(
                "the process that held the copy of the memory was killed, perhaps by the kernel for \
                 want of memory; --pause stop needs no copy",
            )),
        }
    }
}

/// The process that holds the copy. Killed when dropped, and gone soon after.
struct Child {
    pid: libc::pid_t,
    /// By which it is ended and waited for, even if somebody else has waited for it.
    descriptor: OwnedFd,
}

impl Child {
    /// One that takes orders from this end.
    fn fork(orders: &OwnedFd) -> io::Result<Child> {
        // And no signal at its end.
        const FLAGS: libc::c_long = libc::CLONE_PIDFD as libc::c_long;
        const NONE: libc::c_long = 0;
        let parent = std::process::id();
        let orders = orders.as_raw_fd();
        let mut descriptor = -1;
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the sets and the descriptor are locals; for the child see the head of this file.
        unsafe {
            // It inherits that all signals are blocked.
            libc::sigfillset(all.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            let pid = libc::syscall(
                libc::SYS_clone,
                FLAGS,
                NONE,
                &raw mut descriptor,
                NONE,
                NONE,
            );
            if pid == 0 {
                stand(parent, orders);
            }
            let error = io::Error::last_os_error();
            libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut());
            match libc::pid_t::try_from(pid) {
                Ok(pid) if pid > 0 => Ok(Child {
                    pid,
                    descriptor: OwnedFd::from_raw_fd(descriptor),
                }),
                _ => Err(error),
            }
        }
    }

    /// Whether it has ended, or somebody else has waited for its end.
    fn ended(descriptor: &OwnedFd, how: libc::c_int) -> bool {
        let mut info = MaybeUninit::<libc::siginfo_t>::zeroed();
        let id = descriptor.as_raw_fd() as libc::id_t;
        let how = libc::WEXITED | libc::__WALL | how;
        // SAFETY: the kernel fills the local, and leaves it zero while the child lives.
        unsafe {
            libc::waitid(libc::P_PIDFD, id, info.as_mut_ptr(), how) != 0
                || info.assume_init().si_pid() != 0
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let descriptor = libc::c_long::from(self.descriptor.as_raw_fd());
        let kill = libc::c_long::from(libc::SIGKILL);
        const NONE: libc::c_long = 0;
        // SAFETY: passes no memory.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, descriptor, kill, NONE, NONE) };
        // The kernel takes 20 ms for each GiB to take the copy apart, for which no checkpoint need wait.
        let apart = ckpt_image::room_for_thread().then(|| {
            let descriptor = self.descriptor.try_clone()?;
            let thread = std::thread::Builder::new().name("ckpt-reap".to_owned());
            thread.spawn(move || Child::ended(&descriptor, 0))
        });
        if !matches!(apart, Some(Ok(_))) {
            Child::ended(&self.descriptor, 0);
        }
    }
}

/// What the child does.
fn stand(parent: u32, orders: RawFd) -> ! {
    const NONE: libc::c_long = 0;
    let prctl = |option: libc::c_int, value: libc::c_long| {
        let option = libc::c_long::from(option);
        // SAFETY: changes this process alone; of its memory the kernel reads a name at most.
        unsafe { libc::syscall(libc::SYS_prctl, option, value, NONE, NONE, NONE) };
    };
    let (orders_at, last) = (libc::c_long::from(orders), libc::c_long::from(u32::MAX));
    // The first of all numbers may be free, too.
    let others = [(NONE, orders_at - 1), (orders_at + 1, last)];
    for (first, last) in others.into_iter().filter(|(first, last)| first <= last) {
        // SAFETY: without memory.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, NONE) };
    }
    prctl(libc::PR_SET_NAME, c"stasis-twin".as_ptr() as libc::c_long);
    prctl(libc::PR_SET_PDEATHSIG, libc::c_long::from(libc::SIGKILL));
    // SAFETY: without memory. It is this process's alone, whose only thread this is; that orders name what
    // can be read is for `Twin::write`.
    unsafe {
        // It may have ended before the kernel was asked to tell.
        if libc::syscall(libc::SYS_getppid) == libc::c_long::from(parent) {
            scribe::serve(orders);
        }
        loop {
            libc::syscall(libc::SYS_exit_group, NONE);
        }
    }
}
