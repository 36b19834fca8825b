//! System calls without libc.
//!
//! # Safety
//! Handlers run with the *upper* half's FS, where the lower libc's `errno` and all its other
//! thread-local state are not ours: so nothing here touches libc. A system call can do anything to
//! memory, hence [`syscall`] is unsafe; the wrappers below are safe because each passes only
//! memory that its own arguments borrow, or none.
#![allow(unsafe_code)]

use core::arch::asm;
use core::sync::atomic::AtomicU32;

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

/// One system call.
///
/// # Safety
/// As the system call itself: the arguments must not let the kernel break memory that Rust owns.
#[inline(always)]
pub unsafe fn syscall(nr: usize, a: [usize; 6]) -> isize {
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
    // SAFETY: callers pass numbers only; the kernel touches no memory of ours.
    unsafe { syscall(nr as usize, a) }
}

/// A system call whose arguments are numbers and addresses of the caller's own locals.
#[inline(always)]
pub fn on_locals(nr: i64, a: [usize; 6]) -> isize {
    // SAFETY: callers pass locals of the type that the call is defined with.
    unsafe { syscall(nr as usize, a) }
}

/// Kernel thread id of the caller.
pub fn gettid() -> u32 {
    plain(libc::SYS_gettid, [0; 6]) as u32
}

/// Kernel process id.
pub fn getpid() -> u32 {
    plain(libc::SYS_getpid, [0; 6]) as u32
}

/// Give up the processor.
pub fn sched_yield() {
    plain(libc::SYS_sched_yield, [0; 6]);
}

/// Ends the process at once.
pub fn exit_group(status: i32) -> ! {
    loop {
        plain(libc::SYS_exit_group, [status as usize, 0, 0, 0, 0, 0]);
    }
}

/// Waits while `*word == value`, at most `timeout_ns` nanoseconds (0: without limit).
pub fn futex_wait(word: &AtomicU32, value: u32, timeout_ns: u64) {
    let limit = [timeout_ns / 1_000_000_000, timeout_ns % 1_000_000_000];
    let timeout = if timeout_ns == 0 {
        0
    } else {
        limit.as_ptr() as usize
    };
    let args = [
        word.as_ptr() as usize,
        (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize,
        value as usize,
        timeout,
        0,
        0,
    ];
    // SAFETY: `word` and `limit` are live for the call, which only reads them.
    unsafe { syscall(libc::SYS_futex as usize, args) };
}

/// Wakes everyone who waits on `word`.
pub fn futex_wake(word: &AtomicU32) {
    let op = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;
    // SAFETY: waking touches no memory.
    unsafe {
        syscall(
            libc::SYS_futex as usize,
            [word.as_ptr() as usize, op, i32::MAX as usize, 0, 0, 0],
        )
    };
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

/// Blocks these signals, too, in the calling thread and returns the former mask.
pub fn block(mask: u64) -> u64 {
    change_mask(libc::SIG_BLOCK, mask)
}

fn change_mask(how: i32, mask: u64) -> u64 {
    let mut old = 0u64;
    let args = [
        how as usize,
        &raw const mask as usize,
        &raw mut old as usize,
        8,
        0,
        0,
    ];
    // SAFETY: both sets are live locals of the size that is passed.
    unsafe { syscall(libc::SYS_rt_sigprocmask as usize, args) };
    old
}

/// Writes text to stderr, for the last words of a handler that cannot go on.
pub fn complain(text: &str) {
    // SAFETY: the kernel only reads the text.
    unsafe {
        syscall(
            libc::SYS_write as usize,
            [2, text.as_ptr() as usize, text.len(), 0, 0, 0],
        )
    };
}
