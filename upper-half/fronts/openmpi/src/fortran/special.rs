//! The Fortran functions for which the generator has no rules. Each returns the error code.
//!
//! # Safety
//! The application passes the arguments that the MPI standard prescribes, by reference.
#![allow(unsafe_code)]

use contract::abi::SUCCESS;
use core::ffi::c_void;
use upper_half::CallGuard;

pub use super::attributes::{
    attr_get, attr_put, comm_create_keyval, comm_get_attr, comm_set_attr, keyval_create,
    type_create_keyval, type_get_attr, type_set_attr, win_create_keyval, win_get_attr,
    win_set_attr,
};

use crate::abi;
use crate::functions as c;

/// MPI_Op_create. The operation gets its datatype as a Fortran handle.
pub unsafe fn op_create(function: *mut c_void, commute: *mut i32, op: *mut i32) -> i32 {
    let mut made = 0;
    // SAFETY: `commute` and `op` point to integers of the application, and `made` is a local.
    unsafe {
        let code = c::PMPI_Op_create(function, i32::from(*commute != 0), &raw mut made);
        if code == SUCCESS {
            upper_half::op_is_fortran(abi::op(made));
        }
        *op = abi::op_c2f(made);
        code
    }
}

/// MPI_Grequest_start. The callbacks get the address of the caller's extra state, so that they can change it.
pub unsafe fn grequest_start(
    query_fn: *mut c_void,
    free_fn: *mut c_void,
    cancel_fn: *mut c_void,
    extra_state: *mut c_void,
    request: *mut i32,
) -> i32 {
    let _guard = CallGuard::enter();
    let mut made = 0;
    // SAFETY: `request` points to an integer of the application, and `made` is a local.
    unsafe {
        let code = c::PMPI_Grequest_start(query_fn, free_fn, cancel_fn, extra_state, &raw mut made);
        if code == SUCCESS {
            upper_half::grequest_is_fortran(abi::request(made));
        }
        *request = abi::request_c2f(made);
        code
    }
}

macro_rules! errhandlers {
    ($($name:ident, $in_c:ident;)*) => {$(
        #[doc = concat!("`", stringify!($in_c), "`. The error handler gets its object as a Fortran handle.")]
        pub unsafe fn $name(function: *mut c_void, errhandler: *mut i32) -> i32 {
            let mut made = 0;
            // SAFETY: `errhandler` points to an integer of the application, and `made` is a local.
            unsafe {
                let code = c::$in_c(function, &raw mut made);
                if code == SUCCESS {
                    upper_half::errhandler_is_fortran(abi::errhandler(made));
                }
                *errhandler = abi::errhandler_c2f(made);
                code
            }
        }
    )*};
}

errhandlers! {
    comm_create_errhandler, PMPI_Comm_create_errhandler;
    win_create_errhandler, PMPI_Win_create_errhandler;
    file_create_errhandler, PMPI_File_create_errhandler;
    errhandler_create, PMPI_Errhandler_create;
}

/// MPI_Buffer_detach. The address of the buffer is not returned to Fortran.
pub unsafe fn buffer_detach(_buffer: *mut c_void, size: *mut i32) -> i32 {
    let mut address = core::ptr::null_mut::<c_void>();
    // SAFETY: `size` points to an integer of the application, and `address` is a local.
    unsafe { c::PMPI_Buffer_detach((&raw mut address).cast(), size) }
}

/// MPI_F_sync_reg. The call itself is the effect: the compiler must assume that it changes the buffer.
#[no_mangle]
pub extern "C" fn ompi_f_sync_reg_f(_buffer: *mut c_void) {}

spellings! {
    ompi_f_sync_reg_f: mpi_f_sync_reg, pmpi_f_sync_reg, mpi_f_sync_reg_, pmpi_f_sync_reg_,
    mpi_f_sync_reg__, pmpi_f_sync_reg__, MPI_F_SYNC_REG, PMPI_F_SYNC_REG, MPI_F_sync_reg_f,
    PMPI_F_sync_reg_f, MPI_F_sync_reg_f08, PMPI_F_sync_reg_f08
}
