//! Handles and statuses of the MPI 5.0 standard ABI. Handles are words: the standard's values, which Stasis uses
//! itself, or addresses. What is in a status is the library's own affair, so its functions are asked.
//!
//! # Safety
//! The functions read and write the status that they get.
#![allow(unsafe_code)]

use core::ffi::c_void;
use std::path::Path;
use std::sync::OnceLock;

use contract::abi::Status;
use mpi_sys::{MPI_Datatype, MPI_Errhandler, MPI_Status};

use super::handle::Handle;
use super::value_map::{self, NATIVE_SUCCESS};
use crate::mpi::world;

/// The kind of library that this is for, in its record.
pub const KIND: &str = "standard";
/// The libraries that can be used.
pub const ANY_LIBRARY: Option<&str> = Some("any MPI library with the MPI 5.0 standard ABI");
/// Address of MPI_IN_PLACE.
pub const IN_PLACE: usize = contract::abi::IN_PLACE;
/// Address of MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE.
pub const STATUS_IGNORE: usize = 0;

/// Loads the library that `stasis` has chosen; without a choice, the one that the dynamic linker finds.
pub fn load(library: Option<&Path>) -> anyhow::Result<()> {
    Ok(mpi_sys::load(
        library.unwrap_or(Path::new("libmpi_abi.so.1")),
    )?)
}

/// An error handler that does nothing, so that the function returns its error: for Intel MPI 2021.19, which takes
/// MPI_ERRORS_RETURN in this ABI, but ends the job at an error. (With such a handler MPICH 5.0 returns MPI_SUCCESS.)
extern "C" fn return_error() {}

const RETURN_ERROR: *const c_void = return_error as *const c_void;

/// The error handler with which the functions of a communicator return their errors.
pub fn returning_from_comm() -> MPI_Errhandler {
    static HANDLER: OnceLock<MPI_Errhandler> = OnceLock::new();
    *HANDLER.get_or_init(|| {
        made(|handler| {
            // SAFETY: a function that looks at none of its arguments, and a local.
            unsafe { mpi_sys::MPI_Comm_create_errhandler(RETURN_ERROR, handler) }
        })
    })
}

/// The same for a window.
pub fn returning_from_win() -> MPI_Errhandler {
    static HANDLER: OnceLock<MPI_Errhandler> = OnceLock::new();
    *HANDLER.get_or_init(|| {
        made(|handler| {
            // SAFETY: as for communicators.
            unsafe { mpi_sys::MPI_Win_create_errhandler(RETURN_ERROR, handler) }
        })
    })
}

/// The handler that a function makes, for Intel MPI; the standard's for others.
fn made(make: impl FnOnce(*mut MPI_Errhandler) -> i32) -> MPI_Errhandler {
    let mut handler = mpi_sys::RSMPI_ERRORS_RETURN;
    if world::library().starts_with("Intel") && make(&raw mut handler) == NATIVE_SUCCESS {
        return handler;
    }
    mpi_sys::RSMPI_ERRORS_RETURN
}

/// Whether the library has a datatype. The standard has a handle for each, even for those of a language that the
/// library does not know. It can be asked only once MPI is initialised.
pub fn has_datatype(lower: usize) -> bool {
    let mut size = 0;
    // SAFETY: a local; the library checks the datatype.
    world::rank().is_none()
        || unsafe { mpi_sys::MPI_Type_size_c(MPI_Datatype(lower), &raw mut size) } == NATIVE_SUCCESS
}

macro_rules! handles {
    ($($name:ident)*) => {
        $(impl Handle for mpi_sys::$name {
            #[inline(always)]
            fn from_lower(lower: usize) -> Self {
                Self(lower)
            }

            #[inline(always)]
            fn lower(self) -> usize {
                self.0
            }
        })*
    };
}

handles!(MPI_Comm MPI_Group MPI_Datatype MPI_Op MPI_Errhandler MPI_Info MPI_Request MPI_Message);
handles!(MPI_Win MPI_File);

/// A status without content.
pub const EMPTY_STATUS: MPI_Status = MPI_Status {
    MPI_SOURCE: 0,
    MPI_TAG: 0,
    MPI_ERROR: 0,
    internal: [0; 5],
};

/// The standard's form of a native status; `error` still is the native code.
pub fn standard_status(native: &MPI_Status) -> Status {
    let (mut count, mut cancelled) = (0_i64, 0);
    // SAFETY: locals, and a status of the library.
    unsafe {
        mpi_sys::MPI_Get_elements_c(native, mpi_sys::RSMPI_BYTE, &raw mut count);
        mpi_sys::MPI_Test_cancelled(native, &raw mut cancelled);
    }
    Status {
        source: value_map::rank_standard(native.MPI_SOURCE),
        tag: value_map::tag_standard(native.MPI_TAG),
        error: native.MPI_ERROR,
        cancelled,
        count: count.cast_unsigned(),
        reserved: 0,
    }
}

/// The native form of a status; `error` is copied as it is.
pub fn native_status(status: &Status) -> MPI_Status {
    let mut native = MPI_Status {
        MPI_SOURCE: value_map::rank_native(status.source),
        MPI_TAG: value_map::tag_native(status.tag),
        MPI_ERROR: status.error,
        ..EMPTY_STATUS
    };
    let count = status.count.cast_signed();
    // SAFETY: a local.
    unsafe {
        mpi_sys::MPI_Status_set_elements_c(&raw mut native, mpi_sys::RSMPI_BYTE, count);
        mpi_sys::MPI_Status_set_cancelled(&raw mut native, status.cancelled);
    }
    native
}
