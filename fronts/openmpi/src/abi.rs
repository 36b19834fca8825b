//! Types and values of Open MPI's ABI, and their translation to the standard's (facts from the
//! `mpi.h` of Open MPI 4.1). The names are those that the generated functions use.
//!
//! # Safety
//! A handle that is not null is the address of a data symbol of `symbols` or of an object of the
//! upper half; both begin with the object's address. That the application passes no other is MPI's
//! rule.
#![allow(unsafe_code)]

use contract::abi as standard;
use contract::HandleKind;
use core::ffi::c_void;
use stasis_front_common as common;
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

        /// The object of a handle; a null pointer counts as the null handle.
        #[inline(always)]
        pub fn $decode(handle: $kind) -> &'static upper::$kind {
            if handle == 0 {
                return upper::$kind::null();
            }
            // SAFETY: see the module's head.
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

/// A data buffer: MPI_IN_PLACE and MPI_BOTTOM are what the standard says.
#[inline(always)]
pub fn buffer(buffer: *const c_void) -> *mut c_void {
    const _: () = assert!(standard::IN_PLACE == 1 && standard::BOTTOM == 0);
    buffer.cast_mut()
}

/// Weights of edges, or MPI_UNWEIGHTED or MPI_WEIGHTS_EMPTY.
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

/// Whether it is MPI_STATUS_IGNORE or MPI_STATUSES_IGNORE.
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
/// `to` must be valid for writing.
#[inline(always)]
pub unsafe fn status_out(status: &standard::Status, to: *mut Status) {
    let status = Status {
        source: rank_out(status.source),
        tag: tag_out(status.tag),
        error: error_out(status.error),
        cancelled: status.cancelled,
        count: status.count as usize,
    };
    // SAFETY: the caller's promise.
    unsafe { to.write(status) }
}

/// [`status_out`] for the core.
///
/// # Safety
/// `to` must be valid for writing a status.
pub unsafe fn write_status(status: &standard::Status, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { status_out(status, to.cast()) }
}

/// [`status_in`] for the core.
///
/// # Safety
/// `from` must be valid for reading a status.
pub unsafe fn read_status(from: *const u8) -> standard::Status {
    // SAFETY: the caller's promise.
    status_in(unsafe { &*from.cast::<Status>() })
}

const ANY_SOURCE: i32 = -1;
const PROC_NULL: i32 = -2;
const ROOT: i32 = -4;
const ANY_TAG: i32 = -1;
const KEYVAL_INVALID: i32 = -1;
const UNDEFINED: i32 = -32766;

const _: () = assert!(UNDEFINED == standard::UNDEFINED);

/// A rank from the application.
#[inline(always)]
pub fn rank_in(rank: i32) -> i32 {
    if rank >= 0 {
        return rank;
    }
    match rank {
        ANY_SOURCE => standard::ANY_SOURCE,
        PROC_NULL => standard::PROC_NULL,
        ROOT => standard::ROOT,
        UNDEFINED => standard::UNDEFINED,
        _ => INVALID,
    }
}

/// A rank for the application.
#[inline(always)]
pub fn rank_out(rank: i32) -> i32 {
    if rank >= 0 {
        return rank;
    }
    match rank {
        standard::ANY_SOURCE => ANY_SOURCE,
        standard::PROC_NULL => PROC_NULL,
        standard::ROOT => ROOT,
        other => other,
    }
}

/// A tag from the application.
#[inline(always)]
pub fn tag_in(tag: i32) -> i32 {
    if tag >= 0 {
        return tag;
    }
    match tag {
        ANY_TAG => standard::ANY_TAG,
        _ => INVALID,
    }
}

/// A tag for the application.
#[inline(always)]
pub fn tag_out(tag: i32) -> i32 {
    if tag == standard::ANY_TAG {
        ANY_TAG
    } else {
        tag
    }
}

/// Predefined attributes, in the order of their keyvals here, which begin at 0.
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
        // The standard's own numbers for predefined attributes mean nothing here.
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

/// What predefined attributes point to.
pub static ATTRIBUTE_VALUES: AttributeValues = AttributeValues {
    proc_null: PROC_NULL,
    any_source: ANY_SOURCE,
    flavors: [1, 2, 3, 4],
    models: [0, 1],
};

/// Standard error classes by the class here.
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

/// An error code from the application; user-defined ones are the same everywhere.
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
    // The last code itself is what MPI_LASTUSEDCODE begins with.
    if code == standard::SUCCESS || code >= standard::ERR_LASTCODE {
        return code;
    }
    class_out(code)
}

#[cold]
fn class_out(code: i32) -> i32 {
    let place = |code| ERRORS.iter().position(|&known| known == code);
    // Classes of later standards have no number here.
    let code = match code {
        common::tool::NOT_SUPPORTED | common::tool::NOT_ACCESSIBLE => common::tool::INVALID,
        standard::ERR_ERRHANDLER => standard::ERR_ARG,
        code => code,
    };
    place(code)
        .or_else(|| place(standard::ERR_OTHER))
        .map_or(INVALID, |class| class as i32)
}

