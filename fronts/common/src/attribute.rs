//! Attribute values as the application's language and ABI know them. Predefined attributes whose
//! value is a constant of the ABI: what the core gives points to the standard's value, and the
//! application must get a pointer to its own. In Fortran, values are integers.
//!
//! # Safety
//! The pointers are those of a successful MPI_Comm_get_attr or MPI_Win_get_attr with a true flag:
//! for predefined keyvals, a pointer to an int, or what MPI says of a window's base and size.
#![allow(unsafe_code)]

use contract::abi;
use core::ffi::c_void;
use upper_half::Form;

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

/// The integer by which Fortran knows an attribute value (`keyval` is the standard's, `form` how the
/// value was set).
///
/// # Safety
/// `pointer` is what C gets for that attribute.
pub unsafe fn attribute_as_integer(keyval: i32, form: Form, pointer: *const c_void) -> isize {
    // SAFETY: the caller's promise, and see the module's head.
    unsafe {
        match (keyval, form) {
            (abi::WIN_SIZE, _) | (_, Form::Address) => *pointer.cast::<isize>(),
            (abi::TAG_UB..=abi::UNIVERSE_SIZE, _)
            | (abi::WIN_DISP_UNIT | abi::WIN_CREATE_FLAVOR | abi::WIN_MODEL, _)
            | (_, Form::Integer) => *pointer.cast::<i32>() as isize,
            _ => pointer as isize,
        }
    }
}
