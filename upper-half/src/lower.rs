//! Stubs of the lower half's functions: calling one crosses. Those of MPI and of the services are
//! generated from the table by build.rs; handles are words, statuses and values the standard's.
//!
//! A word of the lower half is void after a restart, and a thread may be restarted wherever it parks. So what is
//! composed of several crossings calls the functions of [`named`], which take objects: a word is read in the crossing
//! itself, and nobody has one in hand when the thread parks. Nor can anybody get one: [`Below`] gives words to the
//! stubs alone.
//!
//! ```no_run
//! use stasis_upper_half::lower::named;
//! use stasis_upper_half::Win;
//! // The window may be another one below each time.
//! unsafe fn twice(win: &'static Win) -> i32 {
//!     unsafe { named::MPI_Win_flush_all(win) | named::MPI_Win_flush_all(win) }
//! }
//! ```
//!
//! ```compile_fail,E0133
//! use stasis_upper_half::Win;
//! // The word may be void when it is used: to read it is unsafe.
//! fn kept(win: &'static Win) -> usize {
//!     win.lower()
//! }
//! ```
//!
//! ```compile_fail,E0599
//! use stasis_upper_half::Win;
//! // What the stubs are given by is theirs.
//! fn kept(win: &'static Win) -> usize {
//!     win.word()
//! }
//! ```
//!
//! ```compile_fail,E0603
//! use stasis_upper_half::lower::sealed::Word;
//! ```
//!
//! A window that was just made has its word in a [`Fresh`], which lives as long as the collective operation that
//! makes it, in which nothing parks:
//!
//! ```no_run
//! use stasis_upper_half::lower::Fresh;
//! use stasis_upper_half::message::{collective_begin, collective_end};
//! use stasis_upper_half::object::{Comm, WinBody};
//! fn given_up(comm: &'static Comm) {
//!     let token = collective_begin(comm);
//!     let mut made: Fresh<'_, WinBody> = token.fresh();
//!     made.place();
//!     collective_end(token);
//! }
//! ```
//!
//! ```compile_fail,E0505
//! use stasis_upper_half::lower::Fresh;
//! use stasis_upper_half::message::{collective_begin, collective_end};
//! use stasis_upper_half::object::{Comm, WinBody};
//! fn kept(comm: &'static Comm) {
//!     let token = collective_begin(comm);
//!     let mut made: Fresh<'_, WinBody> = token.fresh();
//!     collective_end(token);
//!     made.place();
//! }
//! ```
//!
//! # Safety
//! Each is a call of the real MPI library with the promises that its arguments make.
#![allow(unsafe_code)]
#![allow(non_snake_case, missing_docs, clippy::too_many_arguments)]
#![allow(clippy::missing_safety_doc)] // the same for all: see above

use crate::info::CrossingInfo;
use crate::object::{Body, InfoBody, Object};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicUsize, Ordering};
use sealed::Word;

mod sealed {
    /// Gives the stubs a word.
    pub trait Word {
        fn word(self) -> usize;
    }
}

/// What names an object of a kind to the library below.
pub trait Below<B: Body>: Word {}

impl<B: Body> Word for &Object<B> {
    #[inline(always)]
    fn word(self) -> usize {
        // SAFETY: only the stubs call this, as they cross.
        unsafe { self.lower() }
    }
}

impl<B: Body> Below<B> for &Object<B> {}

/// An object below that has none here. A restart makes it anew.
pub struct Slot<B>(AtomicUsize, PhantomData<fn() -> B>);

impl<B: Body> Slot<B> {
    /// Without one.
    pub const fn empty() -> Self {
        Slot(AtomicUsize::new(0), PhantomData)
    }

    /// Takes what was made.
    pub fn take(&self, made: Fresh<'_, B>) {
        self.0.store(made.0, Ordering::Relaxed);
    }

    /// Where its word is, for calls that write it.
    pub fn place(&self) -> *mut usize {
        self.0.as_ptr()
    }
}

impl<B: Body> Default for Slot<B> {
    fn default() -> Self {
        Slot::empty()
    }
}

impl<B: Body> Word for &Slot<B> {
    #[inline(always)]
    fn word(self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl<B: Body> Below<B> for &Slot<B> {}

/// What was just made below, while `'a` keeps the thread from parking.
pub struct Fresh<'a, B>(usize, PhantomData<&'a ()>, PhantomData<B>);

impl<B: Body> Fresh<'_, B> {
    /// The null handle, for now.
    ///
    /// # Safety
    /// The thread does not park while it lives.
    pub unsafe fn null() -> Self {
        // SAFETY: the null handle is the same word for as long.
        let null = unsafe { Object::<B>::null().lower() };
        Fresh(null, PhantomData, PhantomData)
    }

    /// Where its word is, for the call that makes it.
    pub fn place(&mut self) -> *mut usize {
        &raw mut self.0
    }
}

impl<B: Body> Object<B> {
    /// Makes one of what was made, with one reference, the application's handle.
    pub fn make_of(made: Fresh<'_, B>, body: B) -> Result<&'static Self, i32> {
        Object::make(made.0, body)
    }

    /// Takes what was made. Another thread may act on it at once.
    pub fn take(&self, made: Fresh<'_, B>) {
        self.set_lower(made.0);
    }
}

impl<B: Body> Word for &Fresh<'_, B> {
    #[inline(always)]
    fn word(self) -> usize {
        self.0
    }
}

impl<B: Body> Below<B> for &Fresh<'_, B> {}

impl Word for &CrossingInfo {
    #[inline(always)]
    fn word(self) -> usize {
        // SAFETY: only the stubs call this, as they cross.
        unsafe { CrossingInfo::word(self) }
    }
}

impl Below<InfoBody> for &CrossingInfo {}

include!(concat!(env!("OUT_DIR"), "/lower.rs"));
