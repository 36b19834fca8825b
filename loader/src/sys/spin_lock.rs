//! Spin lock for the loader's tables.
//!
//! # Safety
//! The lock is held only in code during which the application's signals are deferred (see
//! `interpose/signals/delivery.rs`) and the stop signal only sets a flag. So its holder is never interrupted by code
//! that takes the lock, and no thread is parked with it. It is therefore safe in signal handlers, and needs neither
//! libc nor TLS. Exclusive access follows from `held`.
#![allow(unsafe_code)]

use super::syscall;
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
    /// Unlocked lock.
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
                syscall::sched_yield();
            } else {
                core::hint::spin_loop();
            }
        }
        Guard(self)
    }
}

/// Unlocks on drop.
pub struct Guard<'a, T>(&'a Spin<T>);

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: the guard exists, so this thread holds the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard exists, so this thread holds the lock, and it is borrowed uniquely.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.0.held.store(false, Ordering::Release);
    }
}
