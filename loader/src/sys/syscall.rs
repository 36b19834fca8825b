//! System calls without the C library.
//!
//! # Safety
//! Handlers run with the *upper* half's FS, where the lower libc's `errno` and its other thread-local state are
//! invalid: so no function here uses libc. A system call can change any memory, hence [`raw`] is unsafe. The wrappers
//! below are safe because each passes only memory that its own arguments borrow, with the type that the call is defined
//! with, or none.
#![allow(unsafe_code)]

use super::context::SigInfo;
use super::timespec::Timespec;
use core::arch::asm;
use core::ffi::CStr;
use core::marker::PhantomData;
use core::sync::atomic::AtomicU32;

/// Futex of this process's threads only.
const PRIVATE: i32 = libc::FUTEX_PRIVATE_FLAG;
/// Futex in memory that processes share.
const SHARED: i32 = 0;

/// Size of the kernel's signal set.
const SET: usize = size_of::<u64>();
/// The calling process or thread, where an id is expected.
const OWN: i32 = 0;
/// No memory.
const NONE: usize = 0;
/// Ints in a `struct sigevent`.
pub const SIGEVENT_INTS: usize = 16;

/// Commands of `fcntl` and kinds of owners that `libc` does not have, from `<asm-generic/fcntl.h>`.
pub const F_SETSIG: i32 = 10;
pub const F_GETSIG: i32 = 11;
pub const F_SETOWN_EX: i32 = 15;
pub const F_GETOWN_EX: i32 = 16;
pub const F_OWNER_TID: i32 = 0;
pub const F_OWNER_PID: i32 = 1;
pub const F_OWNER_PGRP: i32 = 2;

/// `-EINTR` and friends as the kernel returns them.
pub const fn err(errno: i32) -> isize {
    -(errno as isize)
}

/// Whether a kernel result is an error.
pub const fn is_err(result: isize) -> bool {
    result < 0 && result >= -4095
}

/// The error of a failed result, for messages.
pub fn io_error(result: isize) -> std::io::Error {
    std::io::Error::from_raw_os_error(-result as i32)
}

/// Makes a system call.
///
/// # Safety
/// As for the system call: its arguments must not let the kernel change memory that Rust owns.
#[inline(always)]
pub unsafe fn raw(nr: usize, a: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the x86-64 convention: rcx and r11 are clobbered, memory may be written.
    unsafe {
        asm!("syscall", inlateout("rax") nr as isize => result,
            in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5],
            out("rcx") _, out("r11") _, options(nostack));
    }
    result
}

/// A system call whose arguments are plain numbers (no memory is passed).
#[inline(always)]
pub fn plain(nr: i64, a: [usize; 6]) -> isize {
    // SAFETY: callers pass numbers only, so the kernel accesses no memory of the process.
    unsafe { raw(nr as usize, a) }
}

/// An argument of a system call: a number, or the address of memory that is borrowed until the call ends.
struct Argument<'a>(usize, PhantomData<&'a mut ()>);

impl From<usize> for Argument<'_> {
    fn from(number: usize) -> Self {
        Argument(number, PhantomData)
    }
}

impl From<i32> for Argument<'_> {
    fn from(number: i32) -> Self {
        Argument(number as usize, PhantomData)
    }
}

impl From<u32> for Argument<'_> {
    fn from(number: u32) -> Self {
        Argument(number as usize, PhantomData)
    }
}

/// Memory that the call reads.
fn of<T: ?Sized>(memory: &T) -> Argument<'_> {
    Argument((&raw const *memory).cast::<()>() as usize, PhantomData)
}

/// Memory that the call writes.
fn of_mut<T: ?Sized>(memory: &mut T) -> Argument<'_> {
    Argument((&raw mut *memory).cast::<()>() as usize, PhantomData)
}

/// A system call with memory, for the wrappers below; missing arguments are 0.
#[inline(always)]
fn with_memory<const N: usize>(nr: i64, arguments: [Argument<'_>; N]) -> isize {
    const { assert!(N <= 6) };
    let mut a = [0; 6];
    for (to, Argument(from, _)) in a.iter_mut().zip(&arguments) {
        *to = *from;
    }
    // SAFETY: the wrappers borrow what they pass, with the type that the call is defined with. The kernel does not keep
    // the addresses.
    unsafe { raw(nr as usize, a) }
}

/// Kernel thread id of the caller.
pub fn gettid() -> u32 {
    plain(libc::SYS_gettid, [0; 6]) as u32
}

/// Kernel process id.
pub fn getpid() -> u32 {
    plain(libc::SYS_getpid, [0; 6]) as u32
}

/// Kernel id of the process group.
pub fn process_group() -> u32 {
    plain(libc::SYS_getpgid, [0; 6]) as u32
}

/// Yields the processor.
pub fn sched_yield() {
    plain(libc::SYS_sched_yield, [0; 6]);
}

/// Registers for a memory barrier of all threads of the process, or makes one; an error where the kernel has none.
pub fn membarrier(command: i32) -> isize {
    plain(libc::SYS_membarrier, [command as usize, 0, 0, 0, 0, 0])
}

/// Ends the process at once.
pub fn exit_group(status: i32) -> ! {
    loop {
        plain(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0, 0]);
    }
}

