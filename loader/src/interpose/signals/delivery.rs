//! Decides whether a handler may run on the frame that a signal has interrupted, and defers the signal if not.
//!
//! # Safety
//! Frames and signal information come from the kernel. Code here runs in handlers: no libc, no TLS, no allocation.
#![allow(unsafe_code)]

use super::{bit, kernel_action, never_blocked, Action, ALL_HELD};
use crate::interpose::threads::Thread;
use crate::interpose::{sites, syscall_restart, trap_entry, vdso_call};
use crate::sys::context::{Context, SigInfo};
use crate::sys::syscall;
use core::sync::atomic::Ordering;

/// Whether a handler may run on this frame, which is changed so that it may. If not, the signal is delivered again at
/// the end of the handler of trapped calls. An action that the kernel has reset is installed again for that.
pub fn may_run(
    thread: &Thread,
    signal: i32,
    info: &mut SigInfo,
    frame: &mut Context,
    fault: bool,
    action: &Action,
    install: fn(i32, &Action) -> isize,
) -> bool {
    sites::leave(thread, frame, true);
    vdso_call::begin_anew(thread, frame);
    let rip = frame.regs.rip;
    if !trap_entry::is_upper(rip) && !fault {
        // SAFETY: the frame is the top one of this thread.
        let left = unsafe { trap_entry::leave_window(thread, frame, true) };
        if !left && (thread.in_dispatch.load(Ordering::Relaxed) != 0 || trap_entry::in_stub(rip)) {
            if action.flags & libc::SA_RESETHAND as u64 != 0 {
                install(signal, action);
            }
            hold_back(thread, signal, info, frame);
            return false;
        }
    }
    if trap_entry::is_upper(frame.regs.rip) {
        syscall_restart::end_by_handler(frame, action.flags & libc::SA_RESTART as u64 != 0);
    }
    true
}

/// Defers the signal until the handler of trapped calls is done.
fn hold_back(thread: &Thread, signal: i32, info: &mut SigInfo, frame: &mut Context) {
    // A patched call has no frame that holds the mask.
    if thread.holds.swap(1, Ordering::Relaxed) == 0 {
        thread.held_mask.store(frame.mask, Ordering::Relaxed);
    }
    // The signal itself is blocked too: a fault signal may have been sent by a process.
    frame.mask |= (ALL_HELD | bit(signal)) & !never_blocked();
    thread.attention.store(1, Ordering::Relaxed);
    syscall::send_to_self(signal, info);
}

/// Redirects a signal for the application from a thread of the lower half to the process.
pub(super) fn pass_on(signal: i32, info: &mut SigInfo, frame: &mut Context, fault: bool) {
    if fault {
        // A fault of the lower half itself: the process dies of it, with a core dump if enabled.
        kernel_action(signal, libc::SIG_DFL, 0, 0);
        return;
    }
    frame.mask |= bit(signal);
    let pid = syscall::getpid();
    // Only the initial thread may send it with the code of `kill`; from other threads it has the code of `sigqueue`.
    if syscall::is_err(syscall::send_to_process(pid, signal, info)) {
        info.code = libc::SI_QUEUE;
        syscall::send_to_process(pid, signal, info);
    }
}
