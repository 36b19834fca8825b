//! The parts of a window's members. Each rank has a part of its own: a head with the words of its locks, and behind it
//! the memory of MPI_Win_allocate. Where all members are on one node, each also has the parts of the others, mapped in
//! its lower half. `rma/node_parts.rs` makes them.
//!
//! # Safety
//! A part of this rank lives as long as its window. The addresses of other ranks' parts are valid until the window is
//! freed or the job is restarted; a restart forgets them before any code of the window runs.
#![allow(unsafe_code)]

use crate::object::win::lock_words::LockWords;
use crate::runtime::syscall::Mapping;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Bytes of the head, in whole pages: the memory behind it begins at a page.
pub(crate) const HEAD: usize = 4096;

/// What a part begins with.
#[repr(C)]
pub(crate) struct Head {
    /// A number that other ranks recognise the memory by.
    pub(crate) mark: AtomicU64,
    pub(crate) locks: LockWords,
}

/// The part of this rank.
pub(crate) struct OwnPart(Mapping);

impl OwnPart {
    /// A part with `bytes` of memory behind its head.
    pub(crate) fn new(bytes: usize) -> Option<OwnPart> {
        let all = bytes.checked_add(HEAD)?.checked_next_multiple_of(HEAD)?;
        Mapping::anonymous(all).map(OwnPart)
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.0
    }

    /// The address of the memory behind the head.
    pub(crate) fn memory(&self) -> usize {
        self.0.start() as usize + HEAD
    }

    pub(crate) fn head(&self) -> &Head {
        // SAFETY: the mapping has a page at least, zeroed at first, and lives as long as this.
        unsafe { &*self.0.start().cast::<Head>() }
    }
}

/// A member's part, as it is mapped here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Address of its [`Head`].
    pub(crate) head: usize,
    /// Bytes that are mapped in the lower half; 0 of this rank's own part.
    pub(crate) mapped: usize,
    /// Start and size of the member's window.
    pub(crate) base: usize,
    pub(crate) bytes: isize,
}

/// The parts of all members by rank, if they are mapped here.
#[derive(Default)]
pub(crate) struct Parts {
    /// An array with an entry for each member, from a `Box`.
    all: AtomicPtr<Part>,
}

impl Parts {
    /// The part of a rank that exists, if it is mapped here.
    #[inline(always)]
    pub(crate) fn of(&self, rank: i32) -> Option<&Part> {
        let all = self.all.load(Ordering::Acquire);
        // SAFETY: an entry for each member, until the window is freed.
        (!all.is_null()).then(|| unsafe { &*all.add(rank as usize) })
    }

    /// The lock words of a rank that exists, if they are mapped here.
    #[inline(always)]
    pub(crate) fn locks(&self, rank: i32) -> Option<&LockWords> {
        // SAFETY: a head, see the head of this file.
        self.of(rank)
            .map(|part| unsafe { &(*(part.head as *const Head)).locks })
    }

    /// Sets the parts of all members.
    pub(crate) fn set(&self, all: Box<[Part]>) {
        self.all
            .store(Box::into_raw(all).cast::<Part>(), Ordering::Release);
    }

    /// Forgets all parts and returns them. `members` is the number of the window's members. No other thread uses the
    /// window.
    pub(crate) fn take(&self, members: i32) -> Box<[Part]> {
        let all = self.all.swap(core::ptr::null_mut(), Ordering::AcqRel);
        if all.is_null() {
            return Box::default();
        }
        let all = core::ptr::slice_from_raw_parts_mut(all, members as usize);
        // SAFETY: from `set`, with an entry for each member; it was given up just now.
        unsafe { Box::from_raw(all) }
    }
}
