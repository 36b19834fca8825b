//! Threads of the upper half: their table. `lifecycle.rs` creates and ends them, `stop.rs` stops them.
//!
//! Each has a [`Thread`] in lower-half memory, to which its GS base points. It starts with the `ThreadBlock` that both
//! halves know. Every thread but the initial one is a thread of the lower C library that has moved to the upper stack
//! and FS, so that it has a valid TLS in both.
//!
//! # Safety
//! Slots are never unmapped, so references to them are always valid. Fields that other threads read, and those of
//! `block`, which assembly and handlers change, are atomics. `scratch` is accessed by its own thread only.
#![allow(unsafe_code)]

pub mod current_call;
pub mod held;
pub mod lifecycle;
pub mod stop;

use super::{signals, sud};
use crate::error::LoadError;
use crate::load::gate;
use crate::sys::spin_lock::Spin;
use crate::sys::zeros::{self, InChild, Zeros};
use crate::sys::{context, cpu, syscall, vectors};
use contract::{SharedThreadBlock, COUNTED, COUNT_CALLS, NO_CALL_YET, STOP_WANTED};
use core::cell::UnsafeCell;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::OnceLock;

/// The slot is not in use.
pub const FREE: u32 = 0;
/// Being created; not yet in upper-half code.
pub const STARTING: u32 = 1;
/// Running.
pub const RUNNING: u32 = 2;
/// Stopped; its frame is its state.
pub const PARKED: u32 = 3;
/// Stopped, with a job to run (see `stop.rs`).
pub const JOB: u32 = 4;
/// Initial thread after its exit: it waits for the process to end.
pub const ENDED: u32 = 5;

/// Threads that an upper half can have at a time.
const MAX_THREADS: usize = 2048;

/// A thread of the upper half.
#[repr(C, align(64))]
pub struct Thread {
    /// Block shared with the upper half.
    pub block: SharedThreadBlock,
    /// Non-zero while the handler of trapped system calls runs.
    pub in_dispatch: AtomicU32,
    /// Non-zero when a system call must not be started, because an event waits for the handler to end.
    pub attention: AtomicU32,
    /// Non-zero when `held_mask` is the application's mask. The entry of a patched call clears it with `attention`.
    pub holds: AtomicU32,
    /// One of the states above; also the futex on which a parked thread waits.
    pub state: AtomicU32,
    /// Kernel thread id.
    pub real_tid: AtomicU32,
    /// The frame to resume (valid when PARKED or STARTING).
    pub frame: AtomicUsize,
    /// Address to clear and wake at the thread's end.
    pub clear_tid: AtomicUsize,
    /// Head of the robust futex list.
    pub robust: AtomicUsize,
    /// Whether STOP_SYSCALL made the frame.
    pub by_request: AtomicBool,
    /// Whether a vfork child uses this block.
    pub vforked: AtomicBool,
    /// Whether the application has set its CPU affinity.
    pub bound: AtomicBool,
    /// Number of the call in progress, marked if it was interrupted (see `syscall_restart.rs`).
    pub call: AtomicUsize,
    /// End of the wait of the call in progress, or 0 (see `syscall_restart.rs`).
    pub deadline: AtomicU64,
    /// Signal mask of the application, while signals wait for the handler of a patched call to end.
    pub held_mask: AtomicU64,
    /// Trampoline of the patched call in progress (see `sites/entry.rs`).
    pub site: AtomicUsize,
    /// The address to which the patched call in progress returns.
    pub site_return: AtomicUsize,
    /// Stack pointer in the lower half at which the thread's start function waits.
    lower_sp: AtomicUsize,
    /// Memory for vfork; see `syscalls/clone.rs`.
    pub scratch: UnsafeCell<Scratch>,
}

/// Memory for the parent's half of a vfork.
#[repr(C, align(64))]
pub struct Scratch {
    /// Stack for the time when the child runs on the thread's own.
    pub stack: [u8; 8192],
    /// Frame, which the child may overwrite.
    pub saved: context::Saved,
}

