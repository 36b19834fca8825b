//! Signal handling as the application sees it. Masks live in the frame, which sets them when the
//! thread goes on; SIGSYS and the stop signal are taken out of every mask on its way down.

use super::{fail, Call, Handler, Outcome};
use crate::context::Context;
use crate::raw::is_err;
use crate::signals::{self, Action, NEVER_BLOCKED, SIGNALS};
use crate::{stop, thread::Thread};
use core::sync::atomic::Ordering;

pub const HANDLERS: &[(i64, Handler)] = &[
    (libc::SYS_rt_sigaction, rt_sigaction),
    (libc::SYS_rt_sigprocmask, rt_sigprocmask),
    (libc::SYS_rt_sigreturn, rt_sigreturn),
    (libc::SYS_sigaltstack, sigaltstack),
    (libc::SYS_rt_sigsuspend, rt_sigsuspend),
    (libc::SYS_rt_sigtimedwait, rt_sigtimedwait),
    (libc::SYS_signalfd, signalfd),
    (libc::SYS_signalfd4, signalfd),
    (libc::SYS_ppoll, ppoll),
    (libc::SYS_pselect6, pselect6),
    (libc::SYS_epoll_pwait, epoll_pwait),
    (libc::SYS_epoll_pwait2, epoll_pwait),
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
        let action: Action = call.read(new);
        let result = if call.vforked() {
            signals::set_in_vfork_child(signal, &action)
        } else {
            signals::set(signal, &action)
        };
        if is_err(result) {
            return Outcome::Value(result);
        }
    }
    call.write(old, former);
    Outcome::Value(0)
}

fn rt_sigprocmask(call: &mut Call) -> Outcome {
    const UNBLOCKABLE: u64 = signals::bit(libc::SIGKILL) | signals::bit(libc::SIGSTOP);
    let [how, set, old, size, ..] = call.args();
    if size != SET_SIZE {
        return fail(libc::EINVAL);
    }
    let former = call.frame().mask;
    if set != 0 {
        let set: u64 = call.read(set);
        let mask = match how as i32 {
            libc::SIG_BLOCK => former | set,
            libc::SIG_UNBLOCK => former & !set,
            libc::SIG_SETMASK => set,
            _ => return fail(libc::EINVAL),
        };
        call.frame().mask = mask & !(NEVER_BLOCKED | UNBLOCKABLE);
    }
    call.write(old, former);
    Outcome::Value(0)
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

/// Makes the call with argument `position`, the address of a mask, replaced by a copy without our
/// signals.
fn with_mask(call: &mut Call, position: usize) -> Outcome {
    let (nr, mut args) = (call.nr(), call.args());
    let mut mask = 0u64;
    if args[position] != 0 {
        mask = call.read::<u64>(args[position]) & !NEVER_BLOCKED;
        args[position] = &raw mut mask as usize;
    }
    let outcome = call.pass_with(nr, args);
    core::hint::black_box(mask);
    outcome
}

fn rt_sigsuspend(call: &mut Call) -> Outcome {
    with_mask(call, 0)
}

fn rt_sigtimedwait(call: &mut Call) -> Outcome {
    with_mask(call, 0)
}

fn signalfd(call: &mut Call) -> Outcome {
    let outcome = with_mask(call, 1);
    super::files::returned(call, outcome)
}

fn ppoll(call: &mut Call) -> Outcome {
    with_mask(call, 3)
}

fn epoll_pwait(call: &mut Call) -> Outcome {
    with_mask(call, 4)
}

fn pselect6(call: &mut Call) -> Outcome {
    let (nr, mut args) = (call.nr(), call.args());
    let (mut mask, mut pair) = (0u64, [0usize; 2]);
    if args[5] != 0 {
        pair = call.read(args[5]);
        if pair[0] != 0 {
            mask = call.read::<u64>(pair[0]) & !NEVER_BLOCKED;
            pair[0] = &raw mut mask as usize;
        }
        args[5] = &raw mut pair as usize;
    }
    let outcome = call.pass_with(nr, args);
    core::hint::black_box((mask, pair));
    outcome
}
