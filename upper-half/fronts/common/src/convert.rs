//! Small conversions that every front needs: handles from Fortran, arrays of integers, single statuses.
//!
//! # Safety
//! The pointers are arguments of MPI functions. The standard requires that they are valid for the lengths that are
//! passed beside them.
#![allow(unsafe_code)]

use contract::abi::Status;
use upper_half::object::{Body, Object};

/// The object of a Fortran handle that is an object's index. Any other integer gives the null object.
pub fn f2c<B: Body>(fortran: i32) -> &'static Object<B> {
    u32::try_from(fortran)
        .ok()
        .and_then(|index| B::table().get(index))
        .unwrap_or_else(Object::null)
}

/// Translates `len` integers in place.
///
/// # Safety
/// `values` must be valid for reading and writing `len` integers.
#[inline(always)]
pub unsafe fn map_in_place(values: *mut i32, len: usize, translate: fn(i32) -> i32) {
    for index in 0..len {
        // SAFETY: index < len, and the caller promises that `values` is valid for `len` integers.
        unsafe {
            let value = values.add(index);
            *value = translate(*value);
        }
    }
}

/// Writes `status` with `write`, and then restores the error field. Calls that complete a single operation do not
/// change that field (MPI 3.1, §3.2.5), but the empty status sets it (§3.7.3). The source of the empty status is
/// MPI_ANY_SOURCE, which is the source of no message.
///
/// # Safety
/// `error` must point to the error field of the status that `write` writes.
#[inline(always)]
pub unsafe fn single_status(status: &Status, error: *mut i32, write: impl FnOnce()) {
    // SAFETY: the caller promises that `error` is a field of the application's status, which is valid for both.
    unsafe {
        let kept = error.read();
        write();
        if status.source != Status::EMPTY.source {
            error.write(kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error field after `status` is written to a status with the error 77.
    fn error_after(status: &Status) -> i32 {
        let mut to = Status {
            error: 77,
            ..Status::EMPTY
        };
        let place = &raw mut to;
        // SAFETY: the pointer leads to the error field of `to`, the local that the closure writes.
        unsafe { single_status(status, &raw mut (*place).error, || place.write(*status)) };
        to.error
    }

    #[test]
    fn only_the_empty_status_sets_the_error() {
        let received = Status {
            source: 1,
            tag: 2,
            ..Status::EMPTY
        };
        assert_eq!(error_after(&received), 77);
        assert_eq!(error_after(&Status::PROC_NULL), 77);
        assert_eq!(error_after(&Status::EMPTY), 0);
    }
}
