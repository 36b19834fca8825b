//! Threads that cannot be stopped for as long as their present call lasts: those in a call of the MPI library that does
//! not return when a checkpoint is pending, and those that the kernel lets no signal reach.
//!
//! A thread in an MPI function is marked as by the stop signal, although no stop is under way. It takes the mark away
//! when it leaves the function. So a thread that still has the mark, and will return to the same place, has been in the
//! same call since it was marked. A thread that waits makes calls in turn, and is recognised by their return addresses.
//!
//! A sample of a thread's registers is taken by the stop signal, which otherwise does nothing while no stop is under
//! way. The handler stores into atomics only.

use crate::interpose::signals::STOP_SIGNAL;
use crate::interpose::threads::{self, Thread, RUNNING};
use crate::sys::context::{restorer, Context};
use crate::sys::{syscall, user_copy};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::mem::offset_of;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Kernel id of the thread that is sampled; 0 for none. One is sampled at a time.
static WANTED: AtomicU32 = AtomicU32::new(0);
static TAKEN: AtomicBool = AtomicBool::new(false);
static SAMPLE: [AtomicUsize; 3] = [const { AtomicUsize::new(0) }; 3];
/// The stack from a little below the stack pointer on, and the number of its words that were copied.
static STACK: [AtomicUsize; STACK_WORDS] = [const { AtomicUsize::new(0) }; STACK_WORDS];
static COPIED: AtomicUsize = AtomicUsize::new(0);
/// Return addresses of the crossings that the thread is in, outermost first, and their number.
static CROSSINGS: [AtomicUsize; MOST_CROSSINGS] = [const { AtomicUsize::new(0) }; MOST_CROSSINGS];
static CROSSED: AtomicUsize = AtomicUsize::new(0);
static SAMPLING: Mutex<()> = Mutex::new(());

/// Words of the stack that are copied: 128 KiB. What is further out changes only when the thread leaves most of its
/// functions.
const STACK_WORDS: usize = 16 << 10;
/// Bytes below the stack pointer that a function without calls may use (System V ABI, 3.2.2).
const RED_ZONE: usize = 128;
/// Crossings that are noted.
const MOST_CROSSINGS: usize = 64;

/// Longest time for a thread to take its sample.
const SAMPLE_LIMIT: Duration = Duration::from_millis(100);

/// A thread in an MPI function, at the time of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InLibrary {
    /// Kernel thread id.
    pub real_tid: u32,
    /// Address to which the library will return.
    pub back: usize,
    /// Number of crossings that the thread is in.
    depth: usize,
    /// Whether it is in the same call as at the look before.
    pub since_last: bool,
}

/// All threads that run, as the kernel knows them.
pub fn running() -> Vec<u32> {
    all().map(|t| t.real_tid.load(Ordering::Acquire)).collect()
}

fn all() -> impl Iterator<Item = &'static Thread> {
    threads::all().filter(|t| t.state.load(Ordering::Acquire) == RUNNING)
}

/// The threads that are in the MPI library, but not in a retractable operation. `before` is the last result.
pub fn in_library(before: &[InLibrary]) -> Vec<InLibrary> {
    let found = all().filter_map(|thread| {
        let depth = thread.crossings().checked_sub(1)?;
        let back = thread.block.side.get(depth)?.load(Ordering::Acquire);
        if !thread.wraps() || thread.block.inside.load(Ordering::Acquire) != 0 {
            return None;
        }
        let real_tid = thread.real_tid.load(Ordering::Acquire);
        let same =
            |old: &&InLibrary| (old.real_tid, old.back, old.depth) == (real_tid, back, depth);
        let marked = thread.stop_wanted();
        thread.want_stop(true);
        Some(InLibrary {
            real_tid,
            back,
            depth,
            since_last: marked && before.iter().any(|old| same(&old)),
        })
    });
    found.collect()
}

