//! Predefined attributes whose value is a constant of the ABI: what the core gives points to the
//! standard's value, and the application must get a pointer to its own.
//!
//! # Safety
//! The pointers are those of a successful MPI_Comm_get_attr or MPI_Win_get_attr with a true flag:
//! for these keyvals, a pointer to an int.
#![allow(unsafe_code)]

use contract::abi;
use core::ffi::c_void;

/// An ABI's values of constants that attributes point to.
pub struct AttributeValues {
    /// MPI_PROC_NULL.
    pub proc_null: i32,
    /// MPI_ANY_SOURCE.
    pub any_source: i32,
    /// MPI_WIN_FLAVOR_CREATE, ALLOCATE, DYNAMIC, SHARED.
    pub flavors: [i32; 4],
    /// MPI_WIN_UNIFIED, MPI_WIN_SEPARATE.
    pub models: [i32; 2],
}

/// Exchanges the value of a predefined attribute (`keyval` is the standard's) for the ABI's.
///
/// # Safety
/// `value` points to the attribute value that the core has just given for `keyval`.
pub unsafe fn attribute_out(
    keyval: i32,
    value: *mut *mut c_void,
    values: &'static AttributeValues,
) {
    if !matches!(
        keyval,
        abi::HOST | abi::IO | abi::WIN_CREATE_FLAVOR | abi::WIN_MODEL
    ) {
        return;
    }
    // SAFETY: the caller's promise; these attributes are pointers to int.
    unsafe {
        let standard: *const i32 = (*value).cast();
        let own = match (keyval, *standard) {
            (abi::HOST | abi::IO, abi::PROC_NULL) => &values.proc_null,
            (abi::HOST | abi::IO, abi::ANY_SOURCE) => &values.any_source,
            (abi::WIN_CREATE_FLAVOR, abi::WIN_FLAVOR_CREATE) => &values.flavors[0],
            (abi::WIN_CREATE_FLAVOR, abi::WIN_FLAVOR_ALLOCATE) => &values.flavors[1],
            (abi::WIN_CREATE_FLAVOR, abi::WIN_FLAVOR_DYNAMIC) => &values.flavors[2],
            (abi::WIN_CREATE_FLAVOR, abi::WIN_FLAVOR_SHARED) => &values.flavors[3],
            (abi::WIN_MODEL, abi::WIN_UNIFIED) => &values.models[0],
            (abi::WIN_MODEL, abi::WIN_SEPARATE) => &values.models[1],
            _ => return,
        };
        *value = core::ptr::from_ref(own).cast_mut().cast();
    }
}
