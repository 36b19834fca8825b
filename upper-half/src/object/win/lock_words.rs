//! The words that count the holders of a window's locks, and the locks that this rank holds. `rma/passive_target.rs`
//! changes them.

use core::ffi::c_void;
use core::sync::atomic::AtomicI64;
use std::collections::BTreeMap;

/// The words of one rank.
#[repr(C)]
#[derive(Default)]
pub(crate) struct LockWords {
    /// Shared holders of this rank, and [`EXCLUSIVE`] for each who has it so or has just tried.
    own: AtomicI64,
    /// In rank 0: `lock_all`s, and [`EXCLUSIVE_SOMEWHERE`] for each exclusive lock of any rank.
    all: AtomicI64,
    /// [`EXCLUSIVE`] for who changes this rank's memory by `passive_target::changing`, and for each who has just tried.
    changing: AtomicI64,
}

pub(crate) const EXCLUSIVE: i64 = 1 << 32;
pub(crate) const EXCLUSIVE_SOMEWHERE: i64 = 1 << 32;
pub(crate) const LOCK_ALLS: i64 = EXCLUSIVE_SOMEWHERE - 1;

/// Displacements of the words.
pub(crate) const OWN: isize = 0;
pub(crate) const ALL: isize = 1;
pub(crate) const CHANGING: isize = 2;

impl LockWords {
    /// The word at a displacement.
    pub(crate) fn word(&self, displacement: isize) -> &AtomicI64 {
        match displacement {
            OWN => &self.own,
            ALL => &self.all,
            _ => &self.changing,
        }
    }

    /// Start, bytes and displacement unit, for a window below.
    pub(crate) fn place(&self) -> (*mut c_void, isize, i32) {
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
pub(crate) enum LockMode {
    Shared,
    Exclusive,
    /// With MPI_MODE_NOCHECK: the application answers for it, no word was changed.
    Unchecked,
}

/// The locks that this rank holds.
#[derive(Default)]
pub(crate) struct Held {
    pub(crate) of: BTreeMap<i32, LockMode>,
    pub(crate) all: Option<LockMode>,
}
