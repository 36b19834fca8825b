//! Functions of the C library that any arguments of their types make safe: for threads with the lower half's FS, as
//! they set `errno`.
//!
//! # Safety
//! A declaration here says what memory the function uses: a reference, for the time of the call, with the type's size.
//! A function whose arguments are numbers uses none.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_uint, c_ulong};
use libc::{
    epoll_event, gid_t, id_t, idtype_t, itimerspec, itimerval, off_t, rlimit, siginfo_t, stat,
    statfs, uid_t,
};
use std::os::fd::OwnedFd;

// SAFETY: these are glibc's prototypes, with a reference for each pointer that must be valid, and none where null is
// allowed. The kernel writes no more than the type's size.
unsafe extern "C" {
    pub safe fn close(fd: c_int) -> c_int;
    pub safe fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int;
    /// The kernel does not keep the event's address.
    pub safe fn epoll_ctl(
        epoll: c_int,
        op: c_int,
        fd: c_int,
        event: Option<&mut epoll_event>,
    ) -> c_int;
    /// Fails with -1, also if it has read another number of bytes than eight.
    pub safe fn eventfd_read(fd: c_int, count: &mut u64) -> c_int;
    pub safe fn eventfd_write(fd: c_int, count: u64) -> c_int;
    pub safe fn flock(fd: c_int, operation: c_int) -> c_int;
    pub safe fn fstat(fd: c_int, facts: &mut stat) -> c_int;
    pub safe fn fstatfs(fd: c_int, facts: &mut statfs) -> c_int;
    pub safe fn getauxval(kind: c_ulong) -> c_ulong;
    pub safe fn getegid() -> gid_t;
    pub safe fn geteuid() -> uid_t;
    pub safe fn getitimer(which: c_int, now: &mut itimerval) -> c_int;
    pub safe fn getrlimit(resource: c_uint, limit: &mut rlimit) -> c_int;
    pub safe fn lseek(fd: c_int, offset: off_t, whence: c_int) -> off_t;
    pub safe fn mallopt(option: c_int, value: c_int) -> c_int;
    pub safe fn setrlimit(resource: c_uint, limit: &rlimit) -> c_int;
    pub safe fn tee(from: c_int, to: c_int, len: usize, flags: c_uint) -> isize;
    /// Makes a descriptor, or returns -1, which is none.
    pub safe fn timerfd_create(clock: c_int, flags: c_int) -> Option<OwnedFd>;
    pub safe fn timerfd_gettime(fd: c_int, now: &mut itimerspec) -> c_int;
    pub safe fn timerfd_settime(
        fd: c_int,
        flags: c_int,
        new: &itimerspec,
        old: Option<&mut itimerspec>,
    ) -> c_int;
    pub safe fn waitid(kind: idtype_t, id: id_t, info: &mut siginfo_t, options: c_int) -> c_int;
}
