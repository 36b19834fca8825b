//! Types and values of Open MPI's ABI, and their translation to the standard's. The facts are from the `mpi.h` of Open
//! MPI 4.1. The generated functions use the names that are defined here.
//!
//! # Safety
//! A handle that is not null is the address of a data symbol of `symbols`, or of an object of the upper half. Both
//! begin with the object's address. MPI requires that the application passes no other value.
#![allow(unsafe_code)]

use contract::abi as standard;
use contract::HandleKind;
use core::ffi::c_void;
use stasis_front_common as common;
pub use stasis_front_common::shared_values::{
    access_mode_in, access_mode_out, comparison_out, displacement_in, thread_level_in,
    thread_level_out, whence_in,
};
use stasis_front_common::{translate_bits, translate_in, translate_out, AttributeValues, INVALID};
use upper_half::object as upper;

use crate::fortran;

/// MPI_Status.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Status {
    /// MPI_SOURCE
    pub source: i32,
    /// MPI_TAG
    pub tag: i32,
    /// MPI_ERROR
    pub error: i32,
    cancelled: i32,
    count: usize,
}

const _: () = assert!(size_of::<Status>() == 24);
const _: () = assert!(core::mem::offset_of!(Status, count) == 16);

macro_rules! handles {
    ($($kind:ident: $decode:ident, $encode:ident, $to_fortran:ident, $from_fortran:ident;)*) => {$(
        #[doc = concat!("MPI_", stringify!($kind), "'s type in C: a pointer.")]
        pub type $kind = usize;

        /// The object of a handle. A null pointer stands for the null handle.
        #[inline(always)]
        pub fn $decode(handle: $kind) -> &'static upper::$kind {
            if handle == 0 {
                return upper::$kind::null();
            }
            // SAFETY: a handle that is not null is the address of a word that holds the object's address.
            unsafe { *(handle as *const &'static upper::$kind) }
        }

        /// The handle of an object.
        #[inline(always)]
        pub fn $encode(object: &'static upper::$kind) -> $kind {
            object.handle()
        }

        /// The handle for Fortran.
        #[inline(always)]
        pub fn $to_fortran(handle: $kind) -> i32 {
            fortran::handles::integer_of(HandleKind::$kind, $decode(handle).index())
        }

        /// The handle from Fortran.
        #[inline(always)]
        pub fn $from_fortran(integer: i32) -> $kind {
            $encode(fortran::handles::object_of(integer))
        }
    )*};
}

handles! {
    Comm: comm, comm_out, comm_c2f, comm_f2c;
    Group: group, group_out, group_c2f, group_f2c;
    Datatype: datatype, datatype_out, datatype_c2f, datatype_f2c;
    Op: op, op_out, op_c2f, op_f2c;
    Errhandler: errhandler, errhandler_out, errhandler_c2f, errhandler_f2c;
    Info: info, info_out, info_c2f, info_f2c;
    Request: request, request_out, request_c2f, request_f2c;
    Message: message, message_out, message_c2f, message_f2c;
    Win: win, win_out, win_c2f, win_f2c;
    File: file, file_out, file_c2f, file_f2c;
    Session: session, session_out, session_c2f, session_f2c;
}

/// A data buffer. MPI_IN_PLACE and MPI_BOTTOM have the standard's values.
#[inline(always)]
pub fn buffer(buffer: *const c_void) -> *mut c_void {
    const _: () = assert!(standard::IN_PLACE == 1 && standard::BOTTOM == 0);
    buffer.cast_mut()
}

/// The weights of edges, MPI_UNWEIGHTED or MPI_WEIGHTS_EMPTY.
#[inline(always)]
pub fn weights(weights: *const i32) -> *mut i32 {
    match weights as usize {
        UNWEIGHTED => standard::UNWEIGHTED as *mut i32,
        WEIGHTS_EMPTY => standard::WEIGHTS_EMPTY as *mut i32,
        _ => weights.cast_mut(),
    }
}

/// MPI_UNWEIGHTED.
pub const UNWEIGHTED: usize = 2;
/// MPI_WEIGHTS_EMPTY.
pub const WEIGHTS_EMPTY: usize = 3;

/// Whether `status` is MPI_STATUS_IGNORE or MPI_STATUSES_IGNORE.
#[inline(always)]
pub fn ignored(status: *const Status) -> bool {
    status.is_null()
}

/// Reads a status.
#[inline(always)]
pub fn status_in(status: &Status) -> standard::Status {
    standard::Status {
        source: rank_in(status.source),
        tag: tag_in(status.tag),
        error: error_in(status.error),
        cancelled: status.cancelled,
        count: status.count as u64,
        reserved: 0,
    }
}

/// Writes a status.
///
/// # Safety
/// `to` must be valid for writing a status.
#[inline(always)]
pub unsafe fn status_out(status: &standard::Status, to: *mut Status) {
    let status = Status {
        source: rank_out(status.source),
        tag: tag_out(status.tag),
        error: error_out(status.error),
        cancelled: status.cancelled,
        count: status.count as usize,
    };
    // SAFETY: the caller promises that `to` is valid for writing a status.
    unsafe { to.write(status) }
}

common::status_by_address!();

common::special_values! {
    ANY_SOURCE = -1;
    PROC_NULL = -2;
    ROOT = -4;
    ANY_TAG = -1;
    DFLT_DARG = -1;
}

const KEYVAL_INVALID: i32 = -1;

/// Standard keyvals of predefined attributes, by the keyval in this ABI.
const KEYVALS: [i32; 12] = [
    standard::TAG_UB,
    standard::HOST,
    standard::IO,
    standard::WTIME_IS_GLOBAL,
    standard::APPNUM,
    standard::LASTUSEDCODE,
    standard::UNIVERSE_SIZE,
    standard::WIN_BASE,
    standard::WIN_SIZE,
    standard::WIN_DISP_UNIT,
    standard::WIN_CREATE_FLAVOR,
    standard::WIN_MODEL,
];

/// A keyval from the application.
pub fn keyval_in(keyval: i32) -> i32 {
    match usize::try_from(keyval) {
        // The standard's keyvals of predefined attributes are not valid in this ABI.
        Ok(_) if KEYVALS.contains(&keyval) => INVALID,
        Ok(index) => KEYVALS.get(index).copied().unwrap_or(keyval),
        Err(_) if keyval == KEYVAL_INVALID => standard::KEYVAL_INVALID,
        Err(_) => INVALID,
    }
}

/// A keyval for the application.
pub fn keyval_out(keyval: i32) -> i32 {
    if keyval == standard::KEYVAL_INVALID {
        return KEYVAL_INVALID;
    }
    let predefined = KEYVALS.iter().position(|&known| known == keyval);
    predefined.map_or(keyval, |index| index as i32)
}

/// Constants to which predefined attributes point.
pub static ATTRIBUTE_VALUES: AttributeValues = AttributeValues {
    proc_null: PROC_NULL,
    any_source: ANY_SOURCE,
    flavors: [1, 2, 3, 4],
    models: [0, 1],
};

/// Standard error classes, by the class in this ABI.
const ERRORS: [i32; 74] = [
    standard::SUCCESS,
    standard::ERR_BUFFER,
    standard::ERR_COUNT,
    standard::ERR_TYPE,
    standard::ERR_TAG,
    standard::ERR_COMM,
    standard::ERR_RANK,
    standard::ERR_REQUEST,
    standard::ERR_ROOT,
    standard::ERR_GROUP,
    standard::ERR_OP,
    standard::ERR_TOPOLOGY,
    standard::ERR_DIMS,
    standard::ERR_ARG,
    standard::ERR_UNKNOWN,
    standard::ERR_TRUNCATE,
    standard::ERR_OTHER,
    standard::ERR_INTERN,
    standard::ERR_IN_STATUS,
    standard::ERR_PENDING,
    standard::ERR_ACCESS,
    standard::ERR_AMODE,
    standard::ERR_ASSERT,
    standard::ERR_BAD_FILE,
    standard::ERR_BASE,
    standard::ERR_CONVERSION,
    standard::ERR_DISP,
    standard::ERR_DUP_DATAREP,
    standard::ERR_FILE_EXISTS,
    standard::ERR_FILE_IN_USE,
    standard::ERR_FILE,
    standard::ERR_INFO_KEY,
    standard::ERR_INFO_NOKEY,
    standard::ERR_INFO_VALUE,
    standard::ERR_INFO,
    standard::ERR_IO,
    standard::ERR_KEYVAL,
    standard::ERR_LOCKTYPE,
    standard::ERR_NAME,
    standard::ERR_NO_MEM,
    standard::ERR_NOT_SAME,
    standard::ERR_NO_SPACE,
    standard::ERR_NO_SUCH_FILE,
    standard::ERR_PORT,
    standard::ERR_QUOTA,
    standard::ERR_READ_ONLY,
    standard::ERR_RMA_CONFLICT,
    standard::ERR_RMA_SYNC,
    standard::ERR_SERVICE,
    standard::ERR_SIZE,
    standard::ERR_SPAWN,
    standard::ERR_UNSUPPORTED_DATAREP,
    standard::ERR_UNSUPPORTED_OPERATION,
    standard::ERR_WIN,
    common::tool::MEMORY,
    common::tool::NOT_INITIALIZED,
    common::tool::CANNOT_INIT,
    common::tool::INVALID_INDEX,
    common::tool::INVALID_ITEM,
    common::tool::INVALID_HANDLE,
    common::tool::OUT_OF_HANDLES,
    common::tool::OUT_OF_SESSIONS,
    common::tool::INVALID_SESSION,
    common::tool::CVAR_SET_NOT_NOW,
    common::tool::CVAR_SET_NEVER,
    common::tool::PVAR_NO_STARTSTOP,
    common::tool::PVAR_NO_WRITE,
    common::tool::PVAR_NO_ATOMIC,
    standard::ERR_RMA_RANGE,
    standard::ERR_RMA_ATTACH,
    standard::ERR_RMA_FLAVOR,
    standard::ERR_RMA_SHARED,
    common::tool::INVALID,
    common::tool::INVALID_NAME,
];

/// An error code from the application. User-defined codes are the same in both ABIs.
#[inline(always)]
pub fn error_in(code: i32) -> i32 {
    if code == standard::SUCCESS {
        return code;
    }
    match usize::try_from(code) {
        Ok(_) if code > standard::ERR_LASTCODE => code,
        Ok(class) => ERRORS.get(class).copied().unwrap_or(INVALID),
        Err(_) => INVALID,
    }
}

/// An error code for the application.
#[inline(always)]
pub fn error_out(code: i32) -> i32 {
    // MPI_ERR_LASTCODE itself is the initial value of MPI_LASTUSEDCODE.
    if code == standard::SUCCESS || code >= standard::ERR_LASTCODE {
        return code;
    }
    common::class_out(&ERRORS, code)
}

translate_out! {
    /// A kind of topology.
    topology_out { CART => 1, GRAPH => 2, DIST_GRAPH => 3 }
}
translate_in! {
    /// The order of an array.
    order_in { 0 => ORDER_C, 1 => ORDER_FORTRAN }
}
translate_out! {
    /// The order of an array, for the application.
    order_out { ORDER_C => 0, ORDER_FORTRAN => 1 }
}
translate_in! {
    /// A distribution of an array.
    distribution_in { 0 => DISTRIBUTE_BLOCK, 1 => DISTRIBUTE_CYCLIC, 2 => DISTRIBUTE_NONE }
}
translate_out! {
    /// A distribution of an array, for the application.
    distribution_out { DISTRIBUTE_BLOCK => 0, DISTRIBUTE_CYCLIC => 1, DISTRIBUTE_NONE => 2 }
}
translate_out! {
    /// The constructor of a datatype.
    combiner_out {
        COMBINER_NAMED => 0,
        COMBINER_DUP => 1,
        COMBINER_CONTIGUOUS => 2,
        COMBINER_VECTOR => 3,
        COMBINER_HVECTOR => 5,
        COMBINER_INDEXED => 6,
        COMBINER_HINDEXED => 8,
        COMBINER_INDEXED_BLOCK => 9,
        COMBINER_STRUCT => 11,
        COMBINER_SUBARRAY => 12,
        COMBINER_DARRAY => 13,
        COMBINER_F90_REAL => 14,
        COMBINER_F90_COMPLEX => 15,
        COMBINER_F90_INTEGER => 16,
        COMBINER_RESIZED => 17,
        COMBINER_HINDEXED_BLOCK => 18,
    }
}
translate_in! {
    /// A class of datatypes.
    type_class_in { 1 => TYPECLASS_INTEGER, 2 => TYPECLASS_REAL, 3 => TYPECLASS_COMPLEX }
}
translate_in! {
    /// The type of a lock on a window.
    lock_type_in { 1 => LOCK_EXCLUSIVE, 2 => LOCK_SHARED }
}
translate_bits! {
    window_assert_in, window_assert_out {
        MODE_NOCHECK = 1,
        MODE_NOPRECEDE = 2,
        MODE_NOPUT = 4,
        MODE_NOSTORE = 8,
        MODE_NOSUCCEED = 16,
    }
}

/// The type by which MPI_Comm_split_type splits. Open MPI's own types (socket, cache ...) do not exist in other
/// libraries.
#[inline(always)]
pub fn split_type_in(split_type: i32) -> i32 {
    match split_type {
        0 => standard::COMM_TYPE_SHARED,
        standard::UNDEFINED => standard::UNDEFINED,
        _ => INVALID,
    }
}

common::conversion_tests!(lastusedcode: 92);
