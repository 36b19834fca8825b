//! Values of predefined attributes in an application's ABI, and attribute values as integers for Fortran.
//!
//! The core gives a predefined attribute as a pointer to the standard ABI's constant. The application needs a pointer
//! to its own ABI's constant.
//!
//! # Safety
//! The pointers come from a successful MPI_Comm_get_attr or MPI_Win_get_attr that found the attribute. For a
//! predefined keyval MPI defines what they point to: an int, or for a window its base or its size.
#![allow(unsafe_code)]

use contract::abi;
use core::ffi::c_void;
use upper_half::Form;

/// An ABI's constants to which attribute values point.
pub struct AttributeValues {
    /// MPI_PROC_NULL.
    pub proc_null: i32,
    /// MPI_ANY_SOURCE.
    pub any_source: i32,
    /// MPI_WIN_FLAVOR_CREATE, _ALLOCATE, _DYNAMIC and _SHARED.
    pub flavors: [i32; 4],
    /// MPI_WIN_UNIFIED and MPI_WIN_SEPARATE.
    pub models: [i32; 2],
}

/// Replaces the value of a predefined attribute by the ABI's. `keyval` is the standard's.
///
/// # Safety
/// `value` must point to the attribute value that the core has just given for `keyval`.
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
    // SAFETY: the caller promises that `value` holds the core's value for `keyval`, and the values of these four
    // keyvals point to an int.
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

/// The integer that Fortran gets for an attribute value. `keyval` is the standard's; `form` says how the value was set.
///
/// # Safety
/// `pointer` must be the value that C gets for that attribute.
pub unsafe fn attribute_as_integer(keyval: i32, form: Form, pointer: *const c_void) -> isize {
    // SAFETY: the caller promises that `pointer` is the attribute's value for C. It points to an integer of the size
    // read here for these predefined keyvals, and for values that Fortran has set as such an integer.
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
