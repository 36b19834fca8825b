//! Objects as the stubs take them, so that no code keeps a lower handle of the lower half.
//!
//! A lower handle is void after a restart, and a thread may be restarted wherever it parks. So code that is composed of
//! several crossings calls the functions of [`named`], which take objects: each reads the lower handle in the crossing
//! itself. No other code can read one: [`Below`] gives lower handles to the stubs alone.
//!
//! ```
//! use stasis_upper_half::object::lower_handle::named;
//! use stasis_upper_half::Win;
//! // The window may be another one below each time.
//! fn twice(win: &'static Win) -> i32 {
//!     named::MPI_Win_flush_all(win) | named::MPI_Win_flush_all(win)
//! }
//! ```
//!
//! ```compile_fail,E0133
//! use stasis_upper_half::Win;
//! // The lower handle may be void when it is used: to read it is unsafe.
//! fn kept(win: &'static Win) -> usize {
//!     win.lower()
//! }
//! ```
//!
//! ```compile_fail,E0599
//! use stasis_upper_half::Win;
//! // What the stubs are given by is theirs.
//! fn kept(win: &'static Win) -> usize {
//!     win.read_lower()
//! }
//! ```
//!
//! ```compile_fail,E0603
//! use stasis_upper_half::object::lower_handle::sealed::ReadLower;
//! ```
//!
//! The lower handle of a window that was just made is in a [`Fresh`]. It lives as long as the collective operation that
//! makes the window, in which no thread parks:
//!
//! ```
//! use stasis_upper_half::object::lower_handle::Fresh;
//! use stasis_upper_half::quiesce::{collective_begin, collective_end};
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
//! use stasis_upper_half::object::lower_handle::Fresh;
//! use stasis_upper_half::quiesce::{collective_begin, collective_end};
//! use stasis_upper_half::object::{Comm, WinBody};
//! fn kept(comm: &'static Comm) {
//!     let token = collective_begin(comm);
//!     let mut made: Fresh<'_, WinBody> = token.fresh();
//!     collective_end(token);
//!     made.place();
//! }
//! ```
//!
//! A call that makes, changes or frees what is below takes a [`Room`]: a `&mut` of what holds the lower handle, so that
//! no other code uses the lower handle meanwhile. An object is none, since any thread may use it:
//!
//! ```compile_fail,E0277
//! use stasis_upper_half::object::lower_handle::named;
//! use stasis_upper_half::object::Comm;
//! fn freed(comm: &'static Comm) -> i32 {
//!     named::MPI_Comm_free(comm)
//! }
//! ```
//!
//! A thread that does not park for other reasons, in MPI_Init or in a restart, has an [`Unparked`]. A [`Held`] lower
//! handle is valid as long as that.
//!
//! # Safety
//! A lower handle is read only in the expression of a crossing, or while the thread does not park.
#![allow(unsafe_code)]

pub mod named;
pub mod temporary;

use crate::object::table::{Body, Object};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicUsize, Ordering};
use sealed::{Place, ReadLower};

mod sealed {

    /// Gives the stubs a lower handle.
    pub trait ReadLower {
        fn read_lower(self) -> usize;
    }

    /// Gives the stubs the place of a lower handle.
    pub trait Place {
        fn room(self) -> *mut usize;
    }
}

/// What names an object of a kind to the library below.
pub trait Below<B: Body>: ReadLower {}

/// Place of a lower handle that nothing else uses meanwhile, for a call that makes, changes or frees what the lower
/// handle stands for.
pub trait Room<B: Body>: Place {}

