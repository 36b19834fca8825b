//! The application's signal actions.
//!
//! The kernel delivers a signal that the application handles to `stasis_signal`, which usually just
//! jumps to the application's handler: same stack, same frame, same return address. Otherwise:
//! - the thread is in the handler of trapped calls: see rule 1 in `dispatch.rs`;
//! - the thread has crossed to the lower half: the handler is called with the upper FS, and the
//!   lower one is set again after it;
//! - the thread is not the application's: the signal is redirected to the process;
//! - it is SIGSEGV of an instruction in the place of `cpuid`: it is answered (`interpose/cpuid`).
//!
//! # Safety
//! Handlers run on the stack that the kernel chose, with either FS: no libc, no TLS, no
//! allocation. Frames come from the kernel.
#![allow(unsafe_code)]

use super::delivery::{may_run, pass_on};
use super::sender_ids::with_own_ids;
use super::{
    empty_table, index, is_fault, is_ours, kernel_action, kernel_set, never_blocked, Action, Table,
    SA_RESTORER, SIGNALS,
};
use crate::interpose::cpuid;
use crate::interpose::threads::Thread;
use crate::sys::context::{self, Context, SigInfo};
use crate::sys::spin_lock::Spin;
use crate::sys::{cpu, syscall};
use contract::recorder::{record, Event};
use core::arch::global_asm;

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

/// Verdict in two registers: the handler to run (0: none) and whether FS was swapped for it.
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

/// Decides what happens to a signal that was just delivered.
unsafe extern "C" fn classify(signal: i32, info: *mut SigInfo, frame: *mut Context) -> Verdict {
    // SAFETY: the kernel's frame and siginfo, which only this handler uses.
    let (frame, facts) = unsafe { (&mut *frame, &mut *info) };
    if cpuid::answer(signal, facts, frame) {
        return NOTHING;
    }
    let entry = &TABLE[index(signal)];
    let action = entry.get();
    let fault = is_fault(signal, facts);
    let Some(thread) = Thread::interrupted() else {
        pass_on(signal, facts, frame, fault);
        return NOTHING;
    };
    if action.handler <= libc::SIG_IGN {
        if cpuid::takes(signal) && (fault || action.handler == libc::SIG_DFL) {
            die(signal, facts, fault);
        }
        return NOTHING;
    }
    if !may_run(thread, signal, facts, frame, fault, &action, install) {
        return NOTHING;
    }
    if action.flags & libc::SA_RESETHAND as u64 != 0 {
        entry.forget_handler();
    }
    *facts = with_own_ids(*facts);
    record(thread.tid(), Event::Signal, [signal as u64, 0]);
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

/// Lets the kernel's default action end the process when the thread goes on.
fn die(signal: i32, facts: &SigInfo, fault: bool) {
    kernel_action(signal, libc::SIG_DFL, 0, 0);
    if !fault {
        syscall::send_to_self(signal, facts);
    }
}

/// Answers `cpuid` from now on ([`cpuid::show_only`]).
pub fn answer_cpuid() {
    with_lock(|| install(libc::SIGSEGV, &get(libc::SIGSEGV)));
}

/// Installs the kernel's action for the application's.
pub(super) fn install(signal: i32, action: &Action) -> isize {
    if is_ours(signal) {
        return 0;
    }
    let mut kernel = *action;
    let takes = cpuid::takes(signal);
    if takes {
        // The handler may execute `cpuid` itself, and the one of an action that is made once is still needed.
        kernel.flags |= libc::SA_NODEFER as u64;
        kernel.flags &= !(libc::SA_RESETHAND as u64);
    }
    if action.handler > libc::SIG_IGN || takes {
        kernel.handler = stasis_signal as *const () as usize;
        kernel.flags |= libc::SA_SIGINFO as u64;
        if kernel.flags & SA_RESTORER == 0 {
            kernel.flags |= SA_RESTORER;
            kernel.restorer = context::restorer();
        }
        kernel.mask &= !never_blocked();
    }
    kernel_set(signal, &kernel)
}

/// Action of the application.
pub fn get(signal: i32) -> Action {
    TABLE[index(signal)].get()
}

/// Sets the action of the application; returns the kernel's result.
pub fn set(signal: i32, action: &Action) -> isize {
    let _guard = CHANGING.lock();
    let entry = &TABLE[index(signal)];
    let former = entry.get();
    entry.set(action);
    let result = install(signal, action);
    if syscall::is_err(result) {
        entry.set(&former);
    }
    result
}

/// Records an action that the kernel has already.
pub(super) fn note(signal: i32, action: &Action) {
    TABLE[index(signal)].set(action);
}

/// Sets only the kernel's action, as a vfork child must (the table is its parent's).
pub fn set_in_vfork_child(signal: i32, action: &Action) -> isize {
    install(signal, action)
}

/// Holds the lock of the table during `f` (a fork).
pub fn with_lock<R>(f: impl FnOnce() -> R) -> R {
    let _guard = CHANGING.lock();
    f()
}

/// All actions other than the default, for an image.
pub fn all() -> Vec<(i32, Action)> {
    (1..=SIGNALS as i32)
        .map(|s| (s, get(s)))
        .filter(|(_, a)| *a != Action::default())
        .collect()
}
