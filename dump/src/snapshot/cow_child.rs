//! The copy-on-write child: a child made by `fork` holds this process's memory as it is now. The fork takes
//! milliseconds: the kernel gives the child the same pages, and copies each of them only when one of the two
//! processes writes to it.
//!
//! The child only writes parts of its memory into the image, or computes digests of its pages, when it is asked to
//! (`cow_child_io.rs`). It allocates nothing, takes no lock, calls no library that could (it computes checksums with
//! `crc32fast` and digests with `highway`), and holds no file of the rank open. A thread of this process makes the
//! image, and reads memory of the child that it has to see for that. So the state of other threads at the fork (the MPI
//! library's progress threads in `malloc`, say) is of no consequence, and no launcher waits for the end of a pipe that
//! a child has kept open.
//!
//! The child is invisible to the program. It is created without libc, so that no `atfork` handler runs. Its end sends
//! no signal, and only a `wait` with `__WALL` reports it. It blocks all signals except SIGKILL, and it ends with the
//! thread that has created it, so a killed rank leaves no child behind. If memory becomes scarce, the kernel kills the
//! child first, and the job runs on.
//!
//! A child that stays (`held.rs`) outlives its rank: it ends when the socket is closed on which it takes requests, of
//! which another process then has the other end. It is in a session of its own, because launchers kill process groups.
//!
//! Memory that is shared, or that must not be in children (MADV_DONTFORK), is copied by `eager_copy.rs`. Pages
//! that a network adapter reads or writes directly are copied by the kernel at the fork (since Linux 5.12), so that
//! the adapter keeps those of this process.
//!
//! # Safety
//! `clone` gives the child a copy of the whole address space and of the caller's stack; the child makes
//! system calls without memory arguments (but the name, a constant) and those of `cow_child_io.rs` until it is killed.
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::FileExt;

use ckpt_image::{Span, WriteOrder};
use nix::errno::Errno;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::sys::wait::{waitid, Id, WaitPidFlag, WaitStatus};

use super::cow_child_io;
use crate::changes::page_digests::{DigestKey, PageDigest};
use crate::smaps;

/// Pages that the kernel forks in the time in which one is copied eagerly: a fork takes 25 ms for a GiB, an eager
/// copy 0.3 s.
const FORK_COPY_COST_RATIO: u64 = 12;

/// Whether to fork a process with `held` bytes is faster than to copy `stored` bytes of them.
pub fn forking_is_faster(held: u64, stored: u64) -> bool {
    stored > held / FORK_COPY_COST_RATIO
}

/// When a child ends at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// With the thread that has forked it.
    OfThread,
    /// When no process has the other end of its socket.
    OfSocket,
}

/// What another process needs to keep a child.
#[derive(Debug)]
pub struct ChildParts {
    /// Socket on which it takes requests.
    pub orders: OwnedFd,
    /// Its pidfd.
    pub process: OwnedFd,
    /// Its memory (/proc/PID/mem).
    pub memory: OwnedFd,
}

/// A child that another process keeps, and this one, its parent, waits for in the end.
#[derive(Debug)]
pub struct KeptChild(OwnedFd);

impl KeptChild {
    /// Whether it has ended. It is no zombie then.
    pub fn has_ended(&self) -> bool {
        ChildProcess::reaped(&self.0, WaitPidFlag::WNOHANG)
    }
}

/// A child with a copy of the memory. It is killed when this is dropped.
pub struct CowChild {
    child: ChildProcess,
    memory: File,
    /// Socket on which it takes requests.
    orders: OwnedFd,
}

impl CowChild {
    /// Forks a child.
    pub fn fork(lifetime: Lifetime) -> io::Result<CowChild> {
        let (orders, its) = cow_child_io::socket_pair()?;
        let child = ChildProcess::fork(&its, lifetime)?;
        // This only helps if memory becomes scarce.
        let _ = fs::write(format!("/proc/{}/oom_score_adj", child.pid), "1000");
        let memory = File::open(format!("/proc/{}/mem", child.pid))?;
        Ok(CowChild {
            child,
            memory,
            orders,
        })
    }

