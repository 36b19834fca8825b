//! Handler of trapped system calls.
//!
//! SIGSYS is delivered with nothing masked. The handler (entered by `trap_entry.rs`) finds the call in the table of
//! `syscalls/`, and stores the program's result in the frame. Three rules keep it simple:
//!
//! 1. *No application signal handler runs on top of it.* While `in_dispatch` is set, `signals/`
//!    puts a signal back into the queue and holds it until the handler is done. So the handler may
//!    take locks, and is never left by `longjmp`.
//! 2. *A blocking call is made in one place*, `stasis_app_syscall`. A signal that arrives there
//!    finds the call either not started or finished; if it is not started (or was interrupted) the
//!    whole handler is abandoned: the signal's frame is turned into the application's own state
//!    before the call ([`trap_entry::leave_window`]). So neither an application handler nor a parked thread
//!    ever has a frame with a lower-half address under it.
//! 3. *Requests that arrived meanwhile are served at the end*: a stop request parks the thread on its SIGSYS frame.
//!
//! # Safety
//! The frame pointer comes from the kernel. Code here runs with the upper half's FS, on the
//! application's stack: no libc, no TLS, no allocation, small frames.
#![allow(unsafe_code)]

use super::sites::kind::SiteKind;
use super::sites::{self, slots};
use super::syscalls::{self, Call, Outcome, SITE_KINDS};
use super::threads::stop;
use super::threads::Thread;
use super::{syscall_restart, trap_entry};
use crate::sys::context::{Context, SYSCALL_LEN};
use crate::sys::syscall;
use core::sync::atomic::Ordering;

/// Serves one trapped call.
#[no_mangle]
extern "C" fn stasis_dispatch(context: *mut Context) {
    let Some(thread) = Thread::current() else {
        syscall::complain(
            "stasis: a system call was trapped on a thread that is not of the program\n",
        );
        syscall::exit_group(121);
    };
    // SAFETY: the kernel's frame of the signal that is being handled; only this handler uses it.
    if !sites::end_by_trap(thread, unsafe { &mut *context }) {
        serve(thread, context);
    }
    // SAFETY: the kernel's frame of the signal that is being handled; only this handler uses it.
    unsafe { (*context).mask &= !super::signals::never_blocked() };
    thread.attention.store(0, Ordering::Relaxed);
    if thread.stop_wanted() && !thread.in_lower() {
        stop::park_if_wanted(thread, context);
    }
}

fn serve(thread: &'static Thread, context: *mut Context) {
    // SAFETY: the kernel's frame of the signal that is being handled; only this handler uses it.
    unsafe {
        let regs = &mut (*context).regs;
        let instruction = regs.rip - SYSCALL_LEN;
        let back = slots::instruction_of(instruction) + SYSCALL_LEN;
        // A number that is not in the table is one of an interrupted call, or none.
        let served = SITE_KINDS.get(regs.rax).copied().unwrap_or_default();
        if back == regs.rip && served != SiteKind::Trap as u8 {
            sites::trapped(back, regs.rax, served);
        }
        regs.rip = back;
        regs.rax = syscall_restart::begin(thread, regs.rax);
    }
    let mut call = Call::new(context, thread);
    match syscalls::serve(&mut call) {
        // SAFETY: the kernel's frame of the signal that is being handled; only this handler uses it.
        Outcome::Value(value) => unsafe { (*context).regs.rax = value as usize },
        // SAFETY: the kernel's frame of the signal that is being handled; only this handler uses it.
        Outcome::Again => unsafe {
            (*context).regs.rax = syscall_restart::not_made(thread);
            (*context).regs.rip -= SYSCALL_LEN;
        },
        Outcome::Done => {}
    }
}

/// Serves one patched call (`sites/entry.rs`).
#[no_mangle]
extern "C" fn stasis_site_dispatch(context: *mut Context) {
    let Some(thread) = Thread::current() else {
        // Threads of the application alone run its code.
        syscall::exit_group(121);
    };
    let mut call = Call::new(context, thread);
    syscall_restart::begin(thread, call.nr());
    let outcome = syscalls::serve(&mut call);
    let regs = &mut call.frame().regs;
    match outcome {
        Outcome::Value(value) => regs.rax = value as usize,
        Outcome::Again => {
            regs.rax = syscall_restart::not_made(thread);
            regs.rip -= SYSCALL_LEN;
        }
        Outcome::Done => {}
    }
}

/// Installs the handler of SIGSYS.
pub fn install() -> isize {
    super::signals::kernel_action(
        libc::SIGSYS,
        trap_entry::sigsys_handler(),
        (libc::SA_SIGINFO | libc::SA_NODEFER) as u64,
        0,
    )
}