/// Offset of `in_dispatch` from GS.
pub const IN_DISPATCH: usize = offset_of!(Thread, in_dispatch);
/// Offset of `attention` from GS.
pub const ATTENTION: usize = offset_of!(Thread, attention);
/// Offset of `vforked` from GS.
pub const VFORKED: usize = offset_of!(Thread, vforked);
/// Offset of `call` from GS.
pub const CALL: usize = offset_of!(Thread, call);
/// Offset of `deadline` from GS.
pub const DEADLINE: usize = offset_of!(Thread, deadline);
/// Offset of `site` from GS.
pub const SITE: usize = offset_of!(Thread, site);
/// Offset of `site_return` from GS.
pub const SITE_RETURN: usize = offset_of!(Thread, site_return);

// One store clears both.
const _: () = assert!(offset_of!(Thread, holds) == ATTENTION + 4);

// SAFETY: all fields but `scratch` are atomics, and only the thread itself uses that.
unsafe impl Sync for Thread {}

// SAFETY: atomics, and memory that need not be initialised.
unsafe impl Zeros for Thread {}

/// Held while a slot is chosen.
static REGISTRY: Spin<()> = Spin::new(());
static SLOTS: OnceLock<&[Thread]> = OnceLock::new();
/// One past the highest slot ever used.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Upper threads that have not ended.
static ALIVE: AtomicU32 = AtomicU32::new(0);
static MAIN: AtomicUsize = AtomicUsize::new(0);
/// Process id as seen by the application.
static VIRTUAL_PID: AtomicU32 = AtomicU32::new(0);
static REAL_PID: AtomicU32 = AtomicU32::new(0);
/// Whether a stop is requested or in effect (`stop.rs`).
static STOPPING: AtomicBool = AtomicBool::new(false);
/// Set in a forked child, which is not a rank and has no lower half to protect.
static FORKED: AtomicBool = AtomicBool::new(false);