    /// A child that its parent has given away. It is killed when this is dropped.
    pub fn adopt(parts: ChildParts) -> io::Result<CowChild> {
        // The number that it has here, if its parent is in another namespace of processes.
        let number = parts.process.as_raw_fd();
        let facts = fs::read_to_string(format!("/proc/self/fdinfo/{number}"))?;
        let pid = facts.lines().find_map(|line| line.strip_prefix("Pid:"));
        let pid = pid.and_then(|pid| pid.trim().parse().ok());
        let pid = pid.filter(|pid| *pid > 0).ok_or(io::ErrorKind::NotFound)?;
        Ok(CowChild {
            child: ChildProcess {
                pid,
                descriptor: parts.process,
                given_away: false,
            },
            memory: parts.memory.into(),
            orders: parts.orders,
        })
    }

    /// Gives the child to another process, which keeps it. This one must only [reap](KeptChild) it.
    pub fn give_away(mut self) -> io::Result<(ChildParts, KeptChild)> {
        let process = self.child.descriptor.try_clone()?;
        let kept = KeptChild(self.child.descriptor.try_clone()?);
        self.child.given_away = true;
        let (orders, memory) = (self.orders, self.memory.into());
        let parts = ChildParts {
            orders,
            process,
            memory,
        };
        Ok((parts, kept))
    }

    /// Kills it, and waits until it has ended.
    pub fn end_now(self) {
        self.child.kill();
        self.child.has_ended(PollTimeout::NONE);
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.child.pid
    }

    /// A descriptor that is ready to read when it has ended.
    pub fn end(&self) -> BorrowedFd<'_> {
        self.child.descriptor.as_fd()
    }

    /// Its mappings of the upper half, in ascending order.
    pub fn mappings(&self) -> io::Result<Vec<Range<u64>>> {
        let end = contract::ARENA_END as u64;
        let mappings = smaps::short(&self.child.pid.to_string(), end)?;
        Ok(mappings.iter().map(|m| m.start..m.end).collect())
    }

    /// Copies `into.len()` bytes from `address`, whether or not the process itself may read there.
    ///
    /// It does not use `process_vm_readv`, which pins pages. Before the kernel pins a page that two processes share, it
    /// copies the page. All memory would exist twice, and it would take three to ten times as long.
    pub fn read(&self, address: u64, into: &mut [u8]) -> io::Result<()> {
        self.memory.read_exact_at(into, address)
    }

    /// Has it write `order.runs`, which this process could read at the fork.
    pub fn write(&self, order: &WriteOrder<'_>) -> io::Result<Vec<Span>> {
        self.answered(cow_child_io::request_write(&self.orders, order))
    }

    /// Has it append the digests of all pages of `runs`, which this process could read at the fork. They are no more
    /// than a [`WriteOrder`] may hold.
    pub fn digests(
        &self,
        key: &DigestKey,
        runs: &[Range<u64>],
        into: &mut Vec<PageDigest>,
    ) -> io::Result<()> {
        self.answered(cow_child_io::request_digests(&self.orders, key, runs, into))
    }

    /// Its answer. If it has ended instead, it is a zombie from here on.
    fn answered<T>(&self, answer: io::Result<T>) -> io::Result<T> {
        if matches!(&answer, Err(error) if error.kind() == io::ErrorKind::BrokenPipe) {
            // The child is exiting, but may not be a zombie yet.
            self.child.has_ended(PollTimeout::NONE);
        }
        answer
    }

    /// Fails if the child has ended, because the bytes that were read may be wrong.
    pub fn check(&self) -> io::Result<()> {
        match self.child.has_ended(PollTimeout::ZERO) {
            false => Ok(()),
            true => Err(io::Error::other(
                "the process that held the copy of the memory was killed, perhaps by the kernel for \
                 want of memory; --pause stop needs no copy",
            )),
        }
    }
}

/// The process itself. It is killed when this is dropped, and gone soon after.
struct ChildProcess {
    pid: libc::pid_t,
    /// Its pidfd, which stays valid even if other code has waited for the process.
    descriptor: OwnedFd,
    /// Whether another process keeps it.
    given_away: bool,
}

