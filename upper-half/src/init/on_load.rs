//! Start of the library, when ld.so has loaded a front: the tables, and the entry points that the lower half needs. A
//! process without a lower half (a program that was linked with the front but not started by Stasis) gets a message at
//! its first call that needs MPI.
//!
//! # Safety
//! The gate is read only where it is mapped. In a process without a lower half nothing else lies there, so a page run
//! of our own takes its place, and a thread block that is never freed.
#![allow(unsafe_code)]

use crate::crossing::app_abi::{set, Abi};
use crate::crossing::report::{fatal, outside, HAS_LOWER_HALF};
use crate::io::checkpoint;
use crate::object::init;
use crate::quiesce::{drain, retractable};
use crate::runtime::reports::REPORTS;
use crate::runtime::syscall;
use crate::{quiesce, restore_objects, stages};
use contract::abi::SUCCESS;
use contract::{gate, ThreadBlock, CLOCKS_ADDRESS, CLOCKS_BYTES, GATE_ADDRESS, GATE_BYTES};
use core::sync::atomic::Ordering;

const MAGIC: u64 = u64::from_le_bytes(*b"STASIS\0\0");

/// Starts the library for an application of this ABI. To be called by the front's constructor.
pub fn start(abi: &'static Abi) {
    let found = syscall::is_mapped(GATE_ADDRESS) && gate().magic.load(Ordering::Acquire) == MAGIC;
    if found {
        HAS_LOWER_HALF.store(true, Ordering::Relaxed);
        check_versions(abi);
    } else {
        stand_alone();
    }
    std::panic::set_hook(Box::new(|panic| {
        fatal(&format!("a defect in Stasis's upper half: {panic}"), 3)
    }));
    set(abi);
    init();
    if found {
        register(abi);
    }
}

fn check_versions(abi: &Abi) {
    let version = gate().version.load(Ordering::Relaxed);
    if version != contract::VERSION {
        fatal(
            &format!(
                "the lower half speaks version {version} of the contract, this library {}: they are \
                 of different builds; run `cargo xtask setup` again, or `stasis build-lower` for \
                 another MPI library",
                contract::VERSION
            ),
            2,
        );
    }
    let below = gate().lower.table_hash.load(Ordering::Relaxed);
    if below != abi.table_hash {
        fatal(
            &format!(
                "the front for {} and the lower half were generated from different tables of MPI \
                 functions; run `cargo xtask setup` again, or `stasis build-lower` for another MPI \
                 library",
                abi.name
            ),
            2,
        );
    }
}

fn register(abi: &Abi) {
    let upper = &gate().upper;
    upper.table_hash.store(abi.table_hash, Ordering::Relaxed);
    upper
        .drain
        .store(drain as *const () as usize, Ordering::Release);
    upper.rebuild.store(
        restore_objects::restore as *const () as usize,
        Ordering::Release,
    );
    let turn = retractable::turn as *const () as usize;
    gate().turn.store(turn, Ordering::Release);
    let waits = core::ptr::from_ref(&REPORTS) as usize;
    gate().waits.store(waits, Ordering::Release);
    let stages = stages::survive::survive as *const () as usize;
    gate().stages.store(stages, Ordering::Release);
    upper
        .refusal
        .store(refusal as *const () as usize, Ordering::Release);
}

/// The entry point `drain` of the gate: messages, and then the files, in which nothing is under way
/// any more.
extern "C" fn drain() -> i32 {
    match drain::drain() {
        SUCCESS => checkpoint::at_cut(),
        code => code,
    }
}

/// The entry point `refusal` of the gate.
extern "C" fn refusal(buffer: *mut u8, length: usize) -> usize {
    let Some(text) = checkpoint::refusal().or_else(|| quiesce::refusal().map(str::to_owned)) else {
        return 0;
    };
    let n = text.len().min(length);
    // SAFETY: the lower half passes a buffer of that length.
    unsafe { core::ptr::copy_nonoverlapping(text.as_ptr(), buffer, n) };
    n
}

/// Lets the wrappers run far enough to say what is wrong.
fn stand_alone() {
    let mapped =
        syscall::map_at(GATE_ADDRESS, GATE_BYTES) && syscall::map_at(CLOCKS_ADDRESS, CLOCKS_BYTES);
    if !mapped {
        outside();
    }
    gate()
        .lower
        .cross_slow
        .store(outside as *const () as usize, Ordering::Relaxed);
    // Zero is valid for every field; `fsgsbase` = 0 sends crossings to `cross_slow`.
    let Some(block) = syscall::map(size_of::<ThreadBlock>()) else {
        outside();
    };
    // SAFETY: a block of its own, which is never freed.
    unsafe { syscall::set_gs(block as usize) };
}
