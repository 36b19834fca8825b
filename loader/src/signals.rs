//! The application's signal handlers.
//!
//! The kernel delivers a signal that the application handles to [`entry`], which usually just
//! jumps to the application's handler: same stack, same frame, same return address. Otherwise:
//! - the thread is in the handler of trapped calls: see rule 1 in `dispatch.rs`;
//! - the thread has crossed to the lower half: the handler is called with the upper FS, and the
//!   lower one is set again behind it;
//! - the thread is none of the application's: the signal is passed on to the process.
//!
//! SIGSYS and the stop signal belong to Stasis: they are never blocked and the application's
//! handlers for them are only remembered; so are those for signals that ask for checkpoints
//! (`asked.rs`). Handlers of the lower half's libraries are in `library_signals.rs`.
//!
//! # Safety
//! Handlers run on whatever stack the kernel chose, with either FS: no libc, no TLS, no
//! allocation. Frames come from the kernel. The table's entries are atomics because handlers read
//! them without the lock.
#![allow(unsafe_code)]

use crate::context::{self, Context, SigInfo};
use crate::dispatch;
use crate::lock::Spin;
use crate::syscalls::timers;
use crate::thread::{self, Thread};
use crate::{asked, cpu, interrupted, library_signals, raw, vdso};
use core::arch::global_asm;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The signal with which threads are stopped; hidden from the application.
pub const STOP_SIGNAL: i32 = 62;
/// Number of signals.
pub const SIGNALS: usize = 64;
/// Set in the flags of actions that name their restorer.
pub const SA_RESTORER: u64 = 0x0400_0000;

/// The bit of a signal in a mask.
pub const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Signals that are never blocked in upper-half code.
pub const NEVER_BLOCKED: u64 = bit(libc::SIGSYS) | bit(STOP_SIGNAL);

const FAULTS: u64 = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS);

/// Everything that can be held back; faults are let through (a blocked fault kills silently, and a
/// blocked SIGSYS would kill at the next trapped call).
pub const ALL_HELD: u64 = !FAULTS;

/// What the application asked for, for one signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[repr(C)]
pub struct Action {
    /// Handler, or SIG_DFL or SIG_IGN.
    pub handler: usize,
    /// SA_ flags.
    pub flags: u64,
    /// Address to which the handler returns.
    pub restorer: usize,
    /// Signals blocked while it runs.
    pub mask: u64,
}

/// An action in a table.
pub struct Entry {
    handler: AtomicUsize,
    flags: AtomicU64,
    restorer: AtomicUsize,
    mask: AtomicU64,
}

impl Entry {
    /// The action.
    pub fn get(&self) -> Action {
        Action {
            handler: self.handler.load(Ordering::Acquire),
            flags: self.flags.load(Ordering::Acquire),
            restorer: self.restorer.load(Ordering::Acquire),
            mask: self.mask.load(Ordering::Acquire),
        }
    }

    /// Changes it.
    pub fn set(&self, action: &Action) {
        self.flags.store(action.flags, Ordering::Release);
        self.restorer.store(action.restorer, Ordering::Release);
        self.mask.store(action.mask, Ordering::Release);
        self.handler.store(action.handler, Ordering::Release);
    }

    /// What SA_RESETHAND wants.
    pub fn forget_handler(&self) {
        self.handler.store(libc::SIG_DFL, Ordering::Release);
    }
}

/// An action for each signal.
pub type Table = [Entry; SIGNALS];

/// A table of default actions.
pub const fn empty_table() -> Table {
    [const {
        Entry {
            handler: AtomicUsize::new(0),
            flags: AtomicU64::new(0),
            restorer: AtomicUsize::new(0),
            mask: AtomicU64::new(0),
        }
    }; SIGNALS]
}

/// A signal's place in a table.
pub fn index(signal: i32) -> usize {
    (signal - 1) as usize & (SIGNALS - 1)
}

static TABLE: Table = empty_table();

/// Serialises changes, so that the table and the kernel agree.
static CHANGING: Spin<()> = Spin::new(());

global_asm!(
    ".globl stasis_signal",
    "stasis_signal:",
    "push rdi",
    "push rsi",
    "push rdx",
    "call {classify}",
    "mov rcx, rdx",
    "pop rdx",
    "pop rsi",
    "pop rdi",
    "test rax, rax",
    "jz 3f",
    "test rcx, rcx",
    "jnz 2f",
    "jmp rax",
    // In a crossing: FS is the upper one now; rbx and the frame survive the call.
    "2:",
    "mov rbx, rdx",
    "sub rsp, 8",
    "call rax",
    "call {back}",
    "mov rdx, rbx",
    // Nothing to run, or all done: leave without the application's restorer.
    "3:",
    "mov rsp, rdx",
    "mov eax, 15",
    "syscall",
    "ud2",
    classify = sym classify,
    back = sym back_to_lower,
);

