//! Signal handling as the application sees it. Masks live in the frame, which sets them when the
//! thread goes on; SIGSYS and the stop signal are taken out of every mask on its way down.

use super::{fail, Call, Handler, Outcome};
use crate::context::Context;
use crate::raw::is_err;
use crate::signals::{self, Action, NEVER_BLOCKED, SIGNALS};
use crate::{stop, thread::Thread, user};
use core::sync::atomic::Ordering;

pub const HANDLERS: &[(i64, Handler)] = &[
    // The loader keeps the application's handlers, and calls them when no part of it is in the way.
    (libc::SYS_rt_sigaction, rt_sigaction),
    // Masks are kept in the frame of the call. SIGSYS and the stop signal are never blocked.
    (libc::SYS_rt_sigprocmask, rt_sigprocmask),
    (libc::SYS_rt_sigreturn, rt_sigreturn),
    // The alternate stack is set again when the call returns.
    (libc::SYS_sigaltstack, sigaltstack),
    // The mask is passed on without SIGSYS and the stop signal.
    (libc::SYS_rt_sigsuspend, rt_sigsuspend),
    // The mask is passed on without SIGSYS and the stop signal; the descriptor is the application's.
    (libc::SYS_signalfd, signalfd),
    (libc::SYS_signalfd4, signalfd),
];

const SET_SIZE: usize = 8;

fn rt_sigaction(call: &mut Call) -> Outcome {
    let [signal, new, old, size, ..] = call.args();
    let signal = signal as i32;
    if size != SET_SIZE || !(1..=SIGNALS as i32).contains(&signal) {
        return fail(libc::EINVAL);
    }
    let former = signals::get(signal);
    if new != 0 {
        if signal == libc::SIGKILL || signal == libc::SIGSTOP {
            return fail(libc::EINVAL);
        }
        let Ok(action) = user::read::<Action>(new) else {
            return fail(libc::EFAULT);
        };
        let result = if call.vforked() {
            signals::set_in_vfork_child(signal, &action)
        } else {
            signals::set(signal, &action)
        };
        if is_err(result) {
            return Outcome::Value(result);
        }
    }
    call.answer(old, former)
}

fn rt_sigprocmask(call: &mut Call) -> Outcome {
    const UNBLOCKABLE: u64 = signals::bit(libc::SIGKILL) | signals::bit(libc::SIGSTOP);
    let [how, set, old, size, ..] = call.args();
    if size != SET_SIZE {
        return fail(libc::EINVAL);
    }
    let former = call.frame().mask;
    if set != 0 {
        let Ok(set) = user::read::<u64>(set) else {
            return fail(libc::EFAULT);
        };
        let mask = match how as i32 {
            libc::SIG_BLOCK => former | set,
            libc::SIG_UNBLOCK => former & !set,
            libc::SIG_SETMASK => set,
            _ => return fail(libc::EINVAL),
        };
        call.frame().mask = mask & !(NEVER_BLOCKED | UNBLOCKABLE);
    }
    call.answer(old, former)
}

/// The application's handler is done: its own frame lies at the stack pointer.
fn rt_sigreturn(call: &mut Call) -> Outcome {
    let frame = call.frame().regs.rsp as *mut Context;
    go_back(call.thread, frame)
}

#[allow(unsafe_code)]
fn go_back(thread: &'static Thread, frame: *mut Context) -> ! {
    thread.attention.store(0, Ordering::Relaxed);
    if thread.stop_wanted() && !thread.in_lower() {
        stop::park_if_wanted(thread, frame);
    }
    // SAFETY: natively the kernel would take whatever lies there; so do we. FS is the upper one.
    unsafe { crate::dispatch::resume(frame) }
}

fn sigaltstack(call: &mut Call) -> Outcome {
    let args = call.args();
    let result = call.kernel(libc::SYS_sigaltstack, args);
    if result == 0 && args[0] != 0 {
        // The frame sets the stack again on return.
        let current = [0, &raw mut call.frame().stack as usize, 0, 0, 0, 0];
        call.kernel(libc::SYS_sigaltstack, current);
    }
    Outcome::Value(result)
}

/// The mask at an address, without our signals; None where there is none.
pub fn mask_argument(address: usize) -> Result<Option<u64>, user::Fault> {
    if address == 0 {
        return Ok(None);
    }
    Ok(Some(user::read::<u64>(address)? & !NEVER_BLOCKED))
}

/// Makes the call with argument `position`, the address of a mask, replaced by a copy without our
/// signals.
fn with_mask(call: &mut Call, position: usize) -> Outcome {
    let (nr, mut args) = (call.nr(), call.args());
    let Ok(mask) = mask_argument(args[position]) else {
        return fail(libc::EFAULT);
    };
    args[position] = mask.as_ref().map_or(0, |mask| mask as *const u64 as usize);
    let outcome = call.pass_with(nr, args);
    core::hint::black_box(mask);
    outcome
}

fn rt_sigsuspend(call: &mut Call) -> Outcome {
    with_mask(call, 0)
}

fn signalfd(call: &mut Call) -> Outcome {
    let outcome = with_mask(call, 1);
    super::files::returned(call, outcome)
}
