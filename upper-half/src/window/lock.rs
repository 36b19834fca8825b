//! Passive target locks, MPI-3.1 §11.5.3, as words in memory of the upper half that ranks change by
//! atomic operations below (the two levels of Gerstenberger, Besta & Hoefler, SC'13, §2.3): each
//! rank has a word that counts who holds it shared and marks who holds it exclusively; rank 0 has
//! one more, which counts `lock_all`s and exclusive locks of any rank, so that neither has to visit
//! every rank. A lock that cannot be had is looked at again, and between two looks a checkpoint may stop
//! the thread. As the words are saved, locks outlive a restart.
//!
//! # Safety
//! As for `window`. Remote ranks change the words at any time, through the library below.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head

use super::below;
use crate::code::code_of;
use crate::message;
use crate::object::Win;
use contract::abi::*;
use core::ffi::c_void;
use core::sync::atomic::{AtomicI64, Ordering};
use std::collections::BTreeMap;

/// The words of one rank.
#[repr(C)]
#[derive(Default)]
pub(super) struct LockWords {
    /// Shared holders of this rank, and [`EXCLUSIVE`] for each who has it so or has just tried.
    own: AtomicI64,
    /// In rank 0: `lock_all`s, and [`EXCLUSIVE_SOMEWHERE`] for each exclusive lock of any rank.
    all: AtomicI64,
    /// [`EXCLUSIVE`] for who changes this rank's memory by [`changing`], and for each who has just tried.
    changing: AtomicI64,
}

const EXCLUSIVE: i64 = 1 << 32;
const EXCLUSIVE_SOMEWHERE: i64 = 1 << 32;
const LOCK_ALLS: i64 = EXCLUSIVE_SOMEWHERE - 1;

/// Displacements of the words.
const OWN: isize = 0;
const ALL: isize = 1;
const CHANGING: isize = 2;

impl LockWords {
    /// The word at a displacement.
    fn word(&self, displacement: isize) -> &AtomicI64 {
        match displacement {
            OWN => &self.own,
            ALL => &self.all,
            _ => &self.changing,
        }
    }

    /// Start, bytes and displacement unit, for a window below.
    pub(super) fn place(&self) -> (*mut c_void, isize, i32) {
        let start = core::ptr::from_ref(self).cast_mut().cast();
        (
            start,
            size_of::<LockWords>() as isize,
            size_of::<i64>() as i32,
        )
    }
}

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Shared,
    Exclusive,
    /// With MPI_MODE_NOCHECK: the application answers for it, no word was changed.
    Unchecked,
}

/// The locks that this rank holds.
#[derive(Default)]
pub(super) struct Held {
    of: BTreeMap<i32, Way>,
    all: Option<Way>,
}

/// MPI_Win_lock.
pub unsafe fn win_lock(lock_type: i32, rank: i32, assert: i32, win: &'static Win) -> i32 {
    let way = match lock_type {
        LOCK_SHARED => Way::Shared,
        LOCK_EXCLUSIVE => Way::Exclusive,
        _ => return ERR_LOCKTYPE,
    };
    let way = checked(way, assert);
    if rank == PROC_NULL {
        return SUCCESS;
    }
    if !(0..win.body.comm.body.size).contains(&rank) {
        return ERR_RANK;
    }
    {
        let held = win.body.held.lock();
        if held.all.is_some() || held.of.contains_key(&rank) {
            return ERR_RMA_SYNC;
        }
    }
    // SAFETY: passed on.
    unsafe {
        let taken = match way {
            Way::Shared => take(win, rank, OWN, 1, |before| before < EXCLUSIVE),
            Way::Exclusive => take_exclusive(win, rank),
            Way::Unchecked => Ok(()),
        };
        code_of(taken.and_then(|()| {
            win.body.held.lock().of.insert(rank, way);
            below::sync(win)
        }))
    }
}

/// MPI_Win_unlock.
pub unsafe fn win_unlock(rank: i32, win: &'static Win) -> i32 {
    if rank == PROC_NULL {
        return SUCCESS;
    }
    let Some(way) = win.body.held.lock().of.remove(&rank) else {
        return ERR_RMA_SYNC;
    };
    // SAFETY: passed on.
    let result = unsafe {
        below::flush(rank, win)
            .and_then(|()| below::sync(win))
            .and_then(|()| match way {
                Way::Shared => add(win, rank, OWN, -1).map(drop),
                Way::Exclusive => add_both(win, rank, -EXCLUSIVE, -EXCLUSIVE_SOMEWHERE).map(drop),
                Way::Unchecked => Ok(()),
            })
    };
    code_of(result)
}

