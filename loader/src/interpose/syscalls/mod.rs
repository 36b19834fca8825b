//! Handlers of the upper half's system calls.
//!
//! To add one: write a `fn(&mut Call) -> Outcome` in the file of its topic and name it in that file's `HANDLERS`. A
//! call without an entry is passed to the kernel unchanged. The comment above an entry gives the reason for it and for
//! those below it; `cargo xtask docs` copies it to `docs/system-calls.md`. A comment that begins with `Refused` or
//! `Passed` marks these entries as refused or passed there. In a handler:
//! - `call.pass()` and `call.pass_with()` make a call that may block. It may be abandoned there (see `trap_entry.rs`),
//!   so do not change state *before* it that must not be changed twice.
//! - `call.kernel()` makes a call that does not block.
//! - No libc, no allocation, no TLS, no panics; small local arrays only.
//!
//! # Safety
//! The application's pointers are used as the kernel would use them: through `user_copy.rs`, or directly where the
//! kernel has used them in this very call.
#![allow(unsafe_code)]

mod blocking;
mod clocks;
mod clone;
mod exec;
pub mod file_changes;
mod file_owner;
mod files;
pub mod memory;
mod path_redirect;
pub mod pi_futex;
pub mod process;
mod remap_parts;
mod signals;
mod site_kinds;
pub mod sysv;
pub mod sysv_ipc;
pub mod timers;
mod unmaps;
pub mod unsupported;
mod wait4;

use super::sites;
use super::threads::Thread;
use super::trap_entry::app_syscall;
use crate::sys::context::Context;
use crate::sys::{syscall, user_copy};

pub use memory::{
    brk_end, future_locks, may_have_guard_pages, note_guard_pages, note_shared_file, remapped,
    set_brk_end, set_future_locks,
};
pub use process::{membarriers, restore_membarriers};
pub use remap_parts::note_watched_memory;
pub use site_kinds::SITE_KINDS;
pub use sysv::{set_shm_ids, shm_id};

/// Result of a handler for the program.
pub enum Outcome {
    /// The call's result.
    Value(isize),
    /// The call is trapped again when the thread continues.
    Again,
    /// The handler has changed the frame itself.
    Done,
}

/// A handler of one call.
pub type Handler = fn(&mut Call) -> Outcome;

/// A trapped call.
pub struct Call {
    /// The frame.
    pub context: *mut Context,
    /// Thread that makes the call.
    pub thread: &'static Thread,
}

impl Call {
    /// Call of a SIGSYS frame.
    pub fn new(context: *mut Context, thread: &'static Thread) -> Self {
        Self { context, thread }
    }

    /// The frame.
    pub fn frame(&mut self) -> &mut Context {
        // SAFETY: the kernel's frame of the signal that is being handled; only this handler uses it.
        unsafe { &mut *self.context }
    }

    /// The call's number.
    pub fn nr(&mut self) -> usize {
        self.frame().regs.rax
    }

    /// The call's arguments.
    pub fn args(&mut self) -> [usize; 6] {
        let r = &self.frame().regs;
        [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9]
    }

    /// Argument as a 32-bit number.
    pub fn int(&mut self, index: usize) -> i32 {
        self.args()[index] as i32
    }

    /// Makes the call unchanged.
    #[inline(always)]
    pub fn pass(&mut self) -> Outcome {
        let (nr, args) = (self.nr(), self.args());
        self.pass_with(nr, args)
    }

    /// Makes a changed call.
    #[inline(always)]
    pub fn pass_with(&mut self, nr: usize, args: [usize; 6]) -> Outcome {
        match app_syscall(self.context, nr, &args) {
            Some(value) => Outcome::Value(value),
            None => Outcome::Again,
        }
    }

    /// Makes a call that does not block.
    pub fn kernel(&self, nr: i64, args: [usize; 6]) -> isize {
        // SAFETY: the application made this call, with addresses that the handler has checked to be outside of the
        // lower half or that are its own locals.
        unsafe { syscall::raw(nr as usize, args) }
    }

    /// Whether the caller is a vfork child, which shares its parent's memory and the loader's tables.
    pub fn vforked(&self) -> bool {
        self.thread
            .vforked
            .load(core::sync::atomic::Ordering::Relaxed)
    }

    /// Whether the caller is a rank's own process and not a fork of it.
    pub fn in_rank(&self) -> bool {
        !self.vforked() && !super::threads::is_forked_child()
    }

    /// Reads a value from memory that the kernel has filled in or read in this call.
    pub fn read<T: Copy>(&self, address: usize) -> T {
        // SAFETY: the kernel has accessed this address in the same call, so it is valid.
        unsafe { (address as *const T).read_unaligned() }
    }

    /// Writes a value to the application's memory, unless the address is 0. Returns success or EFAULT.
    pub fn answer<T: Copy>(&self, address: usize, value: T) -> Outcome {
        if address == 0 || user_copy::write(address, value).is_ok() {
            return Outcome::Value(0);
        }
        fail(libc::EFAULT)
    }
}

/// An error result.
pub fn fail(errno: i32) -> Outcome {
    Outcome::Value(syscall::err(errno))
}

const NUMBERS: usize = 512;

fn pass(call: &mut Call) -> Outcome {
    call.pass()
}

/// All handlers, by topic.
const TOPICS: [&[(i64, Handler)]; 15] = [
    memory::HANDLERS,
    sysv::HANDLERS,
    sysv_ipc::HANDLERS,
    files::HANDLERS,
    path_redirect::HANDLERS,
    process::HANDLERS,
    wait4::HANDLERS,
    signals::HANDLERS,
    timers::HANDLERS,
    unsupported::HANDLERS,
    blocking::HANDLERS,
    clocks::HANDLERS,
    clone::HANDLERS,
    exec::HANDLERS,
    file_changes::HANDLERS,
];

const fn build() -> [Handler; NUMBERS] {
    let mut table = [pass as Handler; NUMBERS];
    let mut topic = 0;
    while topic < TOPICS.len() {
        let mut i = 0;
        while i < TOPICS[topic].len() {
            let (nr, handler) = TOPICS[topic][i];
            table[nr as usize] = handler;
            i += 1;
        }
        topic += 1;
    }
    table
}

static TABLE: [Handler; NUMBERS] = build();

/// Serves one call.
pub fn serve(call: &mut Call) -> Outcome {
    let nr = call.nr();
    if nr < NUMBERS {
        if !memory::remaps(nr) {
            return TABLE[nr](call);
        }
        unmaps::tell(call, nr);
        let unpatched = sites::before_remap(nr, call.args());
        let outcome = TABLE[nr](call);
        drop(unpatched);
        memory::count_remapped();
        return outcome;
    }
    if nr == contract::STOP_SYSCALL as usize {
        return process::stop_here(call);
    }
    call.pass()
}
