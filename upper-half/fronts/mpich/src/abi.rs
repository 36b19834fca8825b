//! Types and values of MPICH's ABI, and their translation to the standard's. The facts are from the `mpi.h` and
//! `mpio.h` of MPICH 4.0. The generated functions use the names that are defined here.
//!
//! # Safety
//! A status is read or written only at an address for which the caller promises that it is valid.
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

use crate::handles;
pub use crate::handles::{
    comm, datatype, errhandler, file, group, info, message, op, request, session, win, File,
};

/// MPI_Status.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Status {
    /// Low 32 bits of the count of bytes.
    count_low: i32,
    /// Bit 0: whether the operation was cancelled. Bits 1 to 31: high bits of the count.
    count_high_and_cancelled: i32,
    /// MPI_SOURCE
    pub source: i32,
    /// MPI_TAG
    pub tag: i32,
    /// MPI_ERROR
    pub error: i32,
}

const _: () = assert!(size_of::<Status>() == 20);

macro_rules! handles {
    ($($kind:ident: $encode:ident, $to_fortran:ident, $from_fortran:ident;)*) => {$(
        #[doc = concat!("MPI_", stringify!($kind), "'s type in C: an int.")]
        pub type $kind = i32;

        /// The handle of an object.
        #[inline(always)]
        pub fn $encode(object: &'static upper::$kind) -> $kind {
            object.handle() as i32
        }

        /// The handle for Fortran, which is the same integer.
        pub fn $to_fortran(handle: $kind) -> i32 {
            handle
        }

        /// The handle from Fortran, which is the same integer.
        pub fn $from_fortran(fortran: i32) -> $kind {
            fortran
        }
    )*};
}

handles! {
    Comm: comm_out, comm_c2f, comm_f2c;
    Group: group_out, group_c2f, group_f2c;
    Datatype: datatype_out, datatype_c2f, datatype_f2c;
    Op: op_out, op_c2f, op_f2c;
    Errhandler: errhandler_out, errhandler_c2f, errhandler_f2c;
    Info: info_out, info_c2f, info_f2c;
    Request: request_out, request_c2f, request_f2c;
    Message: message_out, message_c2f, message_f2c;
    Win: win_out, win_c2f, win_f2c;
    Session: session_out, session_c2f, session_f2c;
}

/// The handle of a file.
#[inline(always)]
pub fn file_out(object: &'static upper::File) -> File {
    object.handle()
}

/// The file handle for Fortran.
pub fn file_c2f(handle: File) -> i32 {
    fortran_of(HandleKind::File, file(handle).index())
}

/// The file handle from Fortran.
pub fn file_f2c(fortran: i32) -> File {
    file_out(common::f2c(fortran))
}

/// The integer of an object in Fortran. It is the C handle, but for a file it is the object's index, and 0 for
/// MPI_FILE_NULL.
pub fn fortran_of(kind: HandleKind, index: u32) -> i32 {
    match kind {
        HandleKind::File if index == upper::File::null().index() => 0,
        HandleKind::File => index as i32,
        kind => handles::handle_of(kind, index, core::ptr::null()) as i32,
    }
}

/// A data buffer. MPI_IN_PLACE is -1 in this ABI; MPI_BOTTOM has the standard's value.
#[inline(always)]
pub fn buffer(buffer: *const c_void) -> *mut c_void {
    const _: () = assert!(standard::BOTTOM == 0);
    if buffer as isize == -1 {
        return standard::IN_PLACE as *mut c_void;
    }
    buffer.cast_mut()
}

/// The weights of edges, MPI_UNWEIGHTED or MPI_WEIGHTS_EMPTY.
#[inline(always)]
pub fn weights(weights: *const i32) -> *mut i32 {
    if weights == crate::symbols::unweighted() {
        standard::UNWEIGHTED as *mut i32
    } else if weights == crate::symbols::weights_empty() {
        standard::WEIGHTS_EMPTY as *mut i32
    } else {
        weights.cast_mut()
    }
}

/// Whether `status` is MPI_STATUS_IGNORE or MPI_STATUSES_IGNORE, which are 1 here, or a null pointer.
#[inline(always)]
pub fn ignored(status: *const Status) -> bool {
    status as usize <= 1
}

/// Reads a status.
#[inline(always)]
pub fn status_in(status: &Status) -> standard::Status {
    let high = status.count_high_and_cancelled as u32;
    standard::Status {
        source: rank_in(status.source),
        tag: tag_in(status.tag),
        error: error_in(status.error),
        cancelled: (high & 1) as i32,
        count: u64::from(high >> 1) << 32 | u64::from(status.count_low as u32),
        reserved: 0,
    }
}