/// MPI_Win_lock_all.
pub unsafe fn win_lock_all(assert: i32, win: &'static Win) -> i32 {
    let way = checked(Way::Shared, assert);
    {
        let held = win.body.held.lock();
        if held.all.is_some() || !held.of.is_empty() {
            return ERR_RMA_SYNC;
        }
    }
    // SAFETY: passed on.
    unsafe {
        let taken = match way {
            Way::Unchecked => Ok(()),
            _ => take(win, 0, ALL, 1, |before| before < EXCLUSIVE_SOMEWHERE),
        };
        code_of(taken.and_then(|()| {
            win.body.held.lock().all = Some(way);
            below::sync(win)
        }))
    }
}

/// MPI_Win_unlock_all.
pub unsafe fn win_unlock_all(win: &'static Win) -> i32 {
    let Some(way) = win.body.held.lock().all.take() else {
        return ERR_RMA_SYNC;
    };
    // SAFETY: passed on.
    let result = unsafe {
        below::flush_all(win)
            .and_then(|()| below::sync(win))
            .and_then(|()| match way {
                Way::Unchecked => Ok(()),
                _ => add(win, 0, ALL, -1).map(drop),
            })
    };
    code_of(result)
}

fn checked(way: Way, assert: i32) -> Way {
    if assert & MODE_NOCHECK == 0 {
        way
    } else {
        Way::Unchecked
    }
}

/// Does something with memory of `rank` while no other thread of any rank does anything so. Whether it was done:
/// not where the job goes on over a library that does such things itself, having waited for its turn over one that
/// does not. There the others ask the library, which knows nothing of turns.
///
/// # Safety
/// As for [`take`]; `change` waits for no other rank.
pub(super) unsafe fn changing(
    win: &'static Win,
    rank: i32,
    change: impl FnOnce() -> Result<(), i32>,
) -> Result<bool, i32> {
    // SAFETY: passed on.
    unsafe {
        take(win, rank, CHANGING, EXCLUSIVE, |before| before == 0)?;
        let here = win.body.accumulates_here();
        let result = if here { change() } else { Ok(()) };
        add(win, rank, CHANGING, -EXCLUSIVE)?;
        result.map(|()| here)
    }
}

/// Takes the lock of `rank`, and announces that at rank 0, which keeps `lock_all`s off. Both are tried at once:
/// each is a way to another rank and back. What of it cannot be had is taken back, and waited for.
unsafe fn take_exclusive(win: &'static Win, rank: i32) -> Result<(), i32> {
    let no_lock_all = |before| before & LOCK_ALLS == 0;
    let nobody = |before| before == 0;
    // SAFETY: passed on.
    unsafe {
        let (own, all) = add_both(win, rank, EXCLUSIVE, EXCLUSIVE_SOMEWHERE)?;
        match (nobody(own), no_lock_all(all)) {
            (true, true) => return Ok(()),
            (false, true) => drop(add(win, rank, OWN, -EXCLUSIVE)?),
            (_, false) => {
                add_both(win, rank, -EXCLUSIVE, -EXCLUSIVE_SOMEWHERE)?;
                take(win, 0, ALL, EXCLUSIVE_SOMEWHERE, no_lock_all)?;
            }
        }
        take(win, rank, OWN, EXCLUSIVE, nobody)
    }
}

/// Adds to a word of `rank` as soon as nothing stands in the way.
unsafe fn take(
    win: &'static Win,
    rank: i32,
    word: isize,
    value: i64,
    free: impl Fn(i64) -> bool,
) -> Result<(), i32> {
    let mut taking = Taking::new(value, free);
    let mut result = Ok(());
    let over = || {
        // SAFETY: passed on.
        let add = |value| unsafe { add(win, rank, word, value) };
        taking.attempt(add).unwrap_or_else(|error| {
            result = Err(error);
            true
        })
    };
    // SAFETY: no lock of this library is held.
    unsafe { message::wait_until(over) };
    result
}