impl Thread {
    /// The calling upper-half thread; for code that only such threads reach.
    #[inline(always)]
    pub fn current() -> Option<&'static Thread> {
        let gs = cpu::gs();
        // SAFETY: GS is 0 or the address of a slot (see cpu.rs).
        (gs != 0).then(|| unsafe { &*(gs as *const Thread) })
    }

    /// The interrupted thread, if it is of the upper half. Threads that the MPI library creates inherit their creator's
    /// GS, so the kernel's id must match, too.
    pub fn interrupted() -> Option<&'static Thread> {
        let is_own = |t: &&Thread| {
            t.real_tid.load(Ordering::Relaxed) == syscall::gettid()
                || t.vforked.load(Ordering::Relaxed)
        };
        Thread::current().filter(is_own)
    }

    /// Whether the thread runs a wrapper or has crossed to the lower half.
    pub fn in_lower(&self) -> bool {
        self.wraps() || self.crossings() != 0
    }

    /// Number of crossings that the thread is in. It is wrong for a thread that is being created.
    fn crossings(&self) -> usize {
        let top = self.block.side_top.load(Ordering::Acquire);
        top.wrapping_sub(self.side() as usize) / size_of::<usize>()
    }

    fn side(&self) -> *const AtomicUsize {
        self.block.side.as_ptr()
    }

    /// Whether the thread runs a wrapper.
    pub fn wraps(&self) -> bool {
        self.in_wrapper() & !(NO_CALL_YET | COUNTED) != 0
    }

    /// Whether the thread has called MPI.
    pub fn calls_mpi(&self) -> bool {
        let word = self.in_wrapper();
        word & NO_CALL_YET == 0 || word & COUNTED != 0
    }

    /// Nesting depth of wrappers, as it is saved.
    pub fn in_wrapper(&self) -> u32 {
        self.block.in_wrapper.load(Ordering::Acquire)
    }

    /// Sets the saved nesting depth, at a restart.
    pub fn set_in_wrapper(&self, depth: u32) {
        self.block.in_wrapper.store(depth, Ordering::Relaxed);
        if depth & COUNTED != 0 {
            self.block
                .on_leaving
                .fetch_or(COUNT_CALLS, Ordering::Relaxed);
        }
    }

    /// Whether the thread is to stop at the next opportunity.
    pub fn stop_wanted(&self) -> bool {
        self.block.on_leaving.load(Ordering::Relaxed) & STOP_WANTED != 0
    }

    /// Sets or clears the request of `stop_wanted`.
    pub fn want_stop(&self, wanted: bool) {
        // Wrappers read and change it in one instruction, too.
        let actions = &self.block.on_leaving;
        match wanted {
            true => actions.fetch_or(STOP_WANTED, Ordering::Relaxed),
            false => actions.fetch_and(!STOP_WANTED, Ordering::Relaxed),
        };
    }

    /// FS base of the lower half.
    pub fn lower_fs(&self) -> usize {
        self.block.lower_fs.load(Ordering::Relaxed)
    }

    /// FS base of the upper half.
    pub fn upper_fs(&self) -> usize {
        self.block.upper_fs.load(Ordering::Relaxed)
    }

    /// Stores the FS base of the upper half.
    pub fn set_upper_fs(&self, value: usize) {
        self.block.upper_fs.store(value, Ordering::Relaxed);
    }

    /// Stack pointer of the vDSO call that the thread is in, or 0.
    pub fn vdso_sp(&self) -> usize {
        self.block.vdso_sp.load(Ordering::Relaxed)
    }

    /// Records that the thread has left its vDSO call.
    pub fn forget_vdso_call(&self) {
        self.block.vdso_sp.store(0, Ordering::Relaxed);
    }

    /// Thread id as seen by the application.
    pub fn tid(&self) -> u32 {
        self.block.tid.load(Ordering::Relaxed)
    }

    /// Sets the thread id; for the thread itself.
    fn set_tid(&self, tid: u32) {
        self.block.tid.store(tid, Ordering::Relaxed);
    }

    /// Its number in every run of the program, and how many threads it has created.
    pub fn number(&self) -> (u32, u32) {
        let block = &self.block;
        let of = |word: &AtomicU32| word.load(Ordering::Relaxed);
        (of(&block.number), of(&block.births))
    }

    /// Sets both, at a restart.
    pub fn set_number(&self, number: u32, births: u32) {
        self.block.number.store(number, Ordering::Relaxed);
        self.block.births.store(births, Ordering::Relaxed);
    }

    /// The number of the next thread that this one creates.
    pub fn number_of_child(&self) -> u32 {
        /// The golden ratio, which spreads numbers.
        const SPREAD: u32 = 0x9e37_79b9;
        /// Children of the initial thread do not have this bit.
        const DEEPER: u32 = 1 << 31;
        let (number, births) = self.number();
        match number {
            0 => births + 1,
            _ => (number.rotate_left(5) ^ (births + 1)).wrapping_mul(SPREAD) | DEEPER,
        }
    }

    /// The thread has created another one.
    pub fn has_child(&self) {
        self.block.births.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether this is the initial thread.
    pub fn is_main(&self) -> bool {
        MAIN.load(Ordering::Relaxed) == self as *const Thread as usize
    }

    /// Runs `f` with the lower half's FS and all signals blocked: for the lower C library.
    pub fn on_lower<R>(&self, f: impl FnOnce() -> R) -> R {
        let mask = syscall::block(signals::ALL_HELD);
        let result = self.on_lower_fs(f);
        syscall::set_mask(mask);
        result
    }

    /// As [`Thread::on_lower`], without the two system calls that block signals. The caller is in the handler of
    /// trapped calls: there a signal of the application waits for the handler's end (rule 1 in `dispatch.rs`), and the
    /// stop signal only sets marks. `f` is code whose system calls may be interrupted.
    pub fn on_lower_in_dispatch<R>(&self, f: impl FnOnce() -> R) -> R {
        match self.in_dispatch.load(Ordering::Relaxed) {
            0 => self.on_lower(f),
            _ => self.on_lower_fs(f),
        }
    }

    /// Runs `f` with the lower half's FS. No handler of the application may run meanwhile.
    #[inline(always)]
    fn on_lower_fs<R>(&self, f: impl FnOnce() -> R) -> R {
        let upper = cpu::fs();
        // SAFETY: the closure is lower-half code; no handler of the application runs before the next change.
        unsafe { cpu::set_fs(self.lower_fs()) };
        let result = vectors::kept(f);
        // SAFETY: restores the FS of the interrupted code.
        unsafe { cpu::set_fs(upper) };
        result
    }

    /// Fills a fresh slot's block.
    fn initialise(&self, tid: u32, number: u32, upper_fs: usize, on_leaving: u32) {
        let fsgsbase = cpu::fsgsbase() && !gate::tells_crossings();
        let block = &self.block;
        for (word, value) in [
            (&block.this, self as *const Thread as usize),
            (&block.lower_fs, 0),
            (&block.upper_fs, upper_fs),
            (&block.side_top, self.side() as usize),
            (&block.vdso_sp, 0),
            (&block.inside, 0),
        ] {
            word.store(value, Ordering::Relaxed);
        }
        for (word, value) in [
            (&block.in_wrapper, NO_CALL_YET),
            (&block.on_leaving, on_leaving),
            (&block.fsgsbase, u32::from(fsgsbase)),
            (&block.tid, tid),
            (&block.number, number),
            (&block.births, 0),
        ] {
            word.store(value, Ordering::Relaxed);
        }
        for entry in &block.side {
            entry.store(0, Ordering::Relaxed);
        }
        for word in [
            &self.in_dispatch,
            &self.attention,
            &self.holds,
            &self.real_tid,
        ] {
            word.store(0, Ordering::Relaxed);
        }
        for word in [
            &self.frame,
            &self.clear_tid,
            &self.robust,
            &self.lower_sp,
            &self.call,
        ] {
            word.store(0, Ordering::Relaxed);
        }
        for flag in [&self.by_request, &self.vforked, &self.bound] {
            flag.store(false, Ordering::Relaxed);
        }
    }

    /// Makes the calling lower thread this upper thread: GS, FS values, system calls trapped.
    fn adopt_caller(&self) {
        self.block.lower_fs.store(cpu::fs(), Ordering::Relaxed);
        // SAFETY: this is a slot, and GS belongs to the loader.
        unsafe { cpu::set_gs(self as *const Thread as usize) };
        self.real_tid.store(syscall::gettid(), Ordering::Release);
        sud::arm();
    }
}

