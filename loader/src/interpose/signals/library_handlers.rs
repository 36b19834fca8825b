//! Signal handlers of the lower half's libraries, for example Open MPI's for crashes.
//!
//! Those libraries are linked to [`sigaction`] and the others here and not to those of their C library
//! (`lower-half/build.rs` exports them). For a library's handler the kernel gets [`entry`], which runs it with the
//! lower FS on any interrupted thread. The application has priority: the kernel keeps its action for a signal. A
//! library that sets an action for this signal, too, gets success, but its action is only recorded.
//!
//! To add a function by which libraries install handlers: here, and its name to `lower-half/build.rs`.
//!
//! # Safety
//! The functions have the signatures and the meaning of glibc's. They run before `main`, too, and with the lower FS,
//! but use no TLS except for `errno`. Handlers run while all signals but those of faults are blocked, so that the
//! thread neither parks nor runs the application's code above them.
#![allow(unsafe_code)]

use super::{actions, delivery};
use crate::interpose::cpuid;
use crate::interpose::signals::{self, Action, Entry, ALL_HELD};
use crate::interpose::threads::{self, Thread};
use crate::sys::context::{Context, SigInfo};
use crate::sys::{cpu, syscall, zeros};
use core::ffi::c_int;
use nix::errno::Errno;

/// Actions of the libraries.
static TABLE: signals::Table = signals::empty_table();

/// Signals reserved by glibc.
const OF_GLIBC: [c_int; 2] = [32, 33];

fn of(signal: i32) -> &'static Entry {
    &TABLE[signals::index(signal)]
}

/// Kernel's handler for a handler of a library.
unsafe extern "C" fn entry(signal: i32, info: *mut SigInfo, frame: *mut Context) {
    let entry = of(signal);
    let action = entry.get();
    if action.handler <= libc::SIG_IGN {
        return;
    }
    let former = cpu::fs();
    if let Some(thread) = Thread::interrupted() {
        // SAFETY: the kernel's frame is on top of this thread's stack, and only this handler uses it.
        let (frame, facts) = unsafe { (&mut *frame, &mut *info) };
        let fault = signals::is_fault(signal, facts);
        if !delivery::may_run(thread, signal, facts, frame, fault, &action, install) {
            return;
        }
        // SAFETY: all signals are blocked, and only lower-half code runs until FS is restored.
        unsafe { cpu::set_fs(thread.lower_fs()) };
    }
    if action.flags & libc::SA_RESETHAND as u64 != 0 {
        entry.forget_handler();
    }
    // SAFETY: the library gave it as a handler; one without SA_SIGINFO ignores the other arguments.
    unsafe {
        let handler: unsafe extern "C" fn(i32, *mut SigInfo, *mut Context) =
            core::mem::transmute(action.handler);
        handler(signal, info, frame);
        cpu::set_fs(former);
    }
}

/// Installs the kernel's action for a library's.
fn install(signal: i32, action: &Action) -> isize {
    match action.handler > libc::SIG_IGN {
        true => {
            let handler = entry as *const () as usize;
            let flags = action.flags | libc::SA_SIGINFO as u64;
            signals::kernel_action(signal, handler, flags, action.mask | ALL_HELD)
        }
        false => signals::kernel_action(signal, action.handler, action.flags, action.mask),
    }
}

/// Removes the libraries' action for this signal.
pub fn forget(signal: i32) {
    of(signal).set(&Action::default());
}

/// Placeholder for a handler of the application, which a library may want to call after its own.
extern "C" fn of_the_application() {}

/// Former action, as reported to a library.
fn former(signal: i32) -> Action {
    let of_application = actions::get(signal);
    if of_application == Action::default() {
        return match of(signal).get() {
            none if none == Action::default() => signals::ignored_or_default(signal),
            own => own,
        };
    }
    Action {
        handler: match of_application.handler > libc::SIG_IGN {
            true => of_the_application as *const () as usize,
            false => of_application.handler,
        },
        ..of_application
    }
}