impl ChildProcess {
    /// Forks a child that takes requests from this end.
    fn fork(orders: &OwnedFd, lifetime: Lifetime) -> io::Result<ChildProcess> {
        // And no signal at its end.
        const FLAGS: libc::c_long = libc::CLONE_PIDFD as libc::c_long;
        const NONE: libc::c_long = 0;
        let parent = match lifetime {
            Lifetime::OfThread => Some(std::process::id()),
            Lifetime::OfSocket => None,
        };
        let orders = orders.as_raw_fd();
        let mut descriptor = -1;
        // The child inherits that all signals are blocked.
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
        // SAFETY: the descriptor is a local; for the child see the head of this file.
        unsafe {
            let pid = libc::syscall(
                libc::SYS_clone,
                FLAGS,
                NONE,
                &raw mut descriptor,
                NONE,
                NONE,
            );
            if pid == 0 {
                child_main(parent, orders);
            }
            let error = io::Error::last_os_error();
            let _ = before.thread_set_mask();
            match libc::pid_t::try_from(pid) {
                Ok(pid) if pid > 0 => Ok(ChildProcess {
                    pid,
                    descriptor: OwnedFd::from_raw_fd(descriptor),
                    given_away: false,
                }),
                _ => Err(error),
            }
        }
    }

    fn kill(&self) {
        let descriptor = libc::c_long::from(self.descriptor.as_raw_fd());
        let kill = libc::c_long::from(libc::SIGKILL);
        const NONE: libc::c_long = 0;
        // SAFETY: passes no memory.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, descriptor, kill, NONE, NONE) };
    }

    /// Waits for its end for so long. Whether it has ended.
    fn has_ended(&self, limit: PollTimeout) -> bool {
        let mut end = [PollFd::new(self.descriptor.as_fd(), PollFlags::POLLIN)];
        loop {
            match poll(&mut end, limit) {
                Err(Errno::EINTR) => {}
                Ok(0) => return false,
                // An error does not tell that it lives.
                Ok(_) | Err(_) => return true,
            }
        }
    }

    /// Whether it has ended and is no zombie any more, because this or other code has waited for it.
    fn reaped(descriptor: &OwnedFd, how: WaitPidFlag) -> bool {
        let how = WaitPidFlag::WEXITED | WaitPidFlag::__WALL | how;
        waitid(Id::PIDFd(descriptor.as_fd()), how) != Ok(WaitStatus::StillAlive)
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        if self.given_away {
            return;
        }
        self.kill();
        // The kernel takes 20 ms for each GiB to free the copy. No checkpoint need wait for that.
        let reaper = ckpt_image::room_for_thread().then(|| {
            let descriptor = self.descriptor.try_clone()?;
            let thread = std::thread::Builder::new().name("ckpt-reap".to_owned());
            thread.spawn(move || ChildProcess::reaped(&descriptor, WaitPidFlag::empty()))
        });
        if !matches!(reaper, Some(Ok(_))) {
            ChildProcess::reaped(&self.descriptor, WaitPidFlag::empty());
        }
    }
}

/// The main function of the child. It ends with the thread that has forked it if that is of the process `parent`.
fn child_main(parent: Option<u32>, orders: RawFd) -> ! {
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
    if parent.is_some() {
        prctl(libc::PR_SET_PDEATHSIG, libc::c_long::from(libc::SIGKILL));
    }
    // SAFETY: without memory. It is this process's alone, whose only thread this is; that orders name what
    // can be read is for [`CowChild::write`].
    unsafe {
        let serves = match parent {
            // The parent may have ended before PR_SET_PDEATHSIG took effect.
            Some(parent) => libc::syscall(libc::SYS_getppid) == libc::c_long::from(parent),
            None => libc::syscall(libc::SYS_setsid) > 0,
        };
        if serves {
            cow_child_io::serve(orders);
        }
        loop {
            libc::syscall(libc::SYS_exit_group, NONE);
        }
    }
}
