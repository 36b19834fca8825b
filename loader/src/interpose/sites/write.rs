//! Changes of code that other threads may execute at the same moment.
//!
//! Code becomes writable for this moment only. The whole mapping does, so that it is not split. A change of one
//! instruction is one store inside an aligned word, so a processor executes either the old instruction or the new one.
//! Where the instruction crosses such a word, threads wait in a loop of one short instruction meanwhile.
//!
//! # Safety
//! [`Writable`] exists only while the mapping is writable. All addresses lie in it. What is stored has the boundaries
//! of the instructions that it replaces (`shape.rs`).
#![allow(unsafe_code)]

use super::shape::JUMP;
use crate::interpose::threads;
use crate::sys::syscall;
use core::sync::atomic::{AtomicU64, AtomicU8, Ordering};

/// A jump to itself.
const WAIT: [u8; 2] = [0xeb, 0xfe];
const WORD: usize = size_of::<u64>();

/// Registrations for barriers: of the processors, after code was written, and of the threads, at a checkpoint.
const REGISTER: [i32; 2] = [
    libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE,
    libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED,
];
const SYNC_CORE: i32 = libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE;

/// Registers the process for the barriers of this crate and of the checkpoint agent. This takes no time while the
/// process has one thread, and many milliseconds later.
pub fn register() {
    for command in REGISTER {
        syscall::membarrier(command);
    }
}

/// A mapping whose code is writable.
pub struct Writable {
    mapping: [usize; 2],
    /// Whether no other thread of the application runs.
    alone: bool,
}

fn protect([start, end]: [usize; 2], prot: i32) -> bool {
    let args = [start, end - start, prot as usize, 0, 0, 0];
    !syscall::is_err(syscall::plain(libc::SYS_mprotect, args))
}

impl Writable {
    /// Makes the code of a mapping writable; None where that is not allowed. `stopped`: no thread runs.
    pub fn make(mapping: [usize; 2], stopped: bool) -> Option<Writable> {
        let prot = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let alone = stopped || threads::is_alone();
        protect(mapping, prot).then_some(Writable { mapping, alone })
    }

    /// Stores bytes that no thread executes.
    pub fn store_unused(&self, at: usize, bytes: &[u8]) {
        for (n, byte) in bytes.iter().enumerate() {
            // SAFETY: the address is in the writable mapping.
            let place = unsafe { &*((at + n) as *const AtomicU8) };
            place.store(*byte, Ordering::Relaxed);
        }
        self.synchronize();
    }

    /// Replaces a `syscall` instruction, or what has replaced it; false if that cannot be done.
    pub fn replace_call(&self, at: usize, bytes: [u8; 2]) -> bool {
        let fits = self.store(at, &bytes);
        self.synchronize();
        fits
    }

    /// Replaces an instruction of five bytes; false if that cannot be done.
    pub fn replace_load(&self, at: usize, bytes: [u8; JUMP]) -> bool {
        let mut fits = self.store(at, &bytes);
        if !fits && self.store(at, &WAIT) {
            self.synchronize();
            self.store_unused(at + WAIT.len(), &bytes[WAIT.len()..]);
            fits = self.store(at, &bytes[..WAIT.len()]);
        }
        self.synchronize();
        fits
    }

    /// Stores bytes at once; false if they do not fit into an aligned word and another thread might see half of them.
    fn store(&self, at: usize, bytes: &[u8]) -> bool {
        let offset = at % WORD;
        if offset + bytes.len() > WORD {
            if self.alone {
                self.store_unused(at, bytes);
            }
            return self.alone;
        }
        // SAFETY: the aligned word is in the writable mapping.
        let word = unsafe { &*((at - offset) as *const AtomicU64) };
        let mut value = word.load(Ordering::Relaxed).to_le_bytes();
        value[offset..offset + bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(value), Ordering::Release);
        true
    }

    /// Makes all processors that run threads of the process fetch changed code.
    fn synchronize(&self) {
        if !self.alone && syscall::is_err(syscall::membarrier(SYNC_CORE)) {
            register();
            syscall::membarrier(SYNC_CORE);
        }
    }
}

impl Drop for Writable {
    fn drop(&mut self) {
        protect(self.mapping, libc::PROT_READ | libc::PROT_EXEC);
    }
}
