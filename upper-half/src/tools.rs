//! The debugging tools. A call that a tool may change tests one word, and goes its usual way while that is zero. The
//! lower half says which tools are on: at MPI_Init, and again at each restart.
//!
//! # Safety
//! A service gets a slice with its length.
#![allow(unsafe_code)]

use crate::crossing::stubs::service;
use crate::runtime::lock::Lock;
use contract::{gate, CUDA, TOOLS, TOOL_PROFILE};
use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering};

/// Bits of tools ([`contract::TOOLS`]), and [`POLLS`], [`RECORDED`] and [`CUDA`].
static WORD: AtomicU32 = AtomicU32::new(0);

/// Bit of the word: operations are under way that only the upper half brings forward. So calls that wait must not wait
/// in the library.
pub(crate) const POLLS: u32 = 1;
/// Bit of the word: the run is recorded or replayed.
pub(crate) const RECORDED: u32 = 2;

/// Whether calls must look for what tools want. A load and a branch that is never taken in a job without tools.
#[inline(always)]
pub fn any() -> bool {
    WORD.load(Ordering::Relaxed) != 0
}

/// Whether a tool is on that may change what a call does.
#[inline(always)]
pub(crate) fn any_that_changes() -> bool {
    is_set(!(TOOL_PROFILE | CUDA))
}

/// Whether the tool with this bit is the only one that is on, and is told of the calls of all threads.
#[inline(always)]
pub(crate) fn is_only(bit: u32) -> bool {
    WORD.load(Ordering::Relaxed) == bit && UNTOLD_THREADS.load(Ordering::Relaxed) == 0
}

/// Whether this bit of the word is set.
#[inline(always)]
pub(crate) fn is_set(bit: u32) -> bool {
    WORD.load(Ordering::Relaxed) & bit != 0
}

/// Sets or clears a bit of the word.
pub(crate) fn set(bit: u32, to: bool) {
    match to {
        true => WORD.fetch_or(bit, Ordering::Relaxed),
        false => WORD.fetch_and(!bit, Ordering::Relaxed),
    };
}

thread_local! {
    /// See [`untold`].
    static UNTOLD: Cell<bool> = const { Cell::new(false) };
}
/// Threads for which it is set. A look at a variable of a thread is a call.
static UNTOLD_THREADS: AtomicU32 = AtomicU32::new(0);

/// Whether the thread's calls are parts of a larger call. The tools were told of the larger call, and are not told of
/// its parts.
#[inline(always)]
pub(crate) fn untold() -> bool {
    UNTOLD_THREADS.load(Ordering::Relaxed) != 0 && this_thread_is_untold()
}

/// Not a part of [`untold`]: the compiler would move the call in front of the test.
#[cold]
#[inline(never)]
fn this_thread_is_untold() -> bool {
    UNTOLD.get()
}

/// Makes the thread's calls parts of the present one, or not. Returns what they were.
pub(crate) fn set_untold(to: bool) -> bool {
    let before = UNTOLD.replace(to);
    match (before, to) {
        (false, true) => UNTOLD_THREADS.fetch_add(1, Ordering::Relaxed),
        (true, false) => UNTOLD_THREADS.fetch_sub(1, Ordering::Relaxed),
        _ => 0,
    };
    before
}

/// From now on the loader can set bits of the word.
pub(crate) fn announce() {
    let address = core::ptr::from_ref(&WORD) as usize;
    gate().tools.store(address, Ordering::Release);
}

/// The bits of the tools that the lower half wants on.
pub(crate) fn wanted() -> u32 {
    gate().lower.features.load(Ordering::Relaxed) & TOOLS
}

/// The options of a tool that is on, as the command line has them.
pub(crate) fn options(tool: u32) -> String {
    let mut text = Vec::new();
    loop {
        // SAFETY: a slice with its length.
        let length = unsafe { service::tool_options(tool, text.as_mut_ptr(), text.len()) };
        let fits = length <= text.len();
        text.resize(length, 0);
        if fits {
            return String::from_utf8_lossy(&text).into_owned();
        }
    }
}

/// Operations under way that only the upper half brings forward: schedules of collective operations that are reduced to
/// messages, and receives that are not posted below.
static HERE: Lock<u32> = Lock::new(0);

/// Such an operation begins. From now on no call waits in the library.
pub(crate) fn begins_here() {
    let mut number = HERE.lock();
    *number += 1;
    set(POLLS, true);
}

/// Such an operation is over, or goes on in the library.
pub(crate) fn ends_here() {
    let mut number = HERE.lock();
    *number -= 1;
    set(POLLS, *number > 0);
}
