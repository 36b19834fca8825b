//! One mutex for each member of a window on one node, in shared memory of the lower half. `rma/node_mutex.rs` makes
//! them.
//!
//! # Safety
//! The words are in the lower half's memory as long as its window lives.
#![allow(unsafe_code)]

use crate::object::lower_handle::Slot;
use crate::object::win::WinBody;
use core::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

/// One member's word, alone in its cache line.
#[repr(C, align(64))]
pub(crate) struct NodeMutex(AtomicI64);

/// The words of a window's members.
#[derive(Default)]
pub(crate) struct NodeMutexes {
    /// Where they lie, by rank; 0 if there are none.
    pub(crate) first: AtomicUsize,
    /// The window below that they lie in.
    pub(crate) below: Slot<WinBody>,
}

impl NodeMutexes {
    /// The word of a rank that exists.
    pub(crate) fn of(&self, rank: i32) -> Option<&'static AtomicI64> {
        match self.first.load(Ordering::Relaxed) {
            0 => None,
            // SAFETY: as many as there are ranks, until `free`.
            first => Some(unsafe { &(*(first as *const NodeMutex).add(rank as usize)).0 }),
        }
    }

    /// Those from before a restart are none.
    pub(crate) fn forget(&self) {
        self.first.store(0, Ordering::Relaxed);
    }
}
