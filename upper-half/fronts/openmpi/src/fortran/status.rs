//! Statuses. In Fortran a status is an array of integers, with the layout of the C structure and the alignment of an
//! integer.
//!
//! # Safety
//! A status argument that is not ignored points to a status of the application, or to as many as the function takes.
#![allow(unsafe_code)]

use core::ffi::c_void;
use stasis_front_common::Scratch;

use super::sentinels::ignored;
use crate::abi;

/// Aligned copy of one status of the application, for a C function.
pub struct Status {
    /// Address of the application's status; null if it is ignored.
    application: *mut abi::Status,
    /// The copy.
    value: abi::Status,
}

impl Status {
    /// Copies the status that the application passed.
    ///
    /// # Safety
    /// `status` must be ignored, or valid for reading and writing a status while the copy lives.
    #[inline(always)]
    pub unsafe fn of(status: *mut c_void) -> Status {
        if ignored(status) {
            return Status {
                application: core::ptr::null_mut(),
                value: abi::Status::default(),
            };
        }
        let application = status.cast::<abi::Status>();
        Status {
            application,
            // SAFETY: the status is not ignored, so the caller promises that it is valid. Its alignment does not
            // matter.
            value: unsafe { application.read_unaligned() },
        }
    }

    /// Address for a C function that reads the status.
    #[inline(always)]
    pub fn value(&self) -> *const abi::Status {
        &raw const self.value
    }

    /// Address for a C function that writes the status; null if it is ignored.
    #[inline(always)]
    pub fn place(&mut self) -> *mut abi::Status {
        if self.application.is_null() {
            core::ptr::null_mut()
        } else {
            &raw mut self.value
        }
    }

    /// Copies the status to the application's.
    ///
    /// # Safety
    /// The application's status must still be valid.
    #[inline(always)]
    pub unsafe fn write(&self) {
        if !self.application.is_null() {
            // SAFETY: the caller promises that the application's status is valid. Its alignment does not matter.
            unsafe { self.application.write_unaligned(self.value) };
        }
    }
}

/// Aligned copies of an array of statuses, for a C function.
pub struct Statuses {
    /// Address of the application's first status; null if the statuses are ignored.
    application: *mut abi::Status,
    /// Number of statuses.
    len: usize,
    /// The copies.
    values: Scratch<abi::Status>,
}

impl Statuses {
    /// The statuses that the application passed; `len` is their number.
    ///
    /// # Safety
    /// `statuses` must be ignored, or valid for reading and writing `len` statuses while the copies live.
    #[inline(always)]
    pub unsafe fn of(statuses: *mut c_void, len: usize) -> Statuses {
        Statuses {
            application: if ignored(statuses) {
                core::ptr::null_mut()
            } else {
                statuses.cast()
            },
            len,
            values: Scratch::new(),
        }
    }

    /// Copies the application's statuses, and returns the address for a C function that writes them. It is null if they
    /// are ignored.
    ///
    /// # Safety
    /// The application's statuses must still be valid. `self` must not move after this.
    #[inline(always)]
    pub unsafe fn place(&mut self) -> *mut abi::Status {
        let application = self.application;
        if application.is_null() {
            return core::ptr::null_mut();
        }
        // SAFETY: index < `len`, and the caller promises that the application's statuses are valid.
        let read = |index| unsafe { application.add(index).read_unaligned() };
        self.values.fill(self.len, read)
    }

    /// Copies the statuses to the application's.
    ///
    /// # Safety
    /// The application's statuses must still be valid, and `place` must have been called.
    #[inline(always)]
    pub unsafe fn write(&self) {
        if self.application.is_null() {
            return;
        }
        for (index, value) in self.values.entries(self.len).iter().enumerate() {
            // SAFETY: index < `len`, and the caller promises that the application's statuses are valid.
            unsafe { self.application.add(index).write_unaligned(*value) };
        }
    }
}
