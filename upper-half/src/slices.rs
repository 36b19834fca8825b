//! Arrays of the application, as MPI passes them: a pointer and a number of entries.
//!
//! # Safety
//! Each function trusts its caller's pointer and number as MPI's contract states them.
#![allow(unsafe_code)]

/// The entries of an input array; none where the number is not positive.
///
/// # Safety
/// `n` readable entries at `pointer`, which live as long as the result is used.
pub(crate) unsafe fn input<'a, T>(pointer: *const T, n: impl TryInto<usize>) -> &'a [T] {
    match n.try_into() {
        // SAFETY: the caller's promise.
        Ok(n) if n > 0 && !pointer.is_null() => unsafe { core::slice::from_raw_parts(pointer, n) },
        _ => &[],
    }
}

/// Copies as many entries as fit into an output array of `n`.
///
/// # Safety
/// `n` writable entries at `pointer`.
pub(crate) unsafe fn output<T: Copy>(values: &[T], pointer: *mut T, n: impl TryInto<usize>) {
    let n = n.try_into().unwrap_or(0).min(values.len());
    if n > 0 {
        // SAFETY: the caller's promise; `values` is ours, so the two do not overlap.
        unsafe { core::ptr::copy_nonoverlapping(values.as_ptr(), pointer, n) };
    }
}
