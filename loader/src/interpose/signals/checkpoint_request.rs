//! Requests for a checkpoint from within the process: by a configured signal, or by the program, which opens [`PATH`].
//!
//! Such a signal belongs to Stasis: the application's handler for it is only recorded, as for the stop signal. The
//! handler runs on any thread that the kernel chooses, one of the lower half's if the application blocks it in all of
//! its own. An interrupted call is repeated, as after a stop.
//!
//! # Safety
//! The handler runs with either FS: no libc, no TLS, no allocation. The frame is the kernel's.
#![allow(unsafe_code)]

use super::actions;
use crate::interpose::signals::{self, SIGNALS, TAKEN};
use crate::interpose::threads::{self, Thread};
use crate::interpose::{sites, trap_entry, vdso_call};
use crate::sys::context::{Context, SigInfo};
use crate::sys::syscall;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, Ordering};

/// Path whose open, by any call, requests a checkpoint. No file can exist or be created there natively, not even by
/// root: a program that runs without Stasis gets ENOENT.
pub const PATH: &CStr = c"/proc/stasis/checkpoint";
/// File that is opened instead.
pub const NOTHING: &CStr = c"/dev/null";

/// Number of requests by each signal and, at index 0, by the program.
static TIMES: [AtomicU32; SIGNALS + 1] = [const { AtomicU32::new(0) }; SIGNALS + 1];
/// Futex that changes with each request; the listener waits on it.
static EVENTS: AtomicU32 = AtomicU32::new(0);

/// Source of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestSource {
    /// The program.
    ByProgram,
    /// This signal.
    BySignal(i32),
}

/// Takes signals for requests. A repeated call takes back those that a library has handled since.
pub fn take_signals(wanted: impl IntoIterator<Item = i32>) {
    for signal in wanted {
        TAKEN.fetch_or(signals::bit(signal), Ordering::AcqRel);
        let flags = (libc::SA_SIGINFO | libc::SA_RESTART) as u64;
        let handler = on_signal as *const () as usize;
        signals::kernel_action(signal, handler, flags, signals::ALL_HELD);
    }
}

/// Returns the taken signals to the application in a forked child, which is not a rank.
pub fn after_fork() {
    let taken = TAKEN.swap(0, Ordering::AcqRel);
    for signal in (1..=SIGNALS as i32).filter(|s| taken & signals::bit(*s) != 0) {
        actions::set(signal, &actions::get(signal));
    }
}

/// File to open instead of a path that requests a checkpoint.
pub fn instead_of(path: &CStr) -> Option<&'static CStr> {
    (path == PATH && !threads::is_forked_child()).then_some(NOTHING)
}

/// Counts a request after its open. An earlier count would let the requested checkpoint interrupt the call, which would
/// then be repeated.
pub fn by_program() {
    note(0);
}

fn note(who: usize) {
    TIMES[who].fetch_add(1, Ordering::AcqRel);
    EVENTS.fetch_add(1, Ordering::AcqRel);
    syscall::futex_wake(&EVENTS);
}

/// Handler of taken signals.
unsafe extern "C" fn on_signal(signal: i32, _info: *mut SigInfo, frame: *mut Context) {
    if let Some(thread) = Thread::interrupted() {
        // A call that this signal has interrupted is repeated. SAFETY: the kernel's frame is on top of this thread's
        // stack, and only this handler uses it.
        unsafe {
            let context = &mut *frame;
            let _ = sites::leave(thread, context, false)
                || trap_entry::leave_window(thread, context, false)
                || vdso_call::begin_anew(thread, context);
        }
    }
    note((signal as usize).min(SIGNALS));
}

/// Listener for all requests; for one thread of the lower half.
#[derive(Debug)]
pub struct RequestListener {
    told: [u32; SIGNALS + 1],
}

impl RequestListener {
    /// Listener that also reports requests made before its creation. The calling thread unblocks the taken signals.
    pub fn new() -> Self {
        syscall::set_mask(!TAKEN.load(Ordering::Acquire));
        RequestListener {
            told: [0; SIGNALS + 1],
        }
    }

    /// Waits for the next request.
    pub fn wait(&mut self) -> RequestSource {
        loop {
            let seen = EVENTS.load(Ordering::Acquire);
            for (who, (told, times)) in self.told.iter_mut().zip(&TIMES).enumerate() {
                let times = times.load(Ordering::Acquire);
                if *told != times {
                    // Simultaneous requests count as one.
                    *told = times;
                    return match who {
                        0 => RequestSource::ByProgram,
                        signal => RequestSource::BySignal(signal as i32),
                    };
                }
            }
            syscall::futex_wait(&EVENTS, seen, 0);
        }
    }
}

impl Default for RequestListener {
    fn default() -> Self {
        Self::new()
    }
}