/// Maps the slots.
pub fn start() -> Result<(), LoadError> {
    let _guard = REGISTRY.lock();
    if SLOTS.get().is_some() {
        return Ok(());
    }
    let slots = zeros::map(MAX_THREADS, InChild::Copied).map_err(|source| LoadError::System {
        what: "mmap of the thread table",
        source,
    })?;
    SLOTS.get_or_init(|| slots);
    REAL_PID.store(syscall::getpid(), Ordering::Relaxed);
    VIRTUAL_PID.store(syscall::getpid(), Ordering::Relaxed);
    Ok(())
}

/// All slots; none before [`start`].
fn slots() -> &'static [Thread] {
    SLOTS.get().copied().unwrap_or_default()
}

/// Whether a stop is requested or in effect.
pub fn stop_is_wanted() -> bool {
    STOPPING.load(Ordering::SeqCst)
}

/// Whether the calling thread is the only one of the upper half.
pub fn is_alone() -> bool {
    ALIVE.load(Ordering::Acquire) == 1
}

/// All slots that were ever used (check `state`).
pub fn all() -> impl Iterator<Item = &'static Thread> {
    slots().iter().take(USED.load(Ordering::Acquire))
}

/// The initial thread.
pub fn main() -> Option<&'static Thread> {
    let address = MAIN.load(Ordering::Acquire) as *const Thread;
    // It usually has the first slot.
    all().find(|thread| core::ptr::eq(*thread, address))
}

