//! The predefined functions for attributes in Fortran's convention, which applications hand to
//! `MPI_COMM_CREATE_KEYVAL`, and the null conversion function of data representations.
//!
//! # Safety
//! They are called as any attribute function of Fortran's: with pointers to integers.
#![allow(unsafe_code)]
#![allow(non_snake_case)]

use core::ffi::c_void;

macro_rules! attribute_functions {
    ($integer:ty: $(
        $dup:ident $dup_spellings:tt,
        $null_copy:ident $null_copy_spellings:tt,
        $null_delete:ident $null_delete_spellings:tt;
    )*) => {$(
        /// Copies the attribute's value as it is.
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
            // SAFETY: see the module's head.
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
            // SAFETY: see the module's head.
            unsafe {
                *flag = 0;
                *ierror = 0;
            }
        }

        /// Does nothing when an attribute goes.
        #[no_mangle]
        unsafe extern "C" fn $null_delete(
            _object: *mut i32,
            _keyval: *mut i32,
            _value: *mut $integer,
            _extra: *mut $integer,
            ierror: *mut i32,
        ) {
            // SAFETY: see the module's head.
            unsafe { *ierror = 0 };
        }

        spelled! { $dup $dup_spellings }
        spelled! { $null_copy $null_copy_spellings }
        spelled! { $null_delete $null_delete_spellings }
    )*};
}

/// The spellings given in brackets.
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

/// Stands for no conversion; it is never called.
#[no_mangle]
unsafe extern "C" fn mpi_conversion_fn_null_(_buffer: *mut c_void) -> i32 {
    0
}

spellings! {
    mpi_conversion_fn_null_: mpi_conversion_fn_null, mpi_conversion_fn_null__,
    mpi_conversion_fn_null_f, MPI_CONVERSION_FN_NULL
}
