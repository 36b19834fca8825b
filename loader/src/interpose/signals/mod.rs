//! Signals: the masks, the kernel's actions, and the signals that belong to Stasis.
//!
//! SIGSYS and the stop signal belong to Stasis: they are never blocked, and the application's handlers for them are
//! only recorded. So are those for signals that request checkpoints (`checkpoint_request.rs`). SIGSEGV is never
//! blocked, too, while it answers `cpuid` (`interpose/cpuid`). The application's actions are in `actions.rs`, those of
//! the lower half's libraries in `library_handlers.rs`; both deliver by `delivery.rs`.
//!
//! # Safety
//! The kernel reads or writes an [`Action`], which has the layout of its `sigaction`. A table's entries are atomics
//! because handlers read them without the lock.
#![allow(unsafe_code)]

pub mod actions;
pub mod checkpoint_request;
pub mod delivery;
pub mod earlier_frames;
pub mod library_handlers;
pub mod sender_ids;
pub mod startup;

use super::cpuid;
use crate::sys::context::{self, SigInfo};
use crate::sys::syscall;
pub use contract::STOP_SIGNAL;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Number of signals.
pub const SIGNALS: usize = 64;
/// Flag of actions that name their restorer.
pub const SA_RESTORER: u64 = 0x0400_0000;

/// Bit of a signal in a mask.
pub const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Signals that are never blocked in upper-half code.
pub fn never_blocked() -> u64 {
    const OURS: u64 = bit(libc::SIGSYS) | bit(STOP_SIGNAL);
    match cpuid::hides() {
        true => OURS | bit(libc::SIGSEGV),
        false => OURS,
    }
}

const FAULTS: u64 = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS);

/// All signals that can be blocked. Fault signals stay unblocked: a blocked fault kills silently, and a blocked SIGSYS
/// would kill at the next trapped call.
pub const ALL_HELD: u64 = !FAULTS;

/// Action of the application for one signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[repr(C)]
pub struct Action {
    /// Handler, or SIG_DFL or SIG_IGN.
    pub handler: usize,
    /// SA_ flags.
    pub flags: u64,
    /// Address to which the handler returns.
    pub restorer: usize,
    /// Signals blocked while the handler runs.
    pub mask: u64,
}

/// Action in a table.
pub struct Entry {
    handler: AtomicUsize,
    flags: AtomicU64,
    restorer: AtomicUsize,
    mask: AtomicU64,
}

impl Entry {
    /// Current action.
    pub fn get(&self) -> Action {
        Action {
            handler: self.handler.load(Ordering::Acquire),
            flags: self.flags.load(Ordering::Acquire),
            restorer: self.restorer.load(Ordering::Acquire),
            mask: self.mask.load(Ordering::Acquire),
        }
    }

    /// Changes the action.
    pub fn set(&self, action: &Action) {
        self.flags.store(action.flags, Ordering::Release);
        self.restorer.store(action.restorer, Ordering::Release);
        self.mask.store(action.mask, Ordering::Release);
        self.handler.store(action.handler, Ordering::Release);
    }

    /// Resets the handler, for SA_RESETHAND.
    pub fn forget_handler(&self) {
        self.handler.store(libc::SIG_DFL, Ordering::Release);
    }
}

/// Actions of all signals.
pub type Table = [Entry; SIGNALS];

/// Table of default actions.
pub const fn empty_table() -> Table {
    [const {
        Entry {
            handler: AtomicUsize::new(0),
            flags: AtomicU64::new(0),
            restorer: AtomicUsize::new(0),
            mask: AtomicU64::new(0),
        }
    }; SIGNALS]
}

/// Index of a signal in a table.
pub fn index(signal: i32) -> usize {
    (signal - 1) as usize & (SIGNALS - 1)
}

/// Sets the kernel's action: `handler` is lower-half code with the loader's restorer, or 0 or 1.
pub fn kernel_action(signal: i32, handler: usize, flags: u64, mask: u64) -> isize {
    let restorer = context::restorer();
    kernel_set(
        signal,
        &Action {
            handler,
            flags: flags | SA_RESTORER,
            restorer,
            mask,
        },
    )
}

fn kernel_set(signal: i32, action: &Action) -> isize {
    rt_sigaction(signal, Some(action), None)
}

fn kernel_get(signal: i32) -> Action {
    let mut action = Action::default();
    rt_sigaction(signal, None, Some(&mut action));
    action
}

fn rt_sigaction(signal: i32, new: Option<&Action>, old: Option<&mut Action>) -> isize {
    let new = new.map_or(0, |new| &raw const *new as usize);
    let old = old.map_or(0, |old| &raw mut *old as usize);
    let args = [signal as usize, new, old, size_of::<u64>(), 0, 0];
    // SAFETY: `Action` has the layout of the kernel's sigaction; the new one is read, the old one is written.
    unsafe { syscall::raw(libc::SYS_rt_sigaction as usize, args) }
}

/// Signals that request checkpoints, as a mask.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Whether the signal requests checkpoints and is not the application's.
pub fn is_taken(signal: i32) -> bool {
    TAKEN.load(Ordering::Acquire) & bit(signal) != 0
}

/// Whether the signal belongs to Stasis: actions that the application or a library sets are only recorded.
pub fn is_ours(signal: i32) -> bool {
    signal == libc::SIGSYS || signal == STOP_SIGNAL || is_taken(signal)
}

/// Action after exec of a signal that was not changed since: ignored or default.
pub fn ignored_or_default(signal: i32) -> Action {
    let ignored = kernel_get(signal).handler == libc::SIG_IGN;
    Action {
        handler: usize::from(ignored),
        ..Action::default()
    }
}

/// Whether the kernel raised the signal for the interrupted instruction; for users of `SigInfo`.
pub fn is_fault(signal: i32, info: &SigInfo) -> bool {
    let synchronous = matches!(
        signal,
        libc::SIGSEGV | libc::SIGBUS | libc::SIGFPE | libc::SIGILL | libc::SIGTRAP
    );
    synchronous && info.code > 0
}