/// Records an event of the calling thread in the flight recorder; of the agent where the thread is not of the upper
/// half.
pub fn record(event: contract::recorder::Event, arguments: [u64; 2]) {
    let thread = Thread::current().map_or(0, Thread::tid);
    contract::recorder::record(thread, event, arguments);
}

/// Whether a program was prepared whose initial thread does not exist yet.
pub fn main_is_expected() -> bool {
    !slots().is_empty() && main().is_none()
}

/// Process id as seen by the application.
pub fn virtual_pid() -> u32 {
    VIRTUAL_PID.load(Ordering::Relaxed)
}

/// Process id of the kernel.
pub fn real_pid() -> u32 {
    REAL_PID.load(Ordering::Relaxed)
}

/// Whether the caller is outside a child forked by the lower half's libraries.
pub fn is_own_process() -> bool {
    // The stored id is 0 before the upper half has threads.
    [0, syscall::getpid()].contains(&real_pid())
}

/// Sets the process id seen by the application, at a restart.
pub fn set_virtual_pid(pid: u32) {
    VIRTUAL_PID.store(pid, Ordering::Relaxed);
}

/// Whether this process was forked from a rank.
pub fn is_forked_child() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Kernel thread id for one that the application uses (unchanged if it is not of this process).
pub fn real_tid(tid: u32) -> u32 {
    find(tid).map_or(tid, |t| t.real_tid.load(Ordering::Relaxed))
}

/// Kernel process or thread id for one that the application uses.
pub fn real_id(id: u32) -> u32 {
    if id == virtual_pid() {
        real_pid()
    } else {
        real_tid(id)
    }
}

/// The application's id of one of its threads, for the kernel's.
pub fn application_tid(real: u32) -> Option<u32> {
    let is = |t: &&Thread| {
        t.state.load(Ordering::Acquire) != FREE && t.real_tid.load(Ordering::Relaxed) == real
    };
    all().find(is).map(Thread::tid)
}

/// The application's process or thread id for the kernel's (unchanged if it is not of this process).
pub fn application_id(real: u32) -> u32 {
    if real == real_pid() {
        virtual_pid()
    } else {
        application_tid(real).unwrap_or(real)
    }
}

/// Thread with this id of the application.
pub fn find(tid: u32) -> Option<&'static Thread> {
    all().find(|t| tid != 0 && t.state.load(Ordering::Acquire) != FREE && t.tid() == tid)
}

/// Allocates a slot. `tid` 0: chosen later, when the kernel's id is known. `on_leaving`: actions when it leaves its
/// wrappers.
fn allocate(tid: u32, number: u32, upper_fs: usize, on_leaving: u32) -> Option<&'static Thread> {
    let _guard = REGISTRY.lock();
    // A slot that was never used is free, too.
    let is_free = |t: &&Thread| t.state.load(Ordering::Acquire) == FREE;
    let (index, thread) = slots().iter().enumerate().find(|(_, t)| is_free(t))?;
    thread.initialise(tid, number, upper_fs, on_leaving);
    thread.state.store(STARTING, Ordering::Release);
    USED.fetch_max(index + 1, Ordering::AcqRel);
    ALIVE.fetch_add(1, Ordering::AcqRel);
    Some(thread)
}

/// Holds the registry lock during `f` (a fork).
pub fn with_lock<R>(f: impl FnOnce() -> R) -> R {
    let _guard = REGISTRY.lock();
    f()
}