extern "C" {
    fn stasis_signal();
}

/// Two registers' worth of answer: the handler to run (0: none) and whether FS was swapped for it.
#[repr(C)]
struct Verdict {
    handler: usize,
    swapped: usize,
}

const NOTHING: Verdict = Verdict {
    handler: 0,
    swapped: 0,
};

extern "C" fn back_to_lower() {
    if let Some(thread) = Thread::current() {
        // SAFETY: the interrupted crossing had this FS.
        unsafe { cpu::set_fs(thread.lower_fs()) };
    }
}

/// Whether `sender` is a process.
fn sent_by_process(code: i32) -> bool {
    matches!(code, libc::SI_USER | libc::SI_QUEUE | libc::SI_TKILL)
}

/// Replaces the kernel's ids of this process and its timers by the application's.
pub fn with_own_ids(mut info: SigInfo) -> SigInfo {
    if sent_by_process(info.code) && info.sender as u32 == thread::real_pid() {
        info.sender = thread::virtual_pid() as i32;
    } else if info.code == libc::SI_TIMER {
        info.sender = timers::application_id(info.sender).unwrap_or(info.sender);
    }
    info
}

/// The reverse of [`with_own_ids`].
pub fn with_kernel_ids(mut info: SigInfo) -> SigInfo {
    if sent_by_process(info.code) && info.sender as u32 == thread::virtual_pid() {
        info.sender = thread::real_pid() as i32;
    } else if info.code == libc::SI_TIMER {
        info.sender = timers::kernels_id(info.sender).unwrap_or(info.sender);
    }
    info
}

/// Decides what happens to a signal that was just delivered.
unsafe extern "C" fn classify(signal: i32, info: *mut SigInfo, frame: *mut Context) -> Verdict {
    // SAFETY: the kernel's frame, which is ours to change.
    let (frame, facts) = unsafe { (&mut *frame, &mut *info) };
    let entry = &TABLE[index(signal)];
    let action = entry.get();
    let fault = dispatch::is_fault(signal, facts);
    let Some(thread) = Thread::interrupted() else {
        pass_on(signal, info, frame, fault);
        return NOTHING;
    };
    if action.handler <= libc::SIG_IGN
        || !may_run(thread, signal, facts, frame, fault, &action, install)
    {
        return NOTHING;
    }
    if action.flags & libc::SA_RESETHAND as u64 != 0 {
        entry.forget_handler();
    }
    *facts = with_own_ids(*facts);
    let swap = cpu::fs() == thread.lower_fs();
    if swap {
        // SAFETY: the handler is upper-half code; `back_to_lower` undoes it.
        unsafe { cpu::set_fs(thread.upper_fs()) };
    }
    Verdict {
        handler: action.handler,
        swapped: usize::from(swap),
    }
}

/// Whether a handler may run on this frame, which is made such that it may. If not, the signal comes again:
/// when the handler of trapped calls is done, for which an action that the kernel has reset is installed
/// once more.
pub fn may_run(
    thread: &Thread,
    signal: i32,
    info: &mut SigInfo,
    frame: &mut Context,
    fault: bool,
    action: &Action,
    install: fn(i32, &Action) -> isize,
) -> bool {
    vdso::begin_anew(thread, frame);
    let rip = frame.regs.rip;
    if !dispatch::is_upper(rip) && !fault {
        // SAFETY: the frame is the top one of this thread.
        let left = unsafe { dispatch::leave_window(thread, frame, true) };
        if !left && (thread.in_dispatch.load(Ordering::Relaxed) != 0 || dispatch::in_stub(rip)) {
            if action.flags & libc::SA_RESETHAND as u64 != 0 {
                install(signal, action);
            }
            hold_back(thread, signal, info, frame);
            return false;
        }
    }
    if dispatch::is_upper(frame.regs.rip) {
        interrupted::end_by_handler(frame, action.flags & libc::SA_RESTART as u64 != 0);
    }
    true
}

/// The signal is delivered again when the handler of trapped calls is done.
fn hold_back(thread: &Thread, signal: i32, info: &mut SigInfo, frame: &mut Context) {
    // The signal itself, too: that of a fault may have been sent.
    frame.mask |= (ALL_HELD | bit(signal)) & !NEVER_BLOCKED;
    thread.attention.store(1, Ordering::Relaxed);
    let args = [
        raw::getpid() as usize,
        raw::gettid() as usize,
        signal as usize,
        &raw mut *info as usize,
        0,
        0,
    ];
    // SAFETY: the kernel reads the siginfo that it wrote.
    unsafe { raw::syscall(libc::SYS_rt_tgsigqueueinfo as usize, args) };
}

