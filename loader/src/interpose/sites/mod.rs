//! Patched system calls: the `syscall` instructions of the application that run often jump to a trampoline instead of
//! raising SIGSYS.
//!
//! SIGSYS (`sud.rs`) serves every call that is not patched, so a call need not be patched, and a patch may be taken
//! back at any time. An instruction is patched when it has raised SIGSYS some times ([`trapped`]), in one of the two
//! shapes of `shape.rs`, and if [`text`] finds that its memory is code that nobody changes.
//!
//! - While all threads are stopped, all code is as the application has loaded it (`withdraw`). So no image holds a
//!   patch, and no state of a thread an address of a trampoline (`entry.rs`). What ran often before a stop is patched
//!   again at its first SIGSYS after it.
//! - A patch is taken back before a call of the application changes the mapping ([`before_remap`]).
//! - A child of a fork has a copy of everything. A vfork child patches nothing, and its calls have no handler here.
//!
//! `STASIS_SYSCALL_SITES=off` in the environment switches it off. It is off for a process that a debugger traces, which
//! is looked for now and then, and where code may not be made writable.

mod entry;
pub mod kind;
pub mod length;
mod shape;
pub mod slots;
mod table;
mod text;
mod write;

pub use entry::{end_by_trap, leave};
pub use table::{before_remap, patched, with_lock, withdraw};
pub use write::{register, Writable};

use crate::sys::vectors;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Variable in the environment that switches the patches off.
const SWITCH: &str = "STASIS_SYSCALL_SITES";

static ON: AtomicBool = AtomicBool::new(false);

/// Number of times that an instruction raises SIGSYS before it is patched. A patch costs as much as some of them.
const OFTEN: u64 = 8;
/// Number of times after an attempt that has failed, before the next one: the code may be another one by then.
const RETRY: u64 = 1000;
/// The instruction is patched when it raises SIGSYS again.
const READY: u64 = COUNT_BITS;
const COUNT_BITS: u64 = 0xffff;
const ADDRESS_SHIFT: u32 = 16;

/// Entries of the table of counts. Instructions that share an entry are counted anew when the other one traps.
const COUNTS: usize = 1024;
/// The address behind an instruction, and the number of times that it has raised SIGSYS.
static TRAPS: [AtomicU64; COUNTS] = [const { AtomicU64::new(0) }; COUNTS];

/// Prepares the trampolines, unless they are switched off.
pub fn start() {
    let off = std::env::var_os(SWITCH).is_some_and(|value| value == "off");
    let on = !off && vectors::can_be_kept() && (ON.load(Ordering::Relaxed) || slots::map());
    ON.store(on, Ordering::Release);
}

/// Switches the patches off for good.
fn stop() {
    ON.store(false, Ordering::Relaxed);
}

/// Counts that the instruction before `back` has raised SIGSYS for this call, and patches it if it does so often.
/// `served`: a `SiteKind` that is not `Trap`.
pub fn trapped(back: usize, number: usize, served: u8) {
    if !ON.load(Ordering::Relaxed) {
        return;
    }
    let entry = &TRAPS[(back ^ (back >> 10)) % COUNTS];
    let seen = entry.load(Ordering::Relaxed);
    let count = match seen >> ADDRESS_SHIFT == back as u64 {
        true => seen & COUNT_BITS,
        false => READY - OFTEN + 1,
    };
    let next = match count {
        READY if table::patch(back, number, served) == Some(false) => READY - RETRY,
        READY => READY,
        count => count + 1,
    };
    entry.store((back as u64) << ADDRESS_SHIFT | next, Ordering::Relaxed);
}
