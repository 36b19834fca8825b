//! An MPI library of the MPI 5.0 standard ABI, loaded at run time: what `mpi-sys` is for a library that is there at
//! build time, with the same names.
//!
//! The standard fixes all values of this ABI (MPI 5.0, chapter "Application Binary Interface"), and Stasis uses the
//! same values inside (`contract::abi`). So nothing of the library is needed to build this. [`load`] opens a library
//! and finds its functions by name. A function that the library lacks returns MPI_ERR_UNSUPPORTED_OPERATION, and so
//! does every function before that.
//!
//! # Examples
//! ```
//! use stasis_mpi_abi::{load, LoadError, MPI_Comm_rank, RSMPI_COMM_WORLD};
//! use std::path::Path;
//!
//! // A library, but none of MPI.
//! let error = load(Path::new("libc.so.6")).unwrap_err();
//! assert!(matches!(error, LoadError::NoMpi { function, .. } if function == "MPI_Init_thread"));
//!
//! let mut rank = 0;
//! // SAFETY: no library is loaded, so the call returns an error and touches nothing.
//! let code = unsafe { MPI_Comm_rank(RSMPI_COMM_WORLD, &raw mut rank) };
//! assert_ne!(code, 0);
//! ```
//!
//! # Safety
//! The functions have the types of the standard, which the table of MPI functions lists. Their addresses come from
//! `dlsym` of a library with this ABI, or are that of a function without parameters, which may be called with any in
//! this calling convention.
#![allow(unsafe_code)]
#![allow(non_snake_case, non_camel_case_types)] // the names are C's

mod load;

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicPtr, Ordering};

use contract::abi;

pub use load::{load, LoadError};

/// Handles: the values of the standard for predefined objects, and what the library chooses for others.
macro_rules! handles {
    ($($name:ident)*) => {
        $(#[doc = concat!("A handle, ", stringify!($name), ".")]
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(pub usize);)*
    };
}

handles!(MPI_Comm MPI_Group MPI_Datatype MPI_Op MPI_Errhandler MPI_Info MPI_Request MPI_Message);
handles!(MPI_Win MPI_File MPI_Session);

/// A status. Only the functions of the library read and write what is in `internal`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)] // the standard's fields
pub struct MPI_Status {
    pub MPI_SOURCE: c_int,
    pub MPI_TAG: c_int,
    pub MPI_ERROR: c_int,
    pub internal: [c_int; 5],
}

const _: () = assert!(size_of::<MPI_Status>() == size_of::<abi::Status>());

/// MPI_User_function.
pub type MPI_User_function =
    Option<unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut MPI_Datatype)>;

macro_rules! constants {
    ($($name:ident: $type:ty = $value:expr;)*) => {
        $(#[allow(missing_docs)] // the standard's name, or that of `mpi-sys`
        pub const $name: $type = $value;)*
    };
}

constants! {
    MPI_SUCCESS: u32 = 0;
    MPI_ERR_OTHER: u32 = abi::ERR_OTHER as u32;
    MPI_UNDEFINED: c_int = abi::UNDEFINED;
    MPI_ANY_SOURCE: c_int = abi::ANY_SOURCE;
    MPI_ANY_TAG: c_int = abi::ANY_TAG;
    MPI_PROC_NULL: c_int = abi::PROC_NULL;
    MPI_ROOT: c_int = abi::ROOT;
    MPI_MAX_LIBRARY_VERSION_STRING: u32 = abi::MAX_LIBRARY_VERSION_STRING as u32;
    RSMPI_COMM_NULL: MPI_Comm = MPI_Comm(abi::comm::COMM_NULL);
    RSMPI_COMM_WORLD: MPI_Comm = MPI_Comm(abi::comm::COMM_WORLD);
    RSMPI_COMM_SELF: MPI_Comm = MPI_Comm(abi::comm::COMM_SELF);
    RSMPI_ERRORS_RETURN: MPI_Errhandler = MPI_Errhandler(abi::errhandler::ERRORS_RETURN);
    RSMPI_BYTE: MPI_Datatype = MPI_Datatype(abi::datatype::BYTE);
    RSMPI_INT8_T: MPI_Datatype = MPI_Datatype(abi::datatype::INT8_T);
    RSMPI_UINT8_T: MPI_Datatype = MPI_Datatype(abi::datatype::UINT8_T);
    RSMPI_INT32_T: MPI_Datatype = MPI_Datatype(abi::datatype::INT32_T);
    RSMPI_UINT32_T: MPI_Datatype = MPI_Datatype(abi::datatype::UINT32_T);
    RSMPI_INT64_T: MPI_Datatype = MPI_Datatype(abi::datatype::INT64_T);
    RSMPI_MIN: MPI_Op = MPI_Op(abi::op::MIN);
    RSMPI_MAX: MPI_Op = MPI_Op(abi::op::MAX);
    RSMPI_BOR: MPI_Op = MPI_Op(abi::op::BOR);
}

/// The stand-in for a function that the library lacks.
extern "C" fn missing() -> c_int {
    abi::ERR_UNSUPPORTED_OPERATION
}

include!(concat!(env!("OUT_DIR"), "/functions.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_library_functions_are_unsupported() {
        let mut size = 7;
        // SAFETY: a local.
        let code = unsafe { MPI_Comm_size(RSMPI_COMM_WORLD, &raw mut size) };
        assert_eq!((code, size), (abi::ERR_UNSUPPORTED_OPERATION, 7));
    }
}
