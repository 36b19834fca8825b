//! Statuses: an array of integers in Fortran, with the layout of the C structure but the alignment of
//! an integer.
//!
//! # Safety
//! What is not ignored is a status, or as many as the function says, of the application's.
#![allow(unsafe_code)]

use core::ffi::c_void;
use stasis_front_common::Scratch;

use super::sentinels::ignored;
use crate::abi;

/// One status of the application, as a C function gets it.
pub struct Status {
    /// Null when it is ignored.
    application: *mut abi::Status,
    value: abi::Status,
}

impl Status {
    /// Reads what the application passed.
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
            // SAFETY: see the module's head.
            value: unsafe { application.read_unaligned() },
        }
    }

    /// For a function that reads it.
    #[inline(always)]
    pub fn value(&self) -> *const abi::Status {
        &raw const self.value
    }

    /// For a function that writes it.
    #[inline(always)]
    pub fn place(&mut self) -> *mut abi::Status {
        if self.application.is_null() {
            core::ptr::null_mut()
        } else {
            &raw mut self.value
        }
    }

    /// Gives the application what the function wrote.
    #[inline(always)]
    pub unsafe fn write(&self) {
        if !self.application.is_null() {
            // SAFETY: see the module's head.
            unsafe { self.application.write_unaligned(self.value) };
        }
    }
}

/// An array of statuses.
pub struct Statuses {
    /// Null when they are ignored.
    application: *mut abi::Status,
    len: usize,
    values: Scratch<abi::Status>,
}

impl Statuses {
    /// As many as there are.
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

    /// For a function that writes them; filled with what the application passed. The statuses must
    /// not be moved any more.
    #[inline(always)]
    pub unsafe fn place(&mut self) -> *mut abi::Status {
        let application = self.application;
        if application.is_null() {
            return core::ptr::null_mut();
        }
        // SAFETY: see the module's head.
        let read = |index| unsafe { application.add(index).read_unaligned() };
        self.values.fill(self.len, read)
    }

    /// Gives the application what the function wrote.
    #[inline(always)]
    pub unsafe fn write(&self) {
        if self.application.is_null() {
            return;
        }
        for (index, value) in self.values.entries(self.len).iter().enumerate() {
            // SAFETY: see the module's head.
            unsafe { self.application.add(index).write_unaligned(*value) };
        }
    }
}