/// A thread of the lower half got a signal that is meant for the application.
fn pass_on(signal: i32, info: *mut SigInfo, frame: &mut Context, fault: bool) {
    if fault {
        // The lower half itself is broken: die of it, with a core where cores are wanted.
        kernel_action(signal, libc::SIG_DFL, 0, 0);
        return;
    }
    frame.mask |= bit(signal);
    let args = [
        raw::getpid() as usize,
        signal as usize,
        info as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the kernel reads the siginfo that it wrote. Only the initial thread may say that it
    // comes from `kill`; from here it seems to come from `sigqueue`.
    unsafe {
        if raw::is_err(raw::syscall(libc::SYS_rt_sigqueueinfo as usize, args)) {
            (*info).code = libc::SI_QUEUE;
            raw::syscall(libc::SYS_rt_sigqueueinfo as usize, args);
        }
    }
}

/// Sets an action with the kernel: `handler` is lower-half code with our restorer, or 0 or 1.
pub fn kernel_action(signal: i32, handler: usize, flags: u64, mask: u64) -> isize {
    let restorer = context::restorer();
    kernel_set(
        signal,
        &Action {
            handler,
            flags: flags | SA_RESTORER,
            restorer,
            mask,
        },
    )
}

fn kernel_set(signal: i32, action: &Action) -> isize {
    let args = [
        signal as usize,
        action as *const Action as usize,
        0,
        8,
        0,
        0,
    ];
    // SAFETY: `Action` has the layout of the kernel's sigaction, which is only read.
    unsafe { raw::syscall(libc::SYS_rt_sigaction as usize, args) }
}

fn kernel_get(signal: i32) -> Action {
    let mut action = Action::default();
    let args = [signal as usize, 0, &raw mut action as usize, 8, 0, 0];
    // SAFETY: `Action` has the layout of the kernel's sigaction, which is written.
    unsafe { raw::syscall(libc::SYS_rt_sigaction as usize, args) };
    action
}

/// Whether the signal belongs to Stasis: what others ask for is only remembered.
pub fn is_ours(signal: i32) -> bool {
    signal == libc::SIGSYS || signal == STOP_SIGNAL || asked::is_taken(signal)
}

/// What exec has left of an action that nobody has changed since.
pub fn ignored_or_default(signal: i32) -> Action {
    let ignored = kernel_get(signal).handler == libc::SIG_IGN;
    Action {
        handler: usize::from(ignored),
        ..Action::default()
    }
}

/// Tells the kernel about what the application asked for.
fn install(signal: i32, action: &Action) -> isize {
    if is_ours(signal) {
        return 0;
    }
    let mut kernel = *action;
    if action.handler > libc::SIG_IGN {
        kernel.handler = stasis_signal as *const () as usize;
        kernel.flags |= libc::SA_SIGINFO as u64;
        if kernel.flags & SA_RESTORER == 0 {
            kernel.flags |= SA_RESTORER;
            kernel.restorer = context::restorer();
        }
        kernel.mask &= !NEVER_BLOCKED;
    }
    kernel_set(signal, &kernel)
}

/// What the application asked for.
pub fn get(signal: i32) -> Action {
    TABLE[index(signal)].get()
}

/// Does what the application asks for; returns the kernel's answer.
pub fn set(signal: i32, action: &Action) -> isize {
    let _guard = CHANGING.lock();
    let entry = &TABLE[index(signal)];
    let former = entry.get();
    entry.set(action);
    let result = install(signal, action);
    if raw::is_err(result) {
        entry.set(&former);
    }
    result
}

/// Sets only the kernel's side, as a vfork child must (the table is its parent's).
pub fn set_in_vfork_child(signal: i32, action: &Action) -> isize {
    install(signal, action)
}

/// Holds the table across `f` (a fork).
pub fn with_lock<R>(f: impl FnOnce() -> R) -> R {
    let _guard = CHANGING.lock();
    f()
}

/// First of all, before an MPI library looks whether anybody handles crashes: Rust's start-up does, and the
/// application is not its.
pub fn forget_rust() {
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        kernel_action(signal, libc::SIG_DFL, 0, 0);
        library_signals::forget(signal);
    }
}

/// Before the program starts: the actions are as exec leaves them, that is, ignored ones stay ignored. What
/// the lower half's libraries have installed stays, too, until the application asks for something.
pub fn start() {
    for signal in 1..=SIGNALS as i32 {
        let mut action = ignored_or_default(signal);
        if signal == libc::SIGPIPE && action != Action::default() {
            // Rust's start-up ignores it; no program expects that.
            action = Action::default();
            install(signal, &action);
            library_signals::forget(signal);
        }
        TABLE[index(signal)].set(&action);
    }
}

/// All actions that are not the default, for an image.
pub fn all() -> Vec<(i32, Action)> {
    (1..=SIGNALS as i32)
        .map(|s| (s, get(s)))
        .filter(|(_, a)| *a != Action::default())
        .collect()
}