/// A lock that is being taken: what is added to its word, and what the word must have been before.
/// Where it was not, the sum is taken back, and from then on the word is looked at first: a sum that
/// waits for being taken back keeps others off, so that of many who add all the time hardly any would
/// find the word free.
struct Taking<F> {
    value: i64,
    free: F,
    was_held: bool,
}

impl<F: Fn(i64) -> bool> Taking<F> {
    fn new(value: i64, free: F) -> Self {
        Taking {
            value,
            free,
            was_held: false,
        }
    }

    /// Tries once, by `add`, which tells the word's value before: whether the lock is taken.
    fn attempt(&mut self, add: impl Fn(i64) -> Result<i64, i32>) -> Result<bool, i32> {
        if self.was_held && !(self.free)(add(0)?) {
            return Ok(false);
        }
        if (self.free)(add(self.value)?) {
            return Ok(true);
        }
        self.was_held = true;
        add(-self.value)?;
        Ok(false)
    }
}

/// Adds to a word of `rank`; its value before.
unsafe fn add(win: &'static Win, rank: i32, word: isize, value: i64) -> Result<i64, i32> {
    if let Some(near) = near(win, rank, word) {
        return Ok(near.fetch_add(value, Ordering::AcqRel));
    }
    let mut before = 0;
    // SAFETY: locals that live until the flush, and a live window.
    unsafe {
        begin(win, rank, word, &value, &mut before)?;
        complete(win, rank)?;
    }
    Ok(before)
}

/// Adds to the word of `rank` and to that of rank 0 which counts for all; their values before.
unsafe fn add_both(win: &'static Win, rank: i32, own: i64, all: i64) -> Result<(i64, i64), i32> {
    if win.body.is_alone() {
        // SAFETY: passed on.
        return unsafe { Ok((add(win, rank, OWN, own)?, add(win, 0, ALL, all)?)) };
    }
    let (mut own_before, mut all_before) = (0, 0);
    // SAFETY: as above.
    unsafe {
        begin(win, rank, OWN, &own, &mut own_before)?;
        begin(win, 0, ALL, &all, &mut all_before)?;
        complete(win, rank)?;
        if rank != 0 {
            complete(win, 0)?;
        }
    }
    Ok((own_before, all_before))
}

/// Begins to add to a word of `rank` by the window below: both numbers must live until that is [`complete`].
///
/// A sum and not a comparison: Open MPI 4.1.4 crashes in MPI_Compare_and_swap on its own rank.
unsafe fn begin(
    win: &'static Win,
    rank: i32,
    word: isize,
    value: *const i64,
    before: *mut i64,
) -> Result<(), i32> {
    // SAFETY: the same, and a live window.
    unsafe { below::begin_add(value, before, (rank, word), win) }
}

/// A word of `rank` that this process can change by itself.
fn near(win: &'static Win, rank: i32, word: isize) -> Option<&'static AtomicI64> {
    match (win.body.is_alone(), word) {
        (true, _) => Some(win.body.locks.word(word)),
        (false, CHANGING) => win.body.guards.of(rank),
        (false, _) => None,
    }
}

/// What was begun at `rank` is done.
unsafe fn complete(win: &'static Win, rank: i32) -> Result<(), i32> {
    // SAFETY: a live window.
    unsafe { below::complete_adds(rank, win) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_a_lock_leaves_its_word_alone() {
        let word = AtomicI64::new(EXCLUSIVE);
        let changes = AtomicI64::new(0);
        let add = |value| {
            changes.fetch_add(i64::from(value != 0), Ordering::Relaxed);
            Ok(word.fetch_add(value, Ordering::Relaxed))
        };
        let mut taking = Taking::new(EXCLUSIVE, |before| before == 0);
        for _ in 0..100 {
            assert_eq!(taking.attempt(add), Ok(false));
            assert_eq!(word.load(Ordering::Relaxed), EXCLUSIVE);
        }
        assert_eq!(changes.load(Ordering::Relaxed), 2);
        word.store(0, Ordering::Relaxed);
        assert_eq!(taking.attempt(add), Ok(true));
        assert_eq!(word.load(Ordering::Relaxed), EXCLUSIVE);
    }
}