/// Waits while `*word == value`, at most `timeout_ns` nanoseconds (0: without limit).
pub fn futex_wait(word: &AtomicU32, value: u32, timeout_ns: u64) {
    wait(word, PRIVATE, value, timeout_ns);
}

/// As [`futex_wait`], for a word in memory that processes share.
pub fn futex_wait_shared(word: &AtomicU32, value: u32, timeout_ns: u64) {
    wait(word, SHARED, value, timeout_ns);
}

fn wait(word: &AtomicU32, scope: i32, value: u32, timeout_ns: u64) {
    let limit = [timeout_ns / 1_000_000_000, timeout_ns % 1_000_000_000];
    let timeout = match timeout_ns {
        0 => 0_usize.into(),
        _ => of(&limit),
    };
    let op = libc::FUTEX_WAIT | scope;
    with_memory(
        libc::SYS_futex,
        [of(word), op.into(), value.into(), timeout],
    );
}

/// Wakes all waiters of `word`, which may be gone by now: its address alone is used.
pub fn futex_wake(word: *const AtomicU32) {
    wake(word, PRIVATE, i32::MAX);
}

/// Wakes at most `count` waiters of a word in memory that processes share.
pub fn futex_wake_shared(word: *const AtomicU32, count: i32) {
    wake(word, SHARED, count);
}

fn wake(word: *const AtomicU32, scope: i32, count: i32) {
    let op = (libc::FUTEX_WAKE | scope) as usize;
    // The kernel does not access the word.
    plain(
        libc::SYS_futex,
        [word as usize, op, count as usize, 0, 0, 0],
    );
}

/// Sends `signal` to one thread of this process.
pub fn tgkill(pid: u32, tid: u32, signal: i32) -> isize {
    plain(
        libc::SYS_tgkill,
        [pid as usize, tid as usize, signal as usize, 0, 0, 0],
    )
}

/// Sets the calling thread's signal mask and returns the former one.
pub fn set_mask(mask: u64) -> u64 {
    change_mask(libc::SIG_SETMASK, mask)
}

/// Blocks these signals in addition in the calling thread and returns the former mask.
pub fn block(mask: u64) -> u64 {
    change_mask(libc::SIG_BLOCK, mask)
}

fn change_mask(how: i32, mask: u64) -> u64 {
    let mut old = 0u64;
    let args = [how.into(), of(&mask), of_mut(&mut old), SET.into()];
    with_memory(libc::SYS_rt_sigprocmask, args);
    old
}

/// Writes text to stderr, for a handler that cannot continue.
pub fn complain(text: &str) {
    let args = [libc::STDERR_FILENO.into(), of(text), text.len().into()];
    with_memory(libc::SYS_write, args);
}

/// Opens a file with its full path.
pub fn open(path: &CStr, flags: i32) -> isize {
    let path = path.to_bytes_with_nul();
    let args = [libc::AT_FDCWD.into(), of(path), flags.into()];
    with_memory(libc::SYS_openat, args)
}

/// Reads at most as many bytes as there is room for.
pub fn read(fd: i32, into: &mut [u8]) -> isize {
    let len = into.len();
    with_memory(libc::SYS_read, [fd.into(), of_mut(into), len.into()])
}

/// As [`read`], from this offset on.
pub fn read_at(fd: i32, into: &mut [u8], offset: u64) -> isize {
    let len = into.len();
    let args = [
        fd.into(),
        of_mut(into),
        len.into(),
        (offset as usize).into(),
    ];
    with_memory(libc::SYS_pread64, args)
}

/// Kind and kernel id of the owner of an open file.
pub fn file_owner(fd: i32) -> Option<[i32; 2]> {
    let mut owner = [0i32; 2];
    let args = [fd.into(), F_GETOWN_EX.into(), of_mut(&mut owner)];
    (!is_err(with_memory(libc::SYS_fcntl, args))).then_some(owner)
}

/// Sets the kind and kernel id of the owner of an open file.
pub fn set_file_owner(fd: i32, owner: &[i32; 2]) -> isize {
    with_memory(libc::SYS_fcntl, [fd.into(), F_SETOWN_EX.into(), of(owner)])
}

/// Whether the descriptor `own` of this process refers to the open file of the n-th entry with the number `fd` of an
/// epoll instance: 0 if it does, or an error.
pub fn kcmp_epoll(epoll: i32, fd: i32, nth: i32, own: i32) -> isize {
    const KCMP_EPOLL_TFD: i32 = 7;
    let (pid, slot) = (getpid(), [epoll, fd, nth]);
    let args = [
        pid.into(),
        pid.into(),
        KCMP_EPOLL_TFD.into(),
        own.into(),
        of(&slot),
    ];
    with_memory(libc::SYS_kcmp, args)
}