/// What is known of a thread's stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackStart {
    /// Thread id as seen by the application.
    pub tid: u32,
    /// Whether the thread has called MPI before.
    pub calls_mpi: bool,
    /// Instruction, stack and frame pointer; none if the thread takes no signal.
    pub registers: Option<[usize; 3]>,
    /// Addresses in the upper half to which crossings return, outermost first.
    pub crossings: Vec<usize>,
    /// Address of the copied part of the stack, and its words. A thread that takes no signal has none.
    pub stack: (usize, Vec<usize>),
}

impl StackStart {
    /// A word of the stack as it was, if it was copied.
    pub fn word(&self, address: usize) -> Option<usize> {
        let (begin, words) = &self.stack;
        let distance = address.checked_sub(*begin)?;
        let aligned = distance.is_multiple_of(size_of::<usize>());
        let word = words.get(distance / size_of::<usize>()).copied();
        word.filter(|_| aligned)
    }
}

/// Samples a thread, by its kernel id.
pub fn sample(real_tid: u32) -> Option<StackStart> {
    let thread = all().find(|t| t.real_tid.load(Ordering::Acquire) == real_tid)?;
    let _one = SAMPLING.lock().ok()?;
    TAKEN.store(false, Ordering::Relaxed);
    WANTED.store(real_tid, Ordering::Release);
    let begun = Instant::now();
    syscall::tgkill(threads::real_pid(), real_tid, STOP_SIGNAL);
    while !TAKEN.load(Ordering::Acquire) && begun.elapsed() < SAMPLE_LIMIT {
        std::thread::sleep(Duration::from_millis(1));
    }
    WANTED.store(0, Ordering::Release);
    let load = |words: &[AtomicUsize], number: usize| -> Vec<usize> {
        let words = words.iter().take(number);
        words.map(|word| word.load(Ordering::Relaxed)).collect()
    };
    let tid = thread.tid();
    let calls_mpi = thread.calls_mpi();
    if !TAKEN.load(Ordering::Acquire) {
        return Some(StackStart {
            tid,
            calls_mpi,
            registers: None,
            crossings: load(&thread.block.side, thread.crossings()),
            stack: (0, vec![]),
        });
    }
    let registers = SAMPLE.each_ref().map(|word| word.load(Ordering::Relaxed));
    let [_, sp, _] = registers;
    Some(StackStart {
        tid,
        calls_mpi,
        registers: Some(registers),
        crossings: load(&CROSSINGS, CROSSED.load(Ordering::Relaxed)),
        stack: (
            sp.wrapping_sub(RED_ZONE),
            load(&STACK, COPIED.load(Ordering::Relaxed)),
        ),
    })
}

/// For the handler of the stop signal: takes the sample that is wanted of this thread. The stack is copied, since the
/// thread then goes on and changes it.
pub(super) fn take_sample(thread: &Thread, context: &Context) {
    let own = syscall::gettid();
    if WANTED.load(Ordering::Acquire) != own {
        return;
    }
    let regs = &context.regs;
    for (word, value) in SAMPLE.iter().zip([regs.rip, regs.rsp, regs.rbp]) {
        word.store(value, Ordering::Relaxed);
    }
    let below = regs.rsp.wrapping_sub(RED_ZONE);
    COPIED.store(user_copy::read_words(below, &STACK), Ordering::Relaxed);
    let crossings = thread.crossings().min(MOST_CROSSINGS);
    for (word, back) in CROSSINGS.iter().zip(&thread.block.side).take(crossings) {
        word.store(back.load(Ordering::Acquire), Ordering::Relaxed);
    }
    CROSSED.store(crossings, Ordering::Relaxed);
    // After the time limit another thread may be wanted.
    let still = WANTED.compare_exchange(own, 0, Ordering::Relaxed, Ordering::Relaxed);
    if still.is_ok() {
        TAKEN.store(true, Ordering::Release);
    }
}

/// Distances of the saved instruction, stack and frame pointer from the stack pointer of a handler that has returned to
/// the loader's restorer.
pub const SAVED_REGISTERS: [usize; 3] = [
    offset_of!(Context, regs.rip),
    offset_of!(Context, regs.rsp),
    offset_of!(Context, regs.rbp),
];

/// Address to which the loader's own handlers return.
pub fn handler_return() -> usize {
    restorer()
}
