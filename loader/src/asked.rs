//! The process itself asks for a checkpoint: a signal comes that was given for that, or the program
//! opens [`PATH`].
//!
//! A signal that is taken is no more the application's: its handler for it is only remembered, as for
//! the stop signal. It is served on whichever thread the kernel chooses, one of the lower half's if the
//! application blocks it in all of its own; what it has interrupted goes on as after a stop.
//!
//! # Safety
//! The handler runs with either FS: no libc, no TLS, no allocation. The frame is the kernel's.
#![allow(unsafe_code)]

use crate::context::{Context, SigInfo};
use crate::signals::{self, SIGNALS};
use crate::thread::{self, Thread};
use crate::{dispatch, raw, vdso};
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A rank that opens it, in whatever language and way, asks for a checkpoint. Nothing can be there
/// natively, and nothing be made there, not even by root: a program that is not run by Stasis finds
/// that it does not exist.
pub const PATH: &CStr = c"/proc/stasis/checkpoint";
/// What is opened in its place.
pub const NOTHING: &CStr = c"/dev/null";

/// Signals that are taken, as a mask.
static TAKEN: AtomicU64 = AtomicU64::new(0);
/// How often each signal has asked, and, in the place of signal 0, the program.
static TIMES: [AtomicU32; SIGNALS + 1] = [const { AtomicU32::new(0) }; SIGNALS + 1];
/// Changes with each of them; the listener waits on it.
static EVENTS: AtomicU32 = AtomicU32::new(0);

/// Who has asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The program.
    ByProgram,
    /// This signal.
    BySignal(i32),
}

/// Takes signals for requests. Called again it takes back what a library has made its own.
pub fn take_signals(wanted: impl IntoIterator<Item = i32>) {
    for signal in wanted {
        TAKEN.fetch_or(signals::bit(signal), Ordering::AcqRel);
        let flags = (libc::SA_SIGINFO | libc::SA_RESTART) as u64;
        let handler = on_signal as *const () as usize;
        signals::kernel_action(signal, handler, flags, signals::ALL_HELD);
    }
}

/// Whether a signal is not the application's.
pub fn is_taken(signal: i32) -> bool {
    TAKEN.load(Ordering::Acquire) & signals::bit(signal) != 0
}

/// In a forked child, which is no rank: what was taken is the application's again.
pub fn after_fork() {
    let taken = TAKEN.swap(0, Ordering::AcqRel);
    for signal in (1..=SIGNALS as i32).filter(|s| taken & signals::bit(*s) != 0) {
        signals::set(signal, &signals::get(signal));
    }
}

/// What is to be opened in the place of a path that asks for a checkpoint.
pub fn instead_of(path: &CStr) -> Option<&'static CStr> {
    (path == PATH && !thread::is_forked_child()).then_some(NOTHING)
}

/// That has been opened. Not before: the very checkpoint that is asked for may interrupt the call, which
/// is then made again.
pub fn by_program() {
    note(0);
}

fn note(who: usize) {
    TIMES[who].fetch_add(1, Ordering::AcqRel);
    EVENTS.fetch_add(1, Ordering::AcqRel);
    raw::futex_wake(&EVENTS);
}

/// The handler of signals that are taken.
unsafe extern "C" fn on_signal(signal: i32, _info: *mut SigInfo, frame: *mut Context) {
    if let Some(thread) = Thread::interrupted() {
        // A call that this signal has interrupted is made again.
        // SAFETY: the kernel's frame, on top of this thread's stack, ours to change.
        unsafe {
            let context = &mut *frame;
            let _ =
                dispatch::leave_window(thread, context, false) || vdso::begin_anew(thread, context);
        }
    }
    note((signal as usize).min(SIGNALS));
}

/// Hears of every request; for one thread of the lower half.
#[derive(Debug)]
pub struct Listener {
    told: [u32; SIGNALS + 1],
}

impl Listener {
    /// Hears also of what was asked for before it was made. From now on signals that are taken are let
    /// through to the calling thread.
    pub fn new() -> Self {
        raw::set_mask(!TAKEN.load(Ordering::Acquire));
        Listener {
            told: [0; SIGNALS + 1],
        }
    }

    /// Waits for the next request.
    pub fn wait(&mut self) -> Asked {
        loop {
            let seen = EVENTS.load(Ordering::Acquire);
            for (who, (told, times)) in self.told.iter_mut().zip(&TIMES).enumerate() {
                let times = times.load(Ordering::Acquire);
                if *told != times {
                    // Those that came together are one.
                    *told = times;
                    return match who {
                        0 => Asked::ByProgram,
                        signal => Asked::BySignal(signal as i32),
                    };
                }
            }
            raw::futex_wait(&EVENTS, seen, 0);
        }
    }
}

impl Default for Listener {
    fn default() -> Self {
        Self::new()
    }
}
