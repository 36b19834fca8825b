//! The collective clocks of this rank's communicators, in the table that both halves see.
//!
//! # Safety
//! The loader maps the table, zeroed, before upper-half code runs; all fields are atomics. Entries
//! are handed out and taken back under a lock.
#![allow(unsafe_code)]

use crate::crossing::stubs::service;
use crate::object::comm::comm_id::Hash;
use crate::runtime::lock::Lock;
use contract::{gate, Clock, Phase, CLOCKS, CLOCKS_ADDRESS, GROUP_CLOCKS};
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

/// A clock for the communicator `id` among `members`, visible to the agent from now on. If a
/// checkpoint is pending it has the target that other members have given it.
pub(crate) fn make(id: u64, members: &[u32]) -> Result<&'static Clock, i32> {
    if by_group() {
        of_group(members)
    } else {
        make_for(id)
    }
}

fn by_group() -> bool {
    gate().lower.features.load(Ordering::Relaxed) & GROUP_CLOCKS != 0
}

/// The one clock of all communicators among `members`, as published (see [`GROUP_CLOCKS`]).
fn of_group(members: &[u32]) -> Result<&'static Clock, i32> {
    static FINDING: Lock<()> = Lock::new(());
    let mut group = members.to_vec();
    group.sort_unstable();
    let id = Hash::new("group").ranks(&group).finish();
    let _alone = FINDING.lock();
    let used = gate().clocks_used.load(Ordering::Relaxed);
    let mut all = (0..used).map(entry);
    match all.find(|clock| clock.id.load(Ordering::Relaxed) == id) {
        Some(clock) => Ok(clock),
        None => make_for(id),
    }
}

/// A clock for `id`, whatever the members.
pub(crate) fn make_for(id: u64) -> Result<&'static Clock, i32> {
    let index = take_entry()?;
    let clock = entry(index);
    clock.seq.store(0, Ordering::Relaxed);
    clock.left.store(0, Ordering::Relaxed);
    clock.target.store(0, Ordering::Relaxed);
    clock.id.store(id, Ordering::Release);
    fence(Ordering::SeqCst);
    if gate().phase.load(Ordering::Acquire) != Phase::Run as u32 {
        let target = service::clock_target(id);
        clock.target.fetch_max(target, Ordering::AcqRel);
    }
    Ok(clock)
}

/// Takes a clock back: all members have left their last collective on the communicator.
pub(crate) fn free(clock: &'static Clock) {
    if by_group() {
        // Others of the group go on with it.
        return;
    }
    clock.id.store(0, Ordering::Release);
    let offset = core::ptr::from_ref(clock) as usize - CLOCKS_ADDRESS;
    let index = offset / size_of::<Clock>();
    FREE.lock().push(index as u32);
}

/// All clocks begin again, on all ranks. No collective operation is under way.
pub(crate) fn count_anew() {
    for clock in (0..gate().clocks_used.load(Ordering::Relaxed)).map(entry) {
        for count in [&clock.seq, &clock.left, &clock.target] {
            count.store(0, Ordering::Relaxed);
        }
    }
}
