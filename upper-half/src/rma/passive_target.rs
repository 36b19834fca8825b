//! Passive target locks, MPI-3.1 §11.5.3, as words in memory of the upper half (the two levels of Gerstenberger, Besta
//! & Hoefler, SC'13, §2.3). Ranks on one node change them by themselves ([`node_parts`](super::node_parts)), others by
//! atomic operations below. Each rank has a word that counts shared holders and marks exclusive ones. Rank 0 has one
//! more, which counts `lock_all`s and exclusive locks of any rank, so that neither has to visit every rank. A lock
//! that is not free is looked at again, and between two looks a checkpoint may stop the thread. As the words are
//! saved, locks outlive a restart.
//!
//! # Safety
//! The library below reads and writes the numbers of an addition until that is complete.
#![allow(unsafe_code)]

use crate::crossing::mpi_result::code_of;
use crate::object::win::lock_words::{
    LockMode, ALL, CHANGING, EXCLUSIVE, EXCLUSIVE_SOMEWHERE, LOCK_ALLS, OWN,
};
use crate::object::Win;
use crate::quiesce::wait_loop;
use crate::rma::lower_window::begin_add;
use crate::rma::{direct_window, lower_window};
use contract::abi::*;
use core::sync::atomic::{AtomicI64, Ordering};

/// MPI_Win_lock.
pub fn win_lock(lock_type: i32, rank: i32, assert: i32, win: &'static Win) -> i32 {
    let way = match lock_type {
        LOCK_SHARED => LockMode::Shared,
        LOCK_EXCLUSIVE => LockMode::Exclusive,
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
    let taken = match way {
        LockMode::Shared => take(win, rank, OWN, 1, |before| before < EXCLUSIVE),
        LockMode::Exclusive => take_exclusive(win, rank),
        LockMode::Unchecked => Ok(()),
    };
    code_of(taken.and_then(|()| {
        win.body.held.lock().of.insert(rank, way);
        lower_window::sync(win)
    }))
}

/// MPI_Win_unlock.
pub fn win_unlock(rank: i32, win: &'static Win) -> i32 {
    if rank == PROC_NULL {
        return SUCCESS;
    }
    let Some(way) = win.body.held.lock().of.remove(&rank) else {
        return ERR_RMA_SYNC;
    };
    let result = lower_window::flush(rank, win)
        .and_then(|()| lower_window::sync(win))
        .and_then(|()| match way {
            LockMode::Shared => add(win, rank, OWN, -1).map(drop),
            LockMode::Exclusive => add_both(win, rank, -EXCLUSIVE, -EXCLUSIVE_SOMEWHERE).map(drop),
            LockMode::Unchecked => Ok(()),
        });
    code_of(result)
}

/// MPI_Win_lock_all.
pub fn win_lock_all(assert: i32, win: &'static Win) -> i32 {
    let way = checked(LockMode::Shared, assert);
    {
        let held = win.body.held.lock();
        if held.all.is_some() || !held.of.is_empty() {
            return ERR_RMA_SYNC;
        }
    }
    let taken = match way {
        LockMode::Unchecked => Ok(()),
        _ => take(win, 0, ALL, 1, |before| before < EXCLUSIVE_SOMEWHERE),
    };
    code_of(taken.and_then(|()| {
        win.body.held.lock().all = Some(way);
        lower_window::sync(win)
    }))
}

/// MPI_Win_unlock_all.
pub fn win_unlock_all(win: &'static Win) -> i32 {
    let Some(way) = win.body.held.lock().all.take() else {
        return ERR_RMA_SYNC;
    };
    let result = lower_window::flush_all(win)
        .and_then(|()| lower_window::sync(win))
        .and_then(|()| match way {
            LockMode::Unchecked => Ok(()),
            _ => add(win, 0, ALL, -1).map(drop),
        });
    code_of(result)
}

fn checked(way: LockMode, assert: i32) -> LockMode {
    if assert & MODE_NOCHECK == 0 {
        way
    } else {
        LockMode::Unchecked
    }
}

/// Does something with memory of `rank` while no other thread of any rank does anything so. Whether it was done:
/// not where the job goes on over a library that does such things itself, having waited for its turn over one that
/// does not. There the others ask the library, which knows nothing of turns.
///
/// `change` must wait for no other rank.
pub(crate) fn changing(
    win: &'static Win,
    rank: i32,
    change: impl FnOnce() -> Result<(), i32>,
) -> Result<bool, i32> {
    // A program may wait in a loop of such calls.
    direct_window::turn_now_and_then();
    take(win, rank, CHANGING, EXCLUSIVE, |before| before == 0)?;
    let here = win.body.accumulates_here();
    let result = if here { change() } else { Ok(()) };
    add(win, rank, CHANGING, -EXCLUSIVE)?;
    result.map(|()| here)
}

/// Takes the lock of `rank`, and announces that at rank 0, which keeps `lock_all`s off. Both are tried at once:
/// each is a way to another rank and back. What of it cannot be had is taken back, and waited for.
fn take_exclusive(win: &'static Win, rank: i32) -> Result<(), i32> {
    let no_lock_all = |before| before & LOCK_ALLS == 0;
    let nobody = |before| before == 0;
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

/// Adds to a word of `rank` as soon as nothing stands in the way.
fn take(
    win: &'static Win,
    rank: i32,
    word: isize,
    value: i64,
    free: impl Fn(i64) -> bool,
) -> Result<(), i32> {
    let mut taking = Taking::new(value, free);
    let mut result = Ok(());
    let over = || {
        let add = |value| add(win, rank, word, value);
        taking.attempt(add).unwrap_or_else(|error| {
            result = Err(error);
            true
        })
    };
    wait_loop::wait_until(over);
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
fn add(win: &'static Win, rank: i32, word: isize, value: i64) -> Result<i64, i32> {
    if let Some(near) = near(win, rank, word) {
        return Ok(near.fetch_add(value, Ordering::AcqRel));
    }
    let mut before = 0;
    // SAFETY: the locals live until the addition is complete.
    let begun = unsafe { begin_add(&value, &mut before, (rank, word), win) };
    complete(win, rank).and(begun).map(|()| before)
}

/// Adds to the word of `rank` and to that of rank 0 which counts for all; their values before.
fn add_both(win: &'static Win, rank: i32, own: i64, all: i64) -> Result<(i64, i64), i32> {
    if win.body.parts().of(rank).is_some() {
        return Ok((add(win, rank, OWN, own)?, add(win, 0, ALL, all)?));
    }
    let (mut own_before, mut all_before) = (0, 0);
    // SAFETY: the locals live until both additions are complete, also if one of them fails.
    let begun = unsafe {
        begin_add(&own, &mut own_before, (rank, OWN), win)
            .and_then(|()| begin_add(&all, &mut all_before, (0, ALL), win))
    };
    let mut completed = complete(win, rank);
    if rank != 0 {
        completed = complete(win, 0).and(completed);
    }
    completed.and(begun).map(|()| (own_before, all_before))
}

/// A word of `rank` that this process can change by itself.
#[inline(always)]
fn near(win: &'static Win, rank: i32, word: isize) -> Option<&'static AtomicI64> {
    let locks = win.body.parts().locks(rank);
    locks.map(|locks| locks.word(word))
}

/// What was begun at `rank` is done.
fn complete(win: &'static Win, rank: i32) -> Result<(), i32> {
    lower_window::complete_adds(rank, win)
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
