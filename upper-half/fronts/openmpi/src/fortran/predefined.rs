//! The predefined attribute functions in Fortran's convention, which applications pass to `MPI_COMM_CREATE_KEYVAL`, and
//! the null conversion function of data representations.
//!
//! # Safety
//! They are called as any attribute function in Fortran: each argument is a pointer to an integer of the given type.
#![allow(unsafe_code)]
#![allow(non_snake_case)]

use core::ffi::c_void;

macro_rules! attribute_functions {
    ($integer:ty: $(
        $dup:ident $dup_spellings:tt,
        $null_copy:ident $null_copy_spellings:tt,
        $null_delete:ident $null_delete_spellings:tt;
    )*) => {$(
        /// Copies the attribute's value unchanged.
        #[no_mangle]
        unsafe extern "C" fn $dup(
            _object: *mut i32,
            _keyval: *mut i32,
            _extra: *mut $integer,
            value: *mut $integer,
            copy: *mut $integer,
            flag: *mut i32,
            ierror: *mut i32,
        ) {
            // SAFETY: each argument points to an integer of its type.
            unsafe {
                *copy = *value;
                *flag = 1;
                *ierror = 0;
            }
        }

        /// Does not copy the attribute.
        #[no_mangle]
        unsafe extern "C" fn $null_copy(
            _object: *mut i32,
            _keyval: *mut i32,
            _extra: *mut $integer,
            _value: *mut $integer,
            _copy: *mut $integer,
            flag: *mut i32,
            ierror: *mut i32,
        ) {
            // SAFETY: `flag` and `ierror` each point to an integer.
            unsafe {
                *flag = 0;
                *ierror = 0;
            }
        }

        /// Does nothing when an attribute is deleted.
        #[no_mangle]
        unsafe extern "C" fn $null_delete(
            _object: *mut i32,
            _keyval: *mut i32,
            _value: *mut $integer,
            _extra: *mut $integer,
            ierror: *mut i32,
        ) {
            // SAFETY: `ierror` points to an integer.
            unsafe { *ierror = 0 };
        }

        spelled! { $dup $dup_spellings }
        spelled! { $null_copy $null_copy_spellings }
        spelled! { $null_delete $null_delete_spellings }
    )*};
}

/// Defines the spellings in brackets.
macro_rules! spelled {
    ($function:ident [$($spelling:ident)*]) => {
        spellings! { $function: $($spelling),* }
    };
}

attribute_functions! { isize:
    mpi_comm_dup_fn_ [mpi_comm_dup_fn mpi_comm_dup_fn__ MPI_COMM_DUP_FN],
    mpi_comm_null_copy_fn_ [mpi_comm_null_copy_fn mpi_comm_null_copy_fn__ MPI_COMM_NULL_COPY_FN],
    mpi_comm_null_delete_fn_
        [mpi_comm_null_delete_fn mpi_comm_null_delete_fn__ MPI_COMM_NULL_DELETE_FN];
    mpi_type_dup_fn_ [mpi_type_dup_fn mpi_type_dup_fn__ MPI_TYPE_DUP_FN],
    mpi_type_null_copy_fn_ [mpi_type_null_copy_fn mpi_type_null_copy_fn__ MPI_TYPE_NULL_COPY_FN],
    mpi_type_null_delete_fn_
        [mpi_type_null_delete_fn mpi_type_null_delete_fn__ MPI_TYPE_NULL_DELETE_FN];
    mpi_win_dup_fn_ [mpi_win_dup_fn mpi_win_dup_fn__ MPI_WIN_DUP_FN],
    mpi_win_null_copy_fn_ [mpi_win_null_copy_fn mpi_win_null_copy_fn__ MPI_WIN_NULL_COPY_FN],
    mpi_win_null_delete_fn_
        [mpi_win_null_delete_fn mpi_win_null_delete_fn__ MPI_WIN_NULL_DELETE_FN];
}

attribute_functions! { i32:
    mpi_dup_fn_ [mpi_dup_fn mpi_dup_fn__ MPI_DUP_FN],
    mpi_null_copy_fn_ [mpi_null_copy_fn mpi_null_copy_fn__ MPI_NULL_COPY_FN],
    mpi_null_delete_fn_ [mpi_null_delete_fn mpi_null_delete_fn__ MPI_NULL_DELETE_FN];
}

/// MPI_CONVERSION_FN_NULL, which stands for no conversion. It is never called.
#[no_mangle]
unsafe extern "C" fn mpi_conversion_fn_null_(_buffer: *mut c_void) -> i32 {
    0
}

spellings! {
    mpi_conversion_fn_null_: mpi_conversion_fn_null, mpi_conversion_fn_null__,
    mpi_conversion_fn_null_f, MPI_CONVERSION_FN_NULL
}
