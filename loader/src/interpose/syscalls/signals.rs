//! Signal handling of the application. The frame holds the mask, which takes effect when the thread resumes; SIGSYS and
//! the stop signal are removed from every mask.

use super::{fail, Call, Handler, Outcome};
use crate::interpose::signals::actions;
use crate::interpose::signals::earlier_frames::{self, Room};
use crate::interpose::signals::{self, never_blocked, Action, SIGNALS};
use crate::interpose::threads::stop;
use crate::interpose::threads::Thread;
use crate::interpose::trap_entry;
use crate::sys::context::Context;
use crate::sys::fp_state::{Words, LEGACY_COMPONENTS};
use crate::sys::syscall::is_err;
use crate::sys::user_copy;
use core::sync::atomic::Ordering;

pub const HANDLERS: &[(i64, Handler)] = &[
    // The loader keeps the application's handlers, and calls them when none of its own code is interrupted.
    (libc::SYS_rt_sigaction, rt_sigaction),
    // Masks are kept in the frame of the call. SIGSYS and the stop signal are never blocked.
    (libc::SYS_rt_sigprocmask, rt_sigprocmask),
    (libc::SYS_rt_sigreturn, rt_sigreturn),
    // The alternate stack is set again when the call returns.
    (libc::SYS_sigaltstack, sigaltstack),
    // SIGSYS and the stop signal are removed from the mask.
    (libc::SYS_rt_sigsuspend, rt_sigsuspend),
    // SIGSYS and the stop signal are removed from the mask; the descriptor is the application's.
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
    let former = actions::get(signal);
    if new != 0 {
        if signal == libc::SIGKILL || signal == libc::SIGSTOP {
            return fail(libc::EINVAL);
        }
        let Ok(action) = user_copy::read::<Action>(new) else {
            return fail(libc::EFAULT);
        };
        let result = if call.vforked() {
            actions::set_in_vfork_child(signal, &action)
        } else {
            actions::set(signal, &action)
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
        let Ok(set) = user_copy::read::<u64>(set) else {
            return fail(libc::EFAULT);
        };
        let mask = match how as i32 {
            libc::SIG_BLOCK => former | set,
            libc::SIG_UNBLOCK => former & !set,
            libc::SIG_SETMASK => set,
            _ => return fail(libc::EINVAL),
        };
        call.frame().mask = mask & !(never_blocked() | UNBLOCKABLE);
    }
    call.answer(old, former)
}

/// Return from the application's handler: its own frame lies at the stack pointer.
fn rt_sigreturn(call: &mut Call) -> Outcome {
    let frame = call.frame().regs.rsp;
    // Natively the kernel finds a wrong address, too.
    let _ = earlier_frames::adapt(frame, |_| {
        // The present frame is abandoned, and stays mapped.
        let area = call.frame().fpstate;
        let words = Words::of(area).ok().flatten();
        Room {
            area,
            components: words.map_or(LEGACY_COMPONENTS, |words| words.components()),
        }
    });
    go_back(call.thread, frame as *mut Context)
}

#[allow(unsafe_code)]
fn go_back(thread: &'static Thread, frame: *mut Context) -> ! {
    thread.attention.store(0, Ordering::Relaxed);
    if thread.stop_wanted() && !thread.in_lower() {
        stop::park_if_wanted(thread, frame);
    }
    // SAFETY: natively the kernel would also use any frame there. FS is the upper one.
    unsafe { trap_entry::resume(frame) }
}

fn sigaltstack(call: &mut Call) -> Outcome {
    let args = call.args();
    let result = call.kernel(libc::SYS_sigaltstack, args);
    if result == 0 && args[0] != 0 {
        // The return through the frame sets the stack again.
        let current = [0, &raw mut call.frame().stack as usize, 0, 0, 0, 0];
        call.kernel(libc::SYS_sigaltstack, current);
    }
    Outcome::Value(result)
}

/// Mask at an address, without SIGSYS and the stop signal; None for a null address.
pub fn mask_argument(address: usize) -> Result<Option<u64>, user_copy::Fault> {
    if address == 0 {
        return Ok(None);
    }
    Ok(Some(user_copy::read::<u64>(address)? & !never_blocked()))
}

/// Makes the call with argument `position`, the address of a mask, replaced by a copy without SIGSYS and the stop
/// signal.
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
