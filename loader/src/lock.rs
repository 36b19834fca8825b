//! A spin lock for the loader's tables.
//!
//! # Safety
//! The lock is held only in code during which the application's signals are deferred (see
//! `signals.rs`) and the stop signal merely leaves a note, so its holder is never interrupted by
//! something that wants the lock, and no thread is parked with it. That makes it fit for signal
//! handlers; it needs neither libc nor TLS. Exclusive access follows from `held`.
#![allow(unsafe_code)]

use crate::raw;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};

/// See the module's head.
pub struct Spin<T> {
    held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: `held` serialises access to `value`.
unsafe impl<T: Send> Sync for Spin<T> {}

impl<T> Spin<T> {
    /// A free lock.
    pub const fn new(value: T) -> Self {
        Self {
            held: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Takes the lock.
    pub fn lock(&self) -> Guard<'_, T> {
        let mut tries = 0;
        while self.held.swap(true, Ordering::Acquire) {
            tries += 1;
            if tries > 64 {
                raw::sched_yield();
            } else {
                core::hint::spin_loop();
            }
        }
        Guard(self)
    }
}

/// The lock is free again when this is dropped.
pub struct Guard<'a, T>(&'a Spin<T>);

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard exists, so the lock is held by us.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard exists, so the lock is held by us, and it is borrowed uniquely.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.0.held.store(false, Ordering::Release);
    }
}
