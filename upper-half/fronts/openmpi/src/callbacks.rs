//! The predefined attribute functions in C, which applications pass to MPI_Comm_create_keyval.
//!
//! # Safety
//! The core calls them as any attribute function: the output pointers lead to an attribute value and to a flag.
#![allow(unsafe_code)]
#![allow(non_snake_case)]

use core::ffi::{c_int, c_void};

macro_rules! attribute_functions {
    ($($dup:ident, $null_copy:ident, $null_delete:ident;)*) => {$(
        /// Copies the attribute's value unchanged.
        #[no_mangle]
        unsafe extern "C" fn $dup(
            _object: usize,
            _keyval: c_int,
            _extra: *mut c_void,
            value: *mut c_void,
            copy: *mut *mut c_void,
            flag: *mut c_int,
        ) -> c_int {
            // SAFETY: the core passes pointers to an attribute value and to a flag.
            unsafe {
                copy.write(value);
                flag.write(1);
            }
            0
        }

        /// Does not copy the attribute.
        #[no_mangle]
        unsafe extern "C" fn $null_copy(
            _object: usize,
            _keyval: c_int,
            _extra: *mut c_void,
            _value: *mut c_void,
            _copy: *mut *mut c_void,
            flag: *mut c_int,
        ) -> c_int {
            // SAFETY: the core passes a pointer to a flag.
            unsafe { flag.write(0) };
            0
        }

        /// Does nothing when an attribute is deleted.
        #[no_mangle]
        unsafe extern "C" fn $null_delete(
            _object: usize,
            _keyval: c_int,
            _value: *mut c_void,
            _extra: *mut c_void,
        ) -> c_int {
            0
        }
    )*};
}

attribute_functions! {
    OMPI_C_MPI_COMM_DUP_FN, OMPI_C_MPI_COMM_NULL_COPY_FN, OMPI_C_MPI_COMM_NULL_DELETE_FN;
    OMPI_C_MPI_TYPE_DUP_FN, OMPI_C_MPI_TYPE_NULL_COPY_FN, OMPI_C_MPI_TYPE_NULL_DELETE_FN;
    OMPI_C_MPI_WIN_DUP_FN, OMPI_C_MPI_WIN_NULL_COPY_FN, OMPI_C_MPI_WIN_NULL_DELETE_FN;
    OMPI_C_MPI_DUP_FN, OMPI_C_MPI_NULL_COPY_FN, OMPI_C_MPI_NULL_DELETE_FN;
}