/// Value of a machine's clock.
pub fn clock_gettime(clock: i32) -> Timespec {
    let mut now = Timespec::default();
    let args = [clock.into(), of_mut(&mut now)];
    with_memory(libc::SYS_clock_gettime, args);
    now
}

/// Takes a signal of the set that is pending, without waiting.
pub fn take_pending(set: u64, into: &mut SigInfo) -> isize {
    let now = Timespec::default();
    let args = [of(&set), of_mut(into), of(&now), SET.into()];
    with_memory(libc::SYS_rt_sigtimedwait, args)
}

/// Sends a signal with this information to a process.
pub fn send_to_process(pid: u32, signal: i32, info: &SigInfo) -> isize {
    let args = [pid.into(), signal.into(), of(info)];
    with_memory(libc::SYS_rt_sigqueueinfo, args)
}

/// Sends a signal with this information to the calling thread.
pub fn send_to_self(signal: i32, info: &SigInfo) -> isize {
    let (pid, tid) = (getpid(), gettid());
    let args = [pid.into(), tid.into(), signal.into(), of(info)];
    with_memory(libc::SYS_rt_tgsigqueueinfo, args)
}

/// Sets a seccomp filter; returns 0 or the error.
pub fn set_filter(filter: &[libc::sock_filter]) -> isize {
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_ptr().cast_mut(),
    };
    let operation = libc::SECCOMP_SET_MODE_FILTER;
    with_memory(
        libc::SYS_seccomp,
        [operation.into(), 0u32.into(), of(&program)],
    )
}

/// Creates a timer that sends `event` (a `struct sigevent`); returns its id or the error.
pub fn timer_create(clock: i32, event: &[i32; SIGEVENT_INTS]) -> isize {
    let mut id = 0i32;
    let args = [clock.into(), of(event), of_mut(&mut id)];
    match with_memory(libc::SYS_timer_create, args) {
        0 => id as isize,
        error => error,
    }
}

/// Interval of a timer, and time to its next expiration.
pub fn timer_gettime(timer: i32) -> [Timespec; 2] {
    let mut times = [Timespec::default(); 2];
    let args = [timer.into(), of_mut(&mut times)];
    with_memory(libc::SYS_timer_gettime, args);
    times
}

/// Sets the interval of a timer, and its next expiration.
pub fn timer_settime(timer: i32, flags: i32, times: &[Timespec; 2]) -> isize {
    let args = [timer.into(), flags.into(), of(times)];
    with_memory(libc::SYS_timer_settime, args)
}

/// Sets an interval timer: seconds and microseconds of its interval, and of the time to its next expiration.
pub fn setitimer(which: i32, times: &[i64; 4]) -> isize {
    with_memory(libc::SYS_setitimer, [which.into(), of(times)])
}

/// A resource limit of this process, soft and hard.
pub fn limit(resource: u32) -> [u64; 2] {
    let mut limit = [0u64; 2];
    let args = [OWN.into(), resource.into(), NONE.into(), of_mut(&mut limit)];
    with_memory(libc::SYS_prlimit64, args);
    limit
}

/// Sets a resource limit of this process, soft and hard.
pub fn set_limit(resource: u32, limit: &[u64; 2]) -> isize {
    let args = [OWN.into(), resource.into(), of(limit)];
    with_memory(libc::SYS_prlimit64, args)
}

/// Value of a setting that prctl stores in a variable.
pub fn stored_option(option: StoredOption) -> i32 {
    let mut value = 0i32;
    let args = [(option as i32).into(), of_mut(&mut value)];
    with_memory(libc::SYS_prctl, args);
    value
}

/// Options of prctl that store an int.
#[derive(Clone, Copy)]
#[repr(i32)]
pub enum StoredOption {
    /// Whether the process becomes the parent of orphans.
    ChildSubreaper = libc::PR_GET_CHILD_SUBREAPER,
    /// Signal at the end of the thread's parent.
    ParentDeathSignal = libc::PR_GET_PDEATHSIG,
}

/// Priority of a thread under its scheduler.
pub fn scheduler_priority(task: u32) -> i32 {
    let mut priority = 0i32;
    let args = [task.into(), of_mut(&mut priority)];
    with_memory(libc::SYS_sched_getparam, args);
    priority
}

/// Sets the scheduler of the calling thread and its priority.
pub fn set_scheduler(policy: i32, priority: i32) -> isize {
    let args = [OWN.into(), policy.into(), of(&priority)];
    with_memory(libc::SYS_sched_setscheduler, args)
}

/// Fills in the CPU affinity of a thread; returns the number of bytes or the error.
pub fn affinity(task: u32, set: &mut [u64]) -> isize {
    let bytes = size_of_val(set);
    let args = [task.into(), bytes.into(), of_mut(set)];
    with_memory(libc::SYS_sched_getaffinity, args)
}

/// Sets the CPU affinity of the calling thread.
pub fn set_affinity(set: &[u64]) -> isize {
    let args = [OWN.into(), size_of_val(set).into(), of(set)];
    with_memory(libc::SYS_sched_setaffinity, args)
}
