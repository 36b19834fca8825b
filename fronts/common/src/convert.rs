//! Small conversions that every front needs.
//!
//! # Safety
//! The pointers are arguments of MPI functions, which the standard requires to be valid for the
//! lengths given beside them.
#![allow(unsafe_code)]

use contract::abi::Status;
use upper_half::object::{Body, Object};

/// The object of a Fortran handle that is an object's index; null for anything else.
pub fn f2c<B: Body>(fortran: i32) -> &'static Object<B> {
    u32::try_from(fortran)
        .ok()
        .and_then(|index| B::table().get(index))
        .unwrap_or_else(Object::null)
}

/// Translates `len` integers where they are.
///
/// # Safety
/// `values` holds that many.
#[inline(always)]
pub unsafe fn map_in_place(values: *mut i32, len: usize, translate: fn(i32) -> i32) {
    for index in 0..len {
        // SAFETY: the caller's promise.
        unsafe {
            let value = values.add(index);
            *value = translate(*value);
        }
    }
}

/// Writes `status` by `write`, and then puts the error field back: calls that complete a single
/// operation leave it alone (MPI 3.1, §3.2.5), unless the status is the empty one, of which the error
/// field is a part (§3.7.3). No message is from MPI_ANY_SOURCE.
///
/// # Safety
/// `error` lies inside what `write` writes.
#[inline(always)]
pub unsafe fn single_status(status: &Status, error: *mut i32, write: impl FnOnce()) {
    // SAFETY: the caller's promise.
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

    /// What becomes of an error field that was 77 when `status`, whose error is SUCCESS, is written.
    fn error_after(status: &Status) -> i32 {
        let mut to = Status {
            error: 77,
            ..Status::EMPTY
        };
        let place = &raw mut to;
        // SAFETY: the field of a local, which the closure writes.
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