/// Changes a library's action; returns the former one, or an error number.
fn change(signal: i32, new: Option<Action>) -> Result<Action, i32> {
    let known = (1..=signals::SIGNALS as i32).contains(&signal) && !OF_GLIBC.contains(&signal);
    let fixed = new.is_some() && matches!(signal, libc::SIGKILL | libc::SIGSTOP);
    if !known || fixed {
        return Err(libc::EINVAL);
    }
    // A handler of the application may run on this thread, and change the same table.
    let mask = syscall::block(ALL_HELD);
    let result = actions::with_lock(|| {
        let former = former(signal);
        let Some(new) = new else {
            return Ok(former);
        };
        let result = if !threads::is_own_process() {
            // A child that the library has created runs only library code, and may share this memory.
            signals::kernel_action(signal, new.handler, new.flags, new.mask)
        } else {
            of(signal).set(&new);
            let kept = signals::is_ours(signal) || cpuid::takes(signal);
            match kept || actions::get(signal) != Action::default() {
                true => 0,
                false => install(signal, &new),
            }
        };
        match syscall::is_err(result) {
            true => Err(-result as i32),
            false => Ok(former),
        }
    });
    syscall::set_mask(mask);
    result
}

/// Kernel's mask in glibc's, which is longer.
fn mask_of(set: &libc::sigset_t) -> u64 {
    // SAFETY: glibc's has 128 bytes, of which the first 8 are the kernel's.
    unsafe { (set as *const libc::sigset_t).cast::<u64>().read() }
}

fn answer(result: Result<Action, i32>, failed: usize) -> usize {
    match result {
        Ok(former) => former.handler,
        Err(number) => {
            // This is lower-half code, which runs with the lower FS.
            Errno::set_raw(number);
            failed
        }
    }
}

/// As glibc's.
///
/// # Safety
/// As glibc's.
#[no_mangle]
pub unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the pointer is null or valid, as sigaction requires.
    let new = unsafe { new.as_ref() }.map(|new| Action {
        handler: new.sa_sigaction,
        flags: new.sa_flags as u32 as u64,
        restorer: 0,
        mask: mask_of(&new.sa_mask),
    });
    let result = change(signal, new);
    if let (Ok(former), false) = (result, old.is_null()) {
        // SAFETY: the pointer is valid, as sigaction requires; zeros are an empty set.
        unsafe {
            old.write(zeros::value());
            (*old).sa_sigaction = former.handler;
            (*old).sa_flags = (former.flags & !signals::SA_RESTORER) as c_int;
            (&raw mut (*old).sa_mask).cast::<u64>().write(former.mask);
        }
    }
    match answer(result, libc::SIG_ERR) {
        libc::SIG_ERR => -1,
        _ => 0,
    }
}

fn simple(signal: c_int, handler: usize, flags: c_int, mask: u64) -> usize {
    let action = Action {
        handler,
        flags: flags as u32 as u64,
        restorer: 0,
        mask,
    };
    answer(change(signal, Some(action)), libc::SIG_ERR)
}

/// As glibc's: the handler stays, the signal is blocked while it runs, calls are restarted after it.
#[no_mangle]
pub extern "C" fn signal(signal: c_int, handler: usize) -> usize {
    let own = u32::try_from(signal - 1)
        .ok()
        .and_then(|n| 1u64.checked_shl(n));
    simple(signal, handler, libc::SA_RESTART, own.unwrap_or(0))
}

/// As glibc's [`signal`].
#[no_mangle]
pub extern "C" fn bsd_signal(number: c_int, handler: usize) -> usize {
    signal(number, handler)
}

/// As glibc's [`signal`].
#[no_mangle]
pub extern "C" fn ssignal(number: c_int, handler: usize) -> usize {
    signal(number, handler)
}

/// As glibc's: the handler is reset before its first run, and blocks nothing.
#[no_mangle]
pub extern "C" fn sysv_signal(signal: c_int, handler: usize) -> usize {
    simple(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER, 0)
}

/// As glibc's [`sysv_signal`]: `signal` for a program in strict standard C.
#[no_mangle]
pub extern "C" fn __sysv_signal(signal: c_int, handler: usize) -> usize {
    sysv_signal(signal, handler)
}
