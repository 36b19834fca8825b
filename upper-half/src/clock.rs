//! The collective clocks of this rank's communicators, in the table that both halves see.
//!
//! # Safety
//! The loader maps the table, zeroed, before upper-half code runs; all fields are atomics. Entries
//! are handed out and taken back under a lock.
#![allow(unsafe_code)]

use crate::lower::service;
use crate::sync::Lock;
use contract::{gate, Clock, Phase, CLOCKS, CLOCKS_ADDRESS};
use core::sync::atomic::{fence, Ordering};

static FREE: Lock<Vec<u32>> = Lock::new(Vec::new());

fn entry(index: u32) -> &'static Clock {
    // SAFETY: below CLOCKS, so inside the mapped table.
    unsafe { &*(CLOCKS_ADDRESS as *const Clock).add(index as usize) }
}

fn take_entry() -> Result<u32, i32> {
    let mut free = FREE.lock();
    if let Some(index) = free.pop() {
        return Ok(index);
    }
    let used = gate().clocks_used.load(Ordering::Relaxed);
    if used as usize >= CLOCKS {
        return Err(contract::abi::ERR_NO_MEM);
    }
    gate().clocks_used.store(used + 1, Ordering::Release);
    Ok(used)
}

/// A clock for the communicator `id`, visible to the agent from now on. If a checkpoint is pending
/// it has the target that other members have given it.
pub(crate) fn make(id: u64) -> Result<&'static Clock, i32> {
    let index = take_entry()?;
    let clock = entry(index);
    clock.seq.store(0, Ordering::Relaxed);
    clock.left.store(0, Ordering::Relaxed);
    clock.target.store(0, Ordering::Relaxed);
    clock.id.store(id, Ordering::Release);
    fence(Ordering::SeqCst);
    if gate().phase.load(Ordering::Acquire) != Phase::Run as u32 {
        // SAFETY: a service without conditions.
        let target = unsafe { service::clock_target(id) };
        clock.target.fetch_max(target, Ordering::AcqRel);
    }
    Ok(clock)
}

/// Takes a clock back: all members have left their last collective on the communicator.
pub(crate) fn free(clock: &'static Clock) {
    clock.id.store(0, Ordering::Release);
    let offset = core::ptr::from_ref(clock) as usize - CLOCKS_ADDRESS;
    let index = offset / size_of::<Clock>();
    FREE.lock().push(index as u32);
}
