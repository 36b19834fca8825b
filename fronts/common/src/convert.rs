//! Small conversions that every front needs.
//!
//! # Safety
//! The pointers are arguments of MPI functions, which the standard requires to be valid for the
//! lengths given beside them.
#![allow(unsafe_code)]

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

/// Writes a status by `write`, and then puts the error field back: calls that complete a single
/// operation leave it alone (MPI 3.1, §3.2.5).
///
/// # Safety
/// `error` lies inside the status that `write` writes.
#[inline(always)]
pub unsafe fn keep_error(error: *mut i32, write: impl FnOnce()) {
    // SAFETY: the caller's promise.
    unsafe {
        let kept = error.read();
        write();
        error.write(kept);
    }
}
