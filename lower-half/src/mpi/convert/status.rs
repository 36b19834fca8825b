//! Statuses: the library's layout to the standard's and back.
//!
//! # Safety
//! [`Out`] writes through the pointer that it is made for.
#![allow(unsafe_code)]

use contract::abi::{self, Status};
use mpi_sys::MPI_Status;

use super::{error, native};

/// The standard's form of a native status.
#[inline(always)]
pub fn standard(status: &MPI_Status) -> Status {
    Status {
        error: abi::SUCCESS,
        ..native::standard_status(status)
    }
}

/// The standard's form of a status whose error field is significant (after MPI_ERR_IN_STATUS).
pub fn standard_with_error(status: &MPI_Status) -> Status {
    let status = native::standard_status(status);
    Status {
        error: error::class(status.error),
        ..status
    }
}

/// The native form of a status.
pub fn native(status: &Status) -> MPI_Status {
    native::native_status(&Status {
        error: abi::SUCCESS,
        ..*status
    })
}

/// A status that one call fills, or ignores if the caller passed null.
pub struct Out {
    filled: MPI_Status,
    wanted: *mut Status,
}

impl Out {
    /// For the caller's `wanted`.
    ///
    /// # Safety
    /// `wanted` must be null or valid for writes, as long as this lives.
    #[inline(always)]
    pub unsafe fn new(wanted: *mut Status) -> Self {
        Out {
            filled: native::EMPTY_STATUS,
            wanted,
        }
    }

    /// What the native function gets.
    #[inline(always)]
    pub fn pointer(&mut self) -> *mut MPI_Status {
        if self.wanted.is_null() {
            return native::STATUS_IGNORE as *mut MPI_Status;
        }
        &mut self.filled
    }

    /// Writes the status to the caller's.
    #[inline(always)]
    pub fn write_back(&mut self) {
        if !self.wanted.is_null() {
            // SAFETY: not null, so valid by the contract of `new`.
            unsafe { self.wanted.write(standard(&self.filled)) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(not(native_mpi = "standard"))] // a library would have to be loaded
    fn statuses_survive_both_ways() {
        let status = Status {
            source: 3,
            tag: 9,
            error: abi::SUCCESS,
            cancelled: 1,
            count: (5 << 32) | 0xffff_fff0,
            reserved: 0,
        };
        assert_eq!(standard(&native(&status)), status);
        assert_eq!(standard(&native(&Status::EMPTY)), Status::EMPTY);
        assert_eq!(standard(&native(&Status::PROC_NULL)), Status::PROC_NULL);
    }

    #[test]
    fn a_status_that_nobody_wants_is_ignored() {
        // SAFETY: null is allowed.
        let mut out = unsafe { Out::new(std::ptr::null_mut()) };
        assert_eq!(out.pointer() as usize, native::STATUS_IGNORE);
    }
}