/// Writes a status.
///
/// # Safety
/// `to` must be valid for writing a status.
#[inline(always)]
pub unsafe fn status_out(status: &standard::Status, to: *mut Status) {
    let high = ((status.count >> 32) as u32) << 1 | u32::from(status.cancelled != 0);
    let status = Status {
        count_low: status.count as i32,
        count_high_and_cancelled: high as i32,
        source: rank_out(status.source),
        tag: tag_out(status.tag),
        error: error_out(status.error),
    };
    // SAFETY: the caller promises that `to` is valid for writing a status.
    unsafe { to.write(status) }
}

common::status_by_address!();

common::special_values! {
    ANY_SOURCE = -2;
    PROC_NULL = -1;
    ROOT = -3;
    ANY_TAG = -1;
    DFLT_DARG = -49767;
}

const KEYVAL_INVALID: i32 = 0x2400_0000;

/// Keyvals of predefined attributes in this ABI, each with the standard's.
const KEYVALS: [(i32, i32); 13] = [
    (KEYVAL_INVALID, standard::KEYVAL_INVALID),
    (0x6440_0001, standard::TAG_UB),
    (0x6440_0003, standard::HOST),
    (0x6440_0005, standard::IO),
    (0x6440_0007, standard::WTIME_IS_GLOBAL),
    (0x6440_0009, standard::UNIVERSE_SIZE),
    (0x6440_000b, standard::LASTUSEDCODE),
    (0x6440_000d, standard::APPNUM),
    (0x6600_0001, standard::WIN_BASE),
    (0x6600_0003, standard::WIN_SIZE),
    (0x6600_0005, standard::WIN_DISP_UNIT),
    (0x6600_0007, standard::WIN_CREATE_FLAVOR),
    (0x6600_0009, standard::WIN_MODEL),
];

/// A keyval from the application.
pub fn keyval_in(keyval: i32) -> i32 {
    match KEYVALS.iter().find(|&&(here, _)| here == keyval) {
        Some(&(_, standard)) => standard,
        // The standard's keyvals of predefined attributes are not valid in this ABI.
        None if KEYVALS.iter().any(|&(_, standard)| standard == keyval) => INVALID,
        None => keyval,
    }
}

/// A keyval for the application.
pub fn keyval_out(keyval: i32) -> i32 {
    let predefined = KEYVALS.iter().find(|&&(_, standard)| standard == keyval);
    predefined.map_or(keyval, |&(here, _)| here)
}

/// Constants to which predefined attributes point.
pub static ATTRIBUTE_VALUES: AttributeValues = AttributeValues {
    proc_null: PROC_NULL,
    any_source: ANY_SOURCE,
    flavors: [1, 2, 3, 4],
    models: [2, 1],
};

/// Standard error classes, by the class in this ABI.
const ERRORS: [i32; 79] = [
    standard::SUCCESS,
    standard::ERR_BUFFER,
    standard::ERR_COUNT,
    standard::ERR_TYPE,
    standard::ERR_TAG,
    standard::ERR_COMM,
    standard::ERR_RANK,
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
    standard::ERR_REQUEST,
    standard::ERR_ACCESS,
    standard::ERR_AMODE,
    standard::ERR_BAD_FILE,
    standard::ERR_CONVERSION,
    standard::ERR_DUP_DATAREP,
    standard::ERR_FILE_EXISTS,
    standard::ERR_FILE_IN_USE,
    standard::ERR_FILE,
    standard::ERR_INFO,
    standard::ERR_INFO_KEY,
    standard::ERR_INFO_VALUE,
    standard::ERR_INFO_NOKEY,
    standard::ERR_IO,
    standard::ERR_NAME,
    standard::ERR_NO_MEM,
    standard::ERR_NOT_SAME,
    standard::ERR_NO_SPACE,
    standard::ERR_NO_SUCH_FILE,
    standard::ERR_PORT,
    standard::ERR_QUOTA,
    standard::ERR_READ_ONLY,
    standard::ERR_SERVICE,
    standard::ERR_SPAWN,
    standard::ERR_UNSUPPORTED_DATAREP,
    standard::ERR_UNSUPPORTED_OPERATION,
    standard::ERR_WIN,
    standard::ERR_BASE,
    standard::ERR_LOCKTYPE,
    standard::ERR_KEYVAL,
    standard::ERR_RMA_CONFLICT,
    standard::ERR_RMA_SYNC,
    standard::ERR_SIZE,
    standard::ERR_DISP,
    standard::ERR_ASSERT,
    INVALID, // not used by MPICH
    standard::ERR_RMA_RANGE,
    standard::ERR_RMA_ATTACH,
    standard::ERR_RMA_SHARED,
    standard::ERR_RMA_FLAVOR,
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
    common::tool::INVALID_NAME,
    common::tool::INVALID,
    standard::ERR_SESSION,
    standard::ERR_PROC_ABORTED,
    standard::ERR_VALUE_TOO_LARGE,
    common::tool::NOT_SUPPORTED,
];

