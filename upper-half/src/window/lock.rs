//! Passive target locks, MPI-3.1 §11.5.3, as words in memory of the upper half that ranks change by
//! atomic operations below (the two levels of Gerstenberger, Besta & Hoefler, SC'13, §2.3): each
//! rank has a word that counts who holds it shared and marks who holds it exclusively; rank 0 has
//! one more, which counts `lock_all`s and exclusive locks of any rank, so that neither has to visit
//! every rank. A lock that cannot be had is tried again, and between two tries a checkpoint may stop
//! the thread. As the words are saved, locks outlive a restart.
//!
//! # Safety
//! As for `window`. Remote ranks change the words at any time, through the library below.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head

use super::below;
use crate::code::{check, code_of};
use crate::lower;
use crate::message;
use crate::object::{Datatype, Op, Win};
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
}

const EXCLUSIVE: i64 = 1 << 32;
const EXCLUSIVE_SOMEWHERE: i64 = 1 << 32;
const LOCK_ALLS: i64 = EXCLUSIVE_SOMEWHERE - 1;

/// Displacements of the two words.
const OWN: isize = 0;
const ALL: isize = 1;

impl LockWords {
    /// The word at a displacement.
    fn word(&self, displacement: isize) -> &AtomicI64 {
        match displacement {
            OWN => &self.own,
            _ => &self.all,
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
            Way::Exclusive => announce(win).and_then(|()| {
                // A sum and not a comparison: Open MPI 4.1.4 crashes in MPI_Compare_and_swap on its
                // own rank.
                take(win, rank, OWN, EXCLUSIVE, |before| before == 0)
            }),
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
                Way::Exclusive => add(win, rank, OWN, -EXCLUSIVE)
                    .and_then(|_| add(win, 0, ALL, -EXCLUSIVE_SOMEWHERE).map(drop)),
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

/// Announces an exclusive lock, which keeps `lock_all`s off.
unsafe fn announce(win: &'static Win) -> Result<(), i32> {
    let no_lock_all = |before| before & LOCK_ALLS == 0;
    // SAFETY: passed on.
    unsafe { take(win, 0, ALL, EXCLUSIVE_SOMEWHERE, no_lock_all) }
}

/// Adds to a word of `rank` as soon as nothing stands in the way: what it was before tells. Until
/// then what was added is taken back, and tried again.
unsafe fn take(
    win: &'static Win,
    rank: i32,
    word: isize,
    value: i64,
    free: impl Fn(i64) -> bool,
) -> Result<(), i32> {
    // SAFETY: passed on.
    let attempt = || unsafe {
        let taken = free(add(win, rank, word, value)?);
        if !taken {
            add(win, rank, word, -value)?;
        }
        Ok(taken)
    };
    let mut result = Ok(());
    let over = || {
        attempt().unwrap_or_else(|error| {
            result = Err(error);
            true
        })
    };
    // SAFETY: no lock of this library is held.
    unsafe { message::wait_until(over) };
    result
}

/// Adds to a word of `rank`; its value before.
unsafe fn add(win: &'static Win, rank: i32, word: isize, value: i64) -> Result<i64, i32> {
    if win.body.is_alone() {
        return Ok(win.body.locks.word(word).fetch_add(value, Ordering::AcqRel));
    }
    let mut before = 0_i64;
    let below = win.body.locks_below.load(Ordering::Relaxed);
    // SAFETY: locals that live until the flush, and a live window.
    unsafe {
        check(lower::MPI_Fetch_and_op(
            (&raw const value).cast(),
            (&raw mut before).cast(),
            integer(),
            rank,
            word,
            Op::at(op::SUM as u32).lower(),
            below,
        ))?;
        check(lower::MPI_Win_flush(rank, below))?;
    }
    Ok(before)
}

fn integer() -> usize {
    Datatype::at(datatype::INT64_T as u32).lower()
}
