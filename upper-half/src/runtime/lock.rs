//! The locks of this library. They cost next to nothing while one thread calls MPI, and spin while several do
//! (`crossing/thread_level.rs`). No lock is held across a call into the lower half that may wait, or by a thread that
//! is parked for a checkpoint.
//!
//! # Safety
//! `Lock<T>` gives out one `&mut T` at a time: by compare-and-swap when several threads may be in MPI, and by a plain
//! flag while there is one. A second thread waits until the first has left the calls that it began without locks, and
//! then finds the flag that the first may still hold.
#![allow(unsafe_code)]

use crate::runtime::reports::REPORTS;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};

static MULTIPLE: AtomicBool = AtomicBool::new(true);

/// Says whether threads may be in MPI at the same time. Until the thread level is known they may.
pub fn set_multiple(multiple: bool) {
    MULTIPLE.store(multiple, Ordering::SeqCst);
    REPORTS
        .multiple
        .store(u32::from(multiple), Ordering::Relaxed);
}

/// Whether threads may be in MPI at the same time.
#[inline(always)]
pub fn multiple() -> bool {
    MULTIPLE.load(Ordering::Relaxed)
}

/// A value that one thread at a time may use.
pub struct Lock<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: see the module's head; access is exclusive, so `T: Send` is enough.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// An unlocked value.
    pub const fn new(value: T) -> Self {
        Lock {
            held: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the value and keeps others from it while the guard lives.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        if multiple() || self.held.load(Ordering::Relaxed) {
            self.spin();
        } else {
            self.held.store(true, Ordering::Relaxed);
        }
        Guard { lock: self }
    }

    #[cold]
    #[inline(never)]
    fn spin(&self) {
        /// Longer than anybody who runs holds a lock.
        const TURNS: u32 = 10_000;
        let mut turns = 0;
        while self
            .held
            .compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            core::hint::spin_loop();
            turns += 1;
            if turns % TURNS == 0 {
                std::thread::yield_now();
            }
        }
    }
}

/// Access to the value of a [`Lock`].
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard exists, so access is exclusive.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard exists, so access is exclusive.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.held.store(false, Ordering::Release);
    }
}
