//! Functions that are new in the standard ABI: its version, and handles as integers.
//!
//! # Safety
//! The application calls them with the arguments that the MPI standard prescribes.
#![allow(unsafe_code)]
#![allow(non_snake_case)]

use contract::abi as standard;

use crate::abi;

/// Major and minor version of the ABI (MPI 5.0).
const VERSION: (i32, i32) = (1, 0);

/// Writes the version of the ABI.
///
/// # Safety
/// Both pointers must be valid for writing an integer.
unsafe fn version(major: *mut i32, minor: *mut i32) -> i32 {
    // SAFETY: the caller promises that each pointer is valid for writing an integer.
    unsafe {
        major.write(VERSION.0);
        minor.write(VERSION.1);
    }
    standard::SUCCESS
}

/// `MPI_Abi_get_version`.
#[no_mangle]
unsafe extern "C" fn MPI_Abi_get_version(major: *mut i32, minor: *mut i32) -> i32 {
    // SAFETY: the application passes two pointers to integers.
    unsafe { version(major, minor) }
}

/// `MPI_Abi_get_version` under its profiling name.
#[no_mangle]
unsafe extern "C" fn PMPI_Abi_get_version(major: *mut i32, minor: *mut i32) -> i32 {
    // SAFETY: the application passes two pointers to integers.
    unsafe { version(major, minor) }
}

macro_rules! integers {
    ($($kind:ident: $($to:ident)* = $convert:ident, $($from:ident)* = $back:ident;)*) => {$(
        $(
            #[doc = concat!("`", stringify!($to), "`: the integer for a handle.")]
            #[no_mangle]
            extern "C" fn $to(handle: abi::$kind) -> i32 {
                abi::$convert(handle)
            }
        )*
        $(
            #[doc = concat!("`", stringify!($from), "`: the handle for an integer.")]
            #[no_mangle]
            extern "C" fn $from(integer: i32) -> abi::$kind {
                abi::$back(integer)
            }
        )*
    )*};
}

integers! {
    Comm: MPI_Comm_toint PMPI_Comm_toint = comm_c2f, MPI_Comm_fromint PMPI_Comm_fromint = comm_f2c;
    Group: MPI_Group_toint PMPI_Group_toint = group_c2f,
        MPI_Group_fromint PMPI_Group_fromint = group_f2c;
    Datatype: MPI_Type_toint PMPI_Type_toint = datatype_c2f,
        MPI_Type_fromint PMPI_Type_fromint = datatype_f2c;
    Op: MPI_Op_toint PMPI_Op_toint = op_c2f, MPI_Op_fromint PMPI_Op_fromint = op_f2c;
    Errhandler: MPI_Errhandler_toint PMPI_Errhandler_toint = errhandler_c2f,
        MPI_Errhandler_fromint PMPI_Errhandler_fromint = errhandler_f2c;
    Info: MPI_Info_toint PMPI_Info_toint = info_c2f, MPI_Info_fromint PMPI_Info_fromint = info_f2c;
    Request: MPI_Request_toint PMPI_Request_toint = request_c2f,
        MPI_Request_fromint PMPI_Request_fromint = request_f2c;
    Message: MPI_Message_toint PMPI_Message_toint = message_c2f,
        MPI_Message_fromint PMPI_Message_fromint = message_f2c;
    Win: MPI_Win_toint PMPI_Win_toint = win_c2f, MPI_Win_fromint PMPI_Win_fromint = win_f2c;
    File: MPI_File_toint PMPI_File_toint = file_c2f, MPI_File_fromint PMPI_File_fromint = file_f2c;
    Session: MPI_Session_toint PMPI_Session_toint = session_c2f,
        MPI_Session_fromint PMPI_Session_fromint = session_f2c;
}