impl<B: Body> ReadLower for &Object<B> {
    #[inline(always)]
    fn read_lower(self) -> usize {
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

    /// With the null handle.
    pub fn null() -> Self {
        Slot(AtomicUsize::new(Object::<B>::null_lower()), PhantomData)
    }

    /// Takes what was made.
    pub fn take(&self, made: Fresh<'_, B>) {
        self.0.store(made.0, Ordering::Relaxed);
    }

    /// Where its lower handle is, for calls that write it.
    pub fn place(&self) -> *mut usize {
        self.0.as_ptr()
    }

    /// The lower handle, for an object that is to keep it.
    pub fn into_word(self) -> usize {
        self.0.into_inner()
    }

    /// Whether it holds the null handle.
    pub fn is_null(&self) -> bool {
        self.read_lower() == Object::<B>::null_lower()
    }
}

impl<B: Body> Default for Slot<B> {
    fn default() -> Self {
        Slot::empty()
    }
}

impl<B: Body> ReadLower for &Slot<B> {
    #[inline(always)]
    fn read_lower(self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl<B: Body> Below<B> for &Slot<B> {}

impl<B: Body> Place for &mut Slot<B> {
    #[inline(always)]
    fn room(self) -> *mut usize {
        self.0.as_ptr()
    }
}

impl<B: Body> Room<B> for &mut Slot<B> {}

/// Proof that this thread does not park.
pub struct Unparked(());

impl Unparked {
    /// # Safety
    /// The thread does not park while it lives.
    pub unsafe fn new() -> Self {
        Unparked(())
    }

    /// Room for what a call below makes.
    pub fn fresh<B: Body>(&self) -> Fresh<'_, B> {
        Fresh(Object::<B>::null_lower(), PhantomData, PhantomData)
    }

    /// What a call below has made since the thread has last parked.
    pub(crate) fn took<B: Body>(&self, made: Slot<B>) -> Fresh<'_, B> {
        Fresh(made.into_word(), PhantomData, PhantomData)
    }

    /// The lower handle of an object that nothing frees meanwhile.
    pub fn held<B: Body>(&self, object: &'static Object<B>) -> Held<'_, B> {
        Held(object.read_lower(), PhantomData, PhantomData)
    }
}

/// The lower handle of an object that lives, while `'a` keeps the thread from parking.
#[repr(transparent)]
pub struct Held<'a, B>(usize, PhantomData<&'a ()>, PhantomData<B>);

impl<B> Clone for Held<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Held<'_, B> {}

impl<B: Body> ReadLower for Held<'_, B> {
    #[inline(always)]
    fn read_lower(self) -> usize {
        self.0
    }
}

impl<B: Body> Below<B> for Held<'_, B> {}

/// A lower object that was just made. The lifetime `'a` keeps the thread from parking.
pub struct Fresh<'a, B>(usize, PhantomData<&'a ()>, PhantomData<B>);

impl<B: Body> Fresh<'_, B> {
    /// Where its lower handle is, for the call that makes it.
    pub fn place(&mut self) -> *mut usize {
        &raw mut self.0
    }

    /// The lower handle, for several calls.
    pub fn held(&self) -> Held<'_, B> {
        Held(self.0, PhantomData, PhantomData)
    }

    /// Whether the call has made nothing.
    pub fn is_null(&self) -> bool {
        self.0 == Object::<B>::null_lower()
    }
}

impl<'a, B: Body> Fresh<'a, B> {
    /// Room for one more, of any kind, for as long.
    pub fn another<C: Body>(&self) -> Fresh<'a, C> {
        Fresh(Object::<C>::null_lower(), PhantomData, PhantomData)
    }
}

impl<B: Body> Object<B> {
    /// Makes one of what was made, with one reference, the application's handle.
    ///
    /// # Errors
    /// `MPI_ERR_NO_MEM` if there are too many of this kind.
    pub fn make_of(made: Fresh<'_, B>, body: B) -> Result<&'static Self, i32> {
        Object::make(made.0, body)
    }

    /// Takes what was made. Another thread may act on it at once.
    pub fn take(&self, made: Fresh<'_, B>) {
        self.set_lower(made.0);
    }

    /// Has the same below as another from now on.
    pub fn share(&self, other: impl Below<B>) {
        self.set_lower(other.read_lower());
    }

    /// Gives what it has below away.
    pub fn leave(&self) -> Slot<B> {
        let below = Slot(AtomicUsize::new(self.read_lower()), PhantomData);
        self.clear_lower();
        below
    }
}

impl<B: Body> ReadLower for &Fresh<'_, B> {
    #[inline(always)]
    fn read_lower(self) -> usize {
        self.0
    }
}

impl<B: Body> Below<B> for &Fresh<'_, B> {}

impl<B: Body> Place for &mut Fresh<'_, B> {
    #[inline(always)]
    fn room(self) -> *mut usize {
        &raw mut self.0
    }
}

impl<B: Body> Room<B> for &mut Fresh<'_, B> {}
