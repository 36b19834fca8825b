//! The handler of trapped system calls.
//!
//! SIGSYS is delivered with nothing masked. The handler finds the call in the table of
//! `syscalls/`, and changes the frame to what the program is to see. Three rules keep it simple:
//!
//! 1. *No application signal handler runs on top of it.* While `in_dispatch` is set, `signals.rs`
//!    puts a signal back into the queue and holds it until the handler is done. So the handler may
//!    take locks, and is never left by `longjmp`.
//! 2. *A blocking call is made in one place*, `stasis_app_syscall`. A signal that arrives there
//!    finds the call either not started or finished; if it is not started (or was interrupted) the
//!    whole handler is abandoned: the signal's frame is turned into the application's own state
//!    before the call ([`leave_window`]). So neither an application handler nor a parked thread
//!    ever has a frame with a lower-half address under it.
//! 3. *Whatever happened meanwhile is looked at in the end*: a stop request parks the thread on
//!    its SIGSYS frame.
//!
//! # Safety
//! The frame pointer comes from the kernel. Code here runs with the upper half's FS, on the
//! application's stack: no libc, no TLS, no allocation, small frames.
#![allow(unsafe_code)]

use crate::context::{Context, SigInfo, SYSCALL_LEN};
use crate::syscalls::{self, Call, Outcome};
use crate::thread::{Thread, ATTENTION, IN_DISPATCH};
use crate::{interrupted, raw, stop};
use contract::ARENA_END;
use core::arch::global_asm;
use core::sync::atomic::Ordering;

/// Returned by the window when the call was not made because something waits.
const NOT_MADE: isize = -0x7fff_0000;

global_asm!(
    // The SIGSYS handler.
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
    // block. Between the first and the last label rbx holds the SIGSYS context.
    ".globl stasis_app_syscall",
    ".globl stasis_window_start",
    ".globl stasis_window_after",
    "stasis_app_syscall:",
    "push rbx",
    "mov rbx, rdi",
    "mov rax, rsi",
    "mov r11, rdx",
    "mov rdi, [r11]",
    "mov rsi, [r11 + 8]",
    "mov rdx, [r11 + 16]",
    "mov r10, [r11 + 24]",
    "mov r8, [r11 + 32]",
    "mov r9, [r11 + 40]",
    // The call itself sets rcx to the address behind it, which tells whether it was entered.
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
    dispatch = sym dispatch,
    not_made = const NOT_MADE,
);

extern "C" {
    fn stasis_sigsys();
    fn stasis_sigsys_end();
    fn stasis_resume(context: *const Context) -> !;
    fn stasis_app_syscall(context: *mut Context, nr: usize, args: *const [usize; 6]) -> isize;
    fn stasis_window_start();
    fn stasis_window_after();
}

fn address(symbol: unsafe extern "C" fn()) -> usize {
    symbol as *const () as usize
}

/// Makes a call on behalf of the application; None when it was not made and is to be trapped anew.
#[inline(always)]
pub fn app_syscall(context: *mut Context, nr: usize, args: &[usize; 6]) -> Option<isize> {
    // SAFETY: the application asked for this call; the context is the current SIGSYS frame's.
    let result = unsafe { stasis_app_syscall(context, nr, args) };
    (result != NOT_MADE).then_some(result)
}

/// Makes the calling upper thread continue as the context says. SIGSYS and the stop signal are
/// unblocked in it whatever it says (a blocked SIGSYS would kill the process).
///
/// # Safety
/// All frames of the caller are abandoned: it must hold no lock. FS must already be the one that
/// the context's code needs.
pub unsafe fn resume(context: *mut Context) -> ! {
    // SAFETY: by the caller's word.
    unsafe {
        (*context).mask &= !crate::signals::NEVER_BLOCKED;
        stasis_resume(context)
    }
}

/// Whether the code at `rip` belongs to the entry or exit of the handler.
pub fn in_stub(rip: usize) -> bool {
    (address(stasis_sigsys)..address(stasis_sigsys_end)).contains(&rip)
}

/// If the frame was interrupted in the window before the call, or in it, makes it the
/// application's own state: before the call, or after it with EINTR where an application handler
/// is going to run (`eintr`). Says whether that was so.
///
/// # Safety
/// `frame` must be a signal frame on top of the calling thread's stack.
pub unsafe fn leave_window(thread: &Thread, frame: &mut Context, eintr: bool) -> bool {
    let rip = frame.regs.rip;
    if !(address(stasis_window_start)..=address(stasis_window_after)).contains(&rip) {
        return false;
    }
    let done = rip == address(stasis_window_after);
    if done && frame.regs.rax as isize != raw::err(libc::EINTR) {
        return false;
    }
    let entered = frame.regs.rcx == address(stasis_window_after);
    // SAFETY: in the window rbx is the SIGSYS frame, which is intact above us on the stack.
    let app = unsafe { &mut *(frame.regs.rbx as *mut Context) };
    if done && eintr && !interrupted::never_ends(&app.regs) {
        interrupted::tell_remaining(&app.regs, thread.deadline.load(Ordering::Relaxed));
        app.regs.rax = frame.regs.rax;
    } else {
        app.regs.rax = if entered {
            // Interrupted and not done: the kernel itself was going to make it again.
            interrupted::waited(thread, app.regs.rax, !done)
        } else {
            interrupted::not_made(thread)
        };
        app.regs.rip -= SYSCALL_LEN;
    }
    frame.regs = app.regs;
    frame.fpstate = app.fpstate;
    frame.flags = app.flags;
    frame.stack = app.stack;
    frame.mask = app.mask;
    thread.attention.store(0, Ordering::Relaxed);
    thread.in_dispatch.store(0, Ordering::Relaxed);
    true
}

/// Serves one trapped call.
extern "C" fn dispatch(context: *mut Context) {
    let Some(thread) = Thread::current() else {
        raw::complain("stasis: a system call was trapped on a thread that is not of the program\n");
        raw::exit_group(121);
    };
    // SAFETY: the frame of the signal that is being handled.
    unsafe { (*context).regs.rax = interrupted::begin(thread, (*context).regs.rax) };
    let mut call = Call::new(context, thread);
    match syscalls::serve(&mut call) {
        // SAFETY: the frame of the signal that is being handled.
        Outcome::Value(value) => unsafe { (*context).regs.rax = value as usize },
        // SAFETY: likewise.
        Outcome::Again => unsafe {
            (*context).regs.rax = interrupted::not_made(thread);
            (*context).regs.rip -= SYSCALL_LEN;
        },
        Outcome::Done => {}
    }
    // SAFETY: likewise.
    unsafe { (*context).mask &= !crate::signals::NEVER_BLOCKED };
    thread.attention.store(0, Ordering::Relaxed);
    if thread.stop_wanted() && !thread.in_lower() {
        stop::park_if_wanted(thread, context);
    }
}

/// Makes SIGSYS ours.
pub fn install() -> isize {
    crate::signals::kernel_action(
        libc::SIGSYS,
        address(stasis_sigsys),
        (libc::SA_SIGINFO | libc::SA_NODEFER) as u64,
        0,
    )
}

/// Whether an address is upper-half code.
pub fn is_upper(rip: usize) -> bool {
    rip < ARENA_END
}

/// Used by `SigInfo` consumers: whether the kernel raised a signal because of what the interrupted
/// instruction did.
pub fn is_fault(signal: i32, info: &SigInfo) -> bool {
    let synchronous = matches!(
        signal,
        libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL | libc::SIGTRAP
    );
    synchronous && info.code > 0
}