translate_in! {
    /// A level of thread support from the application.
    thread_level_in {
        0 => THREAD_SINGLE,
        1 => THREAD_FUNNELED,
        2 => THREAD_SERIALIZED,
        3 => THREAD_MULTIPLE,
    }
}
translate_out! {
    /// A level of thread support for the application.
    thread_level_out {
        THREAD_SINGLE => 0,
        THREAD_FUNNELED => 1,
        THREAD_SERIALIZED => 2,
        THREAD_MULTIPLE => 3,
    }
}
translate_out! {
    /// The result of a comparison.
    comparison_out { IDENT => 0, CONGRUENT => 1, SIMILAR => 2, UNEQUAL => 3 }
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
    /// How a datatype was made.
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
    /// How a window is locked.
    lock_type_in { 1 => LOCK_EXCLUSIVE, 2 => LOCK_SHARED }
}
translate_in! {
    /// From where a file position counts.
    whence_in { 600 => SEEK_SET, 602 => SEEK_CUR, 604 => SEEK_END }
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
translate_bits! {
    access_mode_in, access_mode_out {
        MODE_CREATE = 1,
        MODE_RDONLY = 2,
        MODE_WRONLY = 4,
        MODE_RDWR = 8,
        MODE_DELETE_ON_CLOSE = 16,
        MODE_UNIQUE_OPEN = 32,
        MODE_EXCL = 64,
        MODE_APPEND = 128,
        MODE_SEQUENTIAL = 256,
    }
}

/// How processes are split by type. Open MPI's own types (by socket, by cache ...) do not exist
/// under other libraries.
#[inline(always)]
pub fn split_type_in(split_type: i32) -> i32 {
    match split_type {
        0 => standard::COMM_TYPE_SHARED,
        standard::UNDEFINED => standard::UNDEFINED,
        _ => INVALID,
    }
}

/// An argument of a distribution, or MPI_DISTRIBUTE_DFLT_DARG.
#[inline(always)]
pub fn distribution_arg_in(arg: i32) -> i32 {
    if arg == -1 {
        standard::DISTRIBUTE_DFLT_DARG
    } else {
        arg
    }
}

/// An argument of a distribution, for the application.
pub fn distribution_arg_out(arg: i32) -> i32 {
    if arg == standard::DISTRIBUTE_DFLT_DARG {
        -1
    } else {
        arg
    }
}

/// A displacement in a file, or MPI_DISPLACEMENT_CURRENT.
#[inline(always)]
pub fn displacement_in(displacement: i64) -> i64 {
    match displacement {
        -54_278_278 => standard::DISPLACEMENT_CURRENT,
        negative if negative < 0 => i64::MIN,
        displacement => displacement,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_values_go_in_and_out() {
        for rank in [ANY_SOURCE, PROC_NULL, ROOT, UNDEFINED, 0, 5] {
            assert_eq!(rank_out(rank_in(rank)), rank);
        }
        assert_eq!(rank_in(-77), INVALID);
        assert_eq!(tag_out(tag_in(ANY_TAG)), ANY_TAG);
        assert_eq!(tag_in(-2), INVALID);
        assert_eq!(keyval_out(keyval_in(KEYVAL_INVALID)), KEYVAL_INVALID);
        assert_eq!(keyval_in(0x1000), 0x1000);
        assert_eq!(keyval_in(standard::TAG_UB), INVALID);
    }

    #[test]
    fn every_error_class_goes_in_and_out() {
        for (class, &standard) in ERRORS.iter().enumerate().filter(|(_, &s)| s != INVALID) {
            assert_eq!(error_in(class as i32), standard);
            assert_eq!(error_out(standard), class as i32);
        }
        let user_defined = standard::ERR_LASTCODE + 3;
        assert_eq!(error_in(error_out(user_defined)), user_defined);
        assert!(error_out(standard::ERR_LASTCODE) >= 92);
        let newer = error_out(standard::ERR_ABI);
        assert_eq!(error_in(newer), standard::ERR_OTHER);
    }

    #[test]
    fn statuses_go_out_and_in() {
        let status = standard::Status {
            source: standard::ANY_SOURCE,
            tag: standard::ANY_TAG,
            error: standard::ERR_TRUNCATE,
            cancelled: 1,
            count: 0x1_2345_6789_abcd,
            reserved: 0,
        };
        let mut out = core::mem::MaybeUninit::uninit();
        // SAFETY: `status_out` writes it all.
        let out: Status = unsafe {
            status_out(&status, out.as_mut_ptr());
            out.assume_init()
        };
        assert_eq!(
            (out.source, out.tag, out.error),
            (ANY_SOURCE, ANY_TAG, error_out(status.error))
        );
        assert_eq!(status_in(&out), status);
    }
}
