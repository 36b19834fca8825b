//! Types and values of MPICH's ABI, and their translation to the standard's (facts from the `mpi.h`
//! and `mpio.h` of MPICH 4.0). The names are those that the generated functions use.
//!
//! # Safety
//! A file handle that is not null is the address of an object of the upper half, which begins with
//! its own address. That the application passes no other is MPI's rule.
#![allow(unsafe_code)]

use contract::abi as standard;
use contract::HandleKind;
use core::ffi::c_void;
use stasis_front_common as common;
use stasis_front_common::{translate_bits, translate_in, translate_out, AttributeValues, INVALID};
use upper_half::object as upper;

use crate::handles;
pub use crate::handles::{
    comm, datatype, errhandler, group, info, message, op, request, session, win,
};

/// MPI_Status.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Status {
    count_low: i32,
    /// Bit 0: cancelled; above it the high bits of the count.
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

        /// The handle for Fortran: the same.
        pub fn $to_fortran(handle: $kind) -> i32 {
            handle
        }

        /// The handle from Fortran: the same.
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

/// MPI_File's type in C: a pointer.
pub type File = usize;

/// The object of a file handle.
#[inline(always)]
pub fn file(handle: File) -> &'static upper::File {
    if handle == 0 {
        return upper::File::null();
    }
    // SAFETY: see the module's head.
    unsafe { *(handle as *const &'static upper::File) }
}

/// The handle of a file.
#[inline(always)]
pub fn file_out(object: &'static upper::File) -> File {
    object.handle()
}

/// The handle for Fortran.
pub fn file_c2f(handle: File) -> i32 {
    fortran_of(HandleKind::File, file(handle).index())
}

/// The handle from Fortran.
pub fn file_f2c(fortran: i32) -> File {
    file_out(common::f2c(fortran))
}

/// The integer by which Fortran knows an object: the C handle, but for files, which have their index
/// in the upper half, or 0 for MPI_FILE_NULL.
pub fn fortran_of(kind: HandleKind, index: u32) -> i32 {
    match kind {
        HandleKind::File if index == upper::File::null().index() => 0,
        HandleKind::File => index as i32,
        kind => handles::handle_of(kind, index, core::ptr::null()) as i32,
    }
}

/// A data buffer: MPI_BOTTOM is the standard's.
#[inline(always)]
pub fn buffer(buffer: *const c_void) -> *mut c_void {
    const _: () = assert!(standard::BOTTOM == 0);
    if buffer as isize == -1 {
        return standard::IN_PLACE as *mut c_void;
    }
    buffer.cast_mut()
}

/// Weights of edges, or MPI_UNWEIGHTED or MPI_WEIGHTS_EMPTY.
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

/// Whether it is MPI_STATUS_IGNORE or MPI_STATUSES_IGNORE; a null pointer is not to be written to
/// either.
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
/// `to` must be valid for writing.
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

const ANY_SOURCE: i32 = -2;
const PROC_NULL: i32 = -1;
const ROOT: i32 = -3;
const ANY_TAG: i32 = -1;
const KEYVAL_INVALID: i32 = 0x2400_0000;
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

/// Predefined attributes: the keyval here and the standard's.
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
        // The standard's own numbers for predefined attributes mean nothing here.
        None if KEYVALS.iter().any(|&(_, standard)| standard == keyval) => INVALID,
        None => keyval,
    }
}

/// A keyval for the application.
pub fn keyval_out(keyval: i32) -> i32 {
    let predefined = KEYVALS.iter().find(|&&(_, standard)| standard == keyval);
    predefined.map_or(keyval, |&(here, _)| here)
}

/// What predefined attributes point to.
pub static ATTRIBUTE_VALUES: AttributeValues = AttributeValues {
    proc_null: PROC_NULL,
    any_source: ANY_SOURCE,
    flavors: [1, 2, 3, 4],
    models: [2, 1],
};

/// Standard error classes by the class here.
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

/// User-defined classes and codes lie above MPI_ERR_LASTCODE, which is very high here.
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
    class_out(code)
}

#[cold]
fn class_out(code: i32) -> i32 {
    // The last code itself is what MPI_LASTUSEDCODE begins with.
    if code >= standard::ERR_LASTCODE {
        return code.saturating_add(USER_DEFINED);
    }
    let place = |code| ERRORS.iter().position(|&known| known == code);
    // Classes of later standards have no number here.
    let code = match code {
        common::tool::NOT_ACCESSIBLE => common::tool::INVALID,
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
    /// How a datatype was made.
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
    /// How a window is locked.
    lock_type_in { 234 => LOCK_EXCLUSIVE, 235 => LOCK_SHARED }
}
translate_in! {
    /// From where a file position counts.
    whence_in { 600 => SEEK_SET, 602 => SEEK_CUR, 604 => SEEK_END }
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

/// How processes are split by type. MPICH's own types are not served: another library would split
/// differently after a restart.
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

/// MPI_DISTRIBUTE_DFLT_DARG.
const DFLT_DARG: i32 = -49767;

/// An argument of a distribution, or MPI_DISTRIBUTE_DFLT_DARG.
#[inline(always)]
pub fn distribution_arg_in(arg: i32) -> i32 {
    if arg == DFLT_DARG {
        standard::DISTRIBUTE_DFLT_DARG
    } else {
        arg
    }
}

/// An argument of a distribution, for the application.
pub fn distribution_arg_out(arg: i32) -> i32 {
    if arg == standard::DISTRIBUTE_DFLT_DARG {
        DFLT_DARG
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
        assert!(error_out(standard::ERR_LASTCODE) >= 0x3fff_ffff);
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
