//! Handles and statuses of MPICH and the libraries that share its ABI (Intel MPI, MVAPICH, Cray). Handles are 32-bit
//! integers.

use contract::abi::Status;
use mpi_sys::MPI_Status;

use super::handle::Handle;
pub use super::linked::{has_datatype, load, returning_from_comm, returning_from_win, ANY_LIBRARY};
use super::value_map;

/// The kind of library that this is for, in its record.
pub const KIND: &str = "mpich";
/// Address of MPI_IN_PLACE.
pub const IN_PLACE: usize = usize::MAX;
/// Address of MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE.
pub const STATUS_IGNORE: usize = 1;

macro_rules! handles {
    ($($name:ident)*) => {
        $(impl Handle for mpi_sys::$name {
            #[inline(always)]
            fn from_lower(lower: usize) -> Self {
                Self(lower as i32)
            }

            #[inline(always)]
            fn lower(self) -> usize {
                self.0 as u32 as usize
            }
        })*
    };
}

handles!(MPI_Comm MPI_Group MPI_Datatype MPI_Op MPI_Errhandler MPI_Info MPI_Request MPI_Message);
handles!(MPI_Win);

impl Handle for mpi_sys::MPI_File {
    #[inline(always)]
    fn from_lower(lower: usize) -> Self {
        lower as Self
    }

    #[inline(always)]
    fn lower(self) -> usize {
        self as usize
    }
}

/// A status without content.
pub const EMPTY_STATUS: MPI_Status = MPI_Status {
    count_lo: 0,
    count_hi_and_cancelled: 0,
    MPI_SOURCE: 0,
    MPI_TAG: 0,
    MPI_ERROR: 0,
};

/// The standard's form of a native status; `error` still is the native code.
#[inline(always)]
pub fn standard_status(native: &MPI_Status) -> Status {
    let low = native.count_lo as u32;
    let high = native.count_hi_and_cancelled as u32;
    Status {
        source: value_map::rank_standard(native.MPI_SOURCE),
        tag: value_map::tag_standard(native.MPI_TAG),
        error: native.MPI_ERROR,
        cancelled: (high & 1) as i32,
        count: u64::from(high >> 1) << 32 | u64::from(low),
        reserved: 0,
    }
}

/// The native form of a status; `error` is copied as it is.
pub fn native_status(status: &Status) -> MPI_Status {
    let cancelled = u32::from(status.cancelled != 0);
    MPI_Status {
        count_lo: status.count as u32 as i32,
        count_hi_and_cancelled: (((status.count >> 32) as u32) << 1 | cancelled) as i32,
        MPI_SOURCE: value_map::rank_native(status.source),
        MPI_TAG: value_map::tag_native(status.tag),
        MPI_ERROR: status.error,
    }
}
