//! Entry and exit of the handler of trapped system calls, and the one place where it makes a blocking call.
//!
//! SIGSYS enters at `stasis_sigsys`, which calls `stasis_dispatch` (`dispatch.rs`) and leaves by `rt_sigreturn`.
//! `stasis_app_syscall` is the window: a signal that arrives in it finds the call either not started or finished, and
//! [`leave_window`] turns the frame into the application's own state before or after the call.
//!
//! # Safety
//! Frames come from the kernel. Code here runs with the upper half's FS, on the application's stack: no libc, no TLS,
//! no allocation, small frames.
#![allow(unsafe_code)]

use super::cpuid::registers;
use super::signals::never_blocked;
use super::syscall_restart;
use super::threads::{Thread, ATTENTION, IN_DISPATCH};
use crate::sys::context::{self, Context, SYSCALL_LEN};
use crate::sys::syscall;
use contract::ARENA_END;
use core::arch::global_asm;
use core::sync::atomic::Ordering;

/// Result of the window when the call was not made because an event is pending.
const NOT_MADE: isize = -0x7fff_0000;

global_asm!(
    // Entry: the SIGSYS handler.
    ".globl stasis_sigsys",
    ".globl stasis_sigsys_end",
    "stasis_sigsys:",
    "mov dword ptr gs:[{in_dispatch}], 1",
    "push rdx",
    "mov rdi, rdx",
    "call {dispatch}",
    "pop rdi",
    // resume(context): rt_sigreturn on any frame.
    ".globl stasis_resume",
    "stasis_resume:",
    "mov dword ptr gs:[{in_dispatch}], 0",
    "mov rsp, rdi",
    "mov eax, 15",
    "syscall",
    "ud2",
    "stasis_sigsys_end:",
    // app_syscall(sigsys context, number, &arguments): the one place where application calls
    // block. Between the first and the last label rbx holds the SIGSYS context. For a patched call, `sites/entry.rs`
    // enters at `stasis_window`, with rbx set and the application's vector registers.
    ".globl stasis_app_syscall",
    ".globl stasis_window_start",
    ".globl stasis_window_after",
    "stasis_app_syscall:",
    "push rbx",
    "mov rbx, rdi",
    ".globl stasis_window",
    "stasis_window:",
    "mov rax, rsi",
    "mov r11, rdx",
    "mov rdi, [r11]",
    "mov rsi, [r11 + 8]",
    "mov rdx, [r11 + 16]",
    "mov r10, [r11 + 24]",
    "mov r8, [r11 + 32]",
    "mov r9, [r11 + 40]",
    // The call itself sets rcx to the address behind it; rcx tells whether it was entered.
    "xor ecx, ecx",
    "stasis_window_start:",
    "cmp dword ptr gs:[{attention}], 0",
    "jne 2f",
    "syscall",
    "stasis_window_after:",
    "pop rbx",
    "ret",
    "2:",
    "mov rax, {not_made}",
    "pop rbx",
    "ret",
    in_dispatch = const IN_DISPATCH,
    attention = const ATTENTION,
    dispatch = sym stasis_dispatch,
    not_made = const NOT_MADE,
);

extern "C" {
    /// Serves a trapped call (`dispatch.rs`).
    fn stasis_dispatch(context: *mut Context);
    fn stasis_sigsys();
    fn stasis_sigsys_end();
    fn stasis_resume(context: *const Context) -> !;
    fn stasis_site_syscall(context: *mut Context, nr: usize, args: *const [usize; 6]) -> isize;
    fn stasis_app_syscall(context: *mut Context, nr: usize, args: *const [usize; 6]) -> isize;
    fn stasis_window_start();
    fn stasis_window_after();
}

fn address(symbol: unsafe extern "C" fn()) -> usize {
    symbol as *const () as usize
}

/// Address of the handler for SIGSYS.
pub fn sigsys_handler() -> usize {
    address(stasis_sigsys)
}

/// Makes a call on behalf of the application; None if it was not made and is to be trapped again.
#[inline(always)]
pub fn app_syscall(context: *mut Context, nr: usize, args: &[usize; 6]) -> Option<isize> {
    // SAFETY: the application made this call; the context is the current SIGSYS frame's, or holds the registers of the
    // patched call.
    let result = unsafe {
        match (*context).flags == context::REGISTERS_ONLY {
            true => stasis_site_syscall(context, nr, args),
            false => stasis_app_syscall(context, nr, args),
        }
    };
    (result != NOT_MADE).then_some(result)
}

/// Resumes the calling upper thread from the context. SIGSYS and the stop signal are unblocked in it in any case (a
/// blocked SIGSYS would kill the process).
///
/// # Safety
/// All frames of the caller are abandoned: it must hold no lock. FS must already be the one that the context's code
/// needs.
pub unsafe fn resume(context: *mut Context) -> ! {
    registers::fit(context as usize);
    // SAFETY: the caller holds no lock and has set FS, and the context is a complete frame.
    unsafe {
        (*context).mask &= !never_blocked();
        stasis_resume(context)
    }
}

/// Whether the code at `rip` belongs to the entry or exit of the handler.
pub fn in_stub(rip: usize) -> bool {
    (address(stasis_sigsys)..address(stasis_sigsys_end)).contains(&rip)
}

/// Turns a frame that was interrupted in the window, before or in the call, into the application's own state: before
/// the call, or after it with EINTR if an application handler is going to run (`eintr`). Returns whether it was.
///
/// # Safety
/// `frame` must be a signal frame on top of the calling thread's stack.
pub unsafe fn leave_window(thread: &Thread, frame: &mut Context, eintr: bool) -> bool {
    let rip = frame.regs.rip;
    if !(address(stasis_window_start)..=address(stasis_window_after)).contains(&rip) {
        return false;
    }
    let done = rip == address(stasis_window_after);
    if done && frame.regs.rax as isize != syscall::err(libc::EINTR) {
        return false;
    }
    let entered = frame.regs.rcx == address(stasis_window_after);
    // SAFETY: in the window rbx is the SIGSYS frame, or the registers of the patched call: both are intact above this
    // frame on the stack.
    let app = unsafe { &mut *(frame.regs.rbx as *mut Context) };
    if done && eintr && !syscall_restart::never_ends(&app.regs) {
        syscall_restart::tell_remaining(&app.regs, thread.deadline.load(Ordering::Relaxed));
        app.regs.rax = frame.regs.rax;
    } else {
        app.regs.rax = if entered {
            // Interrupted and not done: the kernel itself was going to repeat it.
            syscall_restart::waited(thread, app.regs.rax, !done)
        } else {
            syscall_restart::not_made(thread)
        };
        app.regs.rip -= SYSCALL_LEN;
    }
    if app.flags == context::REGISTERS_ONLY {
        frame.set_registers(&app.regs);
    } else {
        frame.regs = app.regs;
        frame.fpstate = app.fpstate;
        frame.flags = app.flags;
        frame.stack = app.stack;
        frame.mask = app.mask;
    }
    thread.attention.store(0, Ordering::Relaxed);
    thread.in_dispatch.store(0, Ordering::Relaxed);
    true
}

/// Whether an address is upper-half code.
pub fn is_upper(rip: usize) -> bool {
    rip < ARENA_END
}