/// Difference between a user-defined code here and in the standard ABI. Such codes are above MPI_ERR_LASTCODE, which is
/// 0x3fff_ffff here.
const USER_DEFINED: i32 = 0x4000_0000;

/// An error code from the application.
#[inline(always)]
pub fn error_in(code: i32) -> i32 {
    if code == standard::SUCCESS {
        return code;
    }
    match usize::try_from(code) {
        Ok(_) if code >= USER_DEFINED => code - USER_DEFINED,
        Ok(class) => ERRORS.get(class).copied().unwrap_or(INVALID),
        Err(_) => INVALID,
    }
}

/// An error code for the application.
#[inline(always)]
pub fn error_out(code: i32) -> i32 {
    if code == standard::SUCCESS {
        return code;
    }
    nonzero_out(code)
}

#[cold]
fn nonzero_out(code: i32) -> i32 {
    // MPI_ERR_LASTCODE itself is the initial value of MPI_LASTUSEDCODE.
    if code >= standard::ERR_LASTCODE {
        return code.saturating_add(USER_DEFINED);
    }
    common::class_out(&ERRORS, code)
}

translate_out! {
    /// A kind of topology.
    topology_out { GRAPH => 1, CART => 2, DIST_GRAPH => 3 }
}
translate_in! {
    /// The order of an array.
    order_in { 56 => ORDER_C, 57 => ORDER_FORTRAN }
}
translate_out! {
    /// The order of an array, for the application.
    order_out { ORDER_C => 56, ORDER_FORTRAN => 57 }
}
translate_in! {
    /// A distribution of an array.
    distribution_in { 121 => DISTRIBUTE_BLOCK, 122 => DISTRIBUTE_CYCLIC, 123 => DISTRIBUTE_NONE }
}
translate_out! {
    /// A distribution of an array, for the application.
    distribution_out { DISTRIBUTE_BLOCK => 121, DISTRIBUTE_CYCLIC => 122, DISTRIBUTE_NONE => 123 }
}
translate_out! {
    /// The constructor of a datatype.
    combiner_out {
        COMBINER_NAMED => 1,
        COMBINER_DUP => 2,
        COMBINER_CONTIGUOUS => 3,
        COMBINER_VECTOR => 4,
        COMBINER_HVECTOR => 6,
        COMBINER_INDEXED => 7,
        COMBINER_HINDEXED => 9,
        COMBINER_INDEXED_BLOCK => 10,
        COMBINER_STRUCT => 12,
        COMBINER_SUBARRAY => 13,
        COMBINER_DARRAY => 14,
        COMBINER_F90_REAL => 15,
        COMBINER_F90_COMPLEX => 16,
        COMBINER_F90_INTEGER => 17,
        COMBINER_RESIZED => 18,
        COMBINER_HINDEXED_BLOCK => 19,
    }
}
translate_in! {
    /// A class of datatypes.
    type_class_in { 1 => TYPECLASS_REAL, 2 => TYPECLASS_INTEGER, 3 => TYPECLASS_COMPLEX }
}
translate_in! {
    /// The type of a lock on a window.
    lock_type_in { 234 => LOCK_EXCLUSIVE, 235 => LOCK_SHARED }
}
translate_bits! {
    window_assert_in, window_assert_out {
        MODE_NOCHECK = 1024,
        MODE_NOSTORE = 2048,
        MODE_NOPUT = 4096,
        MODE_NOPRECEDE = 8192,
        MODE_NOSUCCEED = 16384,
    }
}

/// The type by which MPI_Comm_split_type splits. MPICH's own types are not supported: after a restart another library
/// would split in another way.
#[inline(always)]
pub fn split_type_in(split_type: i32) -> i32 {
    match split_type {
        1 => standard::COMM_TYPE_SHARED,
        2 => standard::COMM_TYPE_HW_GUIDED,
        3 => standard::COMM_TYPE_HW_UNGUIDED,
        standard::UNDEFINED => standard::UNDEFINED,
        _ => INVALID,
    }
}

common::conversion_tests!(lastusedcode: 0x3fff_ffff);
