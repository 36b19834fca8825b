//! What is done for each system call of the upper half.
//!
//! To add one: write a `fn(&mut Call) -> Outcome` in the file of its topic and name it in that
//! file's `HANDLERS`. A call without an entry is passed to the kernel as it is. The comment above an entry says
//! why it and those below it are served, on `docs/system-calls.md` too: one that begins with `Refused` or
//! `Passed` says that they are. `cargo xtask docs` writes that page. In a handler:
//! - `call.pass()` and `call.pass_with()` make a call that may block. It may be abandoned in
//!   there (see `dispatch.rs`), so change no state *before* it that must not be changed twice.
//! - `call.kernel()` makes a call that does not block.
//! - No libc, no allocation, no TLS, no panics; small local arrays only.
//!
//! # Safety
//! The application's pointers are used as the kernel would use them: through `user.rs`, or directly
//! where the kernel has used them in this very call.
#![allow(unsafe_code)]

mod changes;
mod clone;
mod exec;
mod files;
mod memory;
mod paths;
pub mod pi_futex;
mod process;
mod signals;
mod sysv;
pub mod timers;
pub mod unsaved;
mod wait;
mod waits;

use crate::context::Context;
use crate::dispatch::app_syscall;
use crate::thread::Thread;
use crate::{raw, user};

pub use changes::{allocated, span};
pub use memory::{brk_end, remapped, set_brk_end};
pub use process::{membarriers, restore_membarriers};
pub use sysv::{set_shm_ids, shm_id};

/// What the program gets to see.
pub enum Outcome {
    /// The call's result.
    Value(isize),
    /// The call is trapped again when the thread continues.
    Again,
    /// The frame is as it shall be.
    Done,
}

/// A handler of one call.
pub type Handler = fn(&mut Call) -> Outcome;

/// A trapped call.
pub struct Call {
    /// The frame.
    pub context: *mut Context,
    /// The thread that makes it.
    pub thread: &'static Thread,
}

impl Call {
    /// For the frame of a SIGSYS.
    pub fn new(context: *mut Context, thread: &'static Thread) -> Self {
        Self { context, thread }
    }

    /// The frame.
    pub fn frame(&mut self) -> &mut Context {
        // SAFETY: the kernel's frame of the signal that is being handled; only we use it.
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

    /// One argument as a number of 32 bits.
    pub fn int(&mut self, index: usize) -> i32 {
        self.args()[index] as i32
    }

    /// Passes the call on as it is.
    #[inline(always)]
    pub fn pass(&mut self) -> Outcome {
        let (nr, args) = (self.nr(), self.args());
        self.pass_with(nr, args)
    }

    /// Passes the call on, changed.
    #[inline(always)]
    pub fn pass_with(&mut self, nr: usize, args: [usize; 6]) -> Outcome {
        match app_syscall(self.context, nr, &args) {
            Some(value) => Outcome::Value(value),
            None => Outcome::Again,
        }
    }

    /// A call that does not block, made at once.
    pub fn kernel(&self, nr: i64, args: [usize; 6]) -> isize {
        // SAFETY: the handlers pass on what the application asked for, at addresses that the
        // handler has checked to be outside of the lower half or that are its own locals.
        unsafe { raw::syscall(nr as usize, args) }
    }

    /// Whether the caller is a vfork child, which shares its parent's memory and our tables.
    pub fn vforked(&self) -> bool {
        self.thread
            .vforked
            .load(core::sync::atomic::Ordering::Relaxed)
    }

    /// Whether the caller is a rank's own process: not one that the rank has forked.
    pub fn in_rank(&self) -> bool {
        !self.vforked() && !crate::thread::is_forked_child()
    }

    /// Reads a value from memory that the kernel has filled in or read in this call.
    pub fn read<T: Copy>(&self, address: usize) -> T {
        // SAFETY: see the module's head.
        unsafe { (address as *const T).read_unaligned() }
    }

    /// Writes a value to the application's memory, unless the address is 0: what it then sees, or
    /// EFAULT.
    pub fn answer<T: Copy>(&self, address: usize, value: T) -> Outcome {
        if address == 0 || user::write(address, value).is_ok() {
            return Outcome::Value(0);
        }
        fail(libc::EFAULT)
    }
}

/// An error result.
pub fn fail(errno: i32) -> Outcome {
    Outcome::Value(raw::err(errno))
}

const NUMBERS: usize = 512;

fn pass(call: &mut Call) -> Outcome {
    call.pass()
}

const fn build() -> [Handler; NUMBERS] {
    let topics: [&[(i64, Handler)]; 13] = [
        memory::HANDLERS,
        sysv::HANDLERS,
        files::HANDLERS,
        paths::HANDLERS,
        process::HANDLERS,
        wait::HANDLERS,
        signals::HANDLERS,
        timers::HANDLERS,
        unsaved::HANDLERS,
        waits::HANDLERS,
        clone::HANDLERS,
        exec::HANDLERS,
        changes::HANDLERS,
    ];
    let mut table = [pass as Handler; NUMBERS];
    let mut topic = 0;
    while topic < topics.len() {
        let mut i = 0;
        while i < topics[topic].len() {
            let (nr, handler) = topics[topic][i];
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
        let outcome = TABLE[nr](call);
        if memory::remaps(nr) {
            memory::count_remapped();
        }
        return outcome;
    }
    if nr == contract::STOP_SYSCALL as usize {
        return process::stop_here(call);
    }
    call.pass()
}
