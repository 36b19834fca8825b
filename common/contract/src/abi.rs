//! Values and types of the MPI 5.0 standard ABI (MPI 5.0, chapter "Application Binary Interface"). Both halves use
//! them, with any ABI of the application and of the MPI library in the lower half.
#![allow(missing_docs)] // the names are the standard's own, and the standard documents them

/// MPI_Status in the standard's layout. The fields `cancelled` and `count` are three of the standard's five reserved
/// integers; all fronts need both.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    pub source: i32,
    pub tag: i32,
    pub error: i32,
    /// Whether the operation was cancelled: not 0 if it was.
    pub cancelled: i32,
    /// Number of bytes received.
    pub count: u64,
    pub reserved: u64,
}

const _: () = assert!(core::mem::size_of::<Status>() == 32);
const _: () = assert!(core::mem::offset_of!(Status, count) == 16);

impl Status {
    /// The empty status (MPI 3.1, §3.7.3), which the completion of an inactive request returns.
    pub const EMPTY: Status = Status {
        source: ANY_SOURCE,
        tag: ANY_TAG,
        error: SUCCESS,
        cancelled: 0,
        count: 0,
        reserved: 0,
    };

    /// The status of an operation with MPI_PROC_NULL (MPI 3.1, §3.11).
    pub const PROC_NULL: Status = Status {
        source: PROC_NULL,
        tag: ANY_TAG,
        error: SUCCESS,
        cancelled: 0,
        count: 0,
        reserved: 0,
    };
}

pub const IN_PLACE: usize = 1;
pub const BOTTOM: usize = 0;
/// MPI_COMM_DUP_FN, MPI_TYPE_DUP_FN and MPI_WIN_DUP_FN.
pub const DUP_FN: usize = 1;
pub const UNWEIGHTED: usize = 10;
pub const WEIGHTS_EMPTY: usize = 11;
pub const SUCCESS: i32 = 0;
pub const ERR_BUFFER: i32 = 1;
pub const ERR_COUNT: i32 = 2;
pub const ERR_TYPE: i32 = 3;
pub const ERR_TAG: i32 = 4;
pub const ERR_COMM: i32 = 5;
pub const ERR_RANK: i32 = 6;
pub const ERR_REQUEST: i32 = 7;
pub const ERR_ROOT: i32 = 8;
pub const ERR_GROUP: i32 = 9;
pub const ERR_OP: i32 = 10;
pub const ERR_TOPOLOGY: i32 = 11;
pub const ERR_DIMS: i32 = 12;
pub const ERR_ARG: i32 = 13;
pub const ERR_UNKNOWN: i32 = 14;
pub const ERR_TRUNCATE: i32 = 15;
pub const ERR_OTHER: i32 = 16;
pub const ERR_INTERN: i32 = 17;
pub const ERR_PENDING: i32 = 18;
pub const ERR_IN_STATUS: i32 = 19;
pub const ERR_ACCESS: i32 = 20;
pub const ERR_AMODE: i32 = 21;
pub const ERR_ASSERT: i32 = 22;
pub const ERR_BAD_FILE: i32 = 23;
pub const ERR_BASE: i32 = 24;
pub const ERR_CONVERSION: i32 = 25;
pub const ERR_DISP: i32 = 26;
pub const ERR_DUP_DATAREP: i32 = 27;
pub const ERR_FILE_EXISTS: i32 = 28;
pub const ERR_FILE_IN_USE: i32 = 29;
pub const ERR_FILE: i32 = 30;
pub const ERR_INFO_KEY: i32 = 31;
pub const ERR_INFO_NOKEY: i32 = 32;
pub const ERR_INFO_VALUE: i32 = 33;
pub const ERR_INFO: i32 = 34;
pub const ERR_IO: i32 = 35;
pub const ERR_KEYVAL: i32 = 36;
pub const ERR_LOCKTYPE: i32 = 37;
pub const ERR_NAME: i32 = 38;
pub const ERR_NO_MEM: i32 = 39;
pub const ERR_NOT_SAME: i32 = 40;
pub const ERR_NO_SPACE: i32 = 41;
pub const ERR_NO_SUCH_FILE: i32 = 42;
pub const ERR_PORT: i32 = 43;
pub const ERR_QUOTA: i32 = 44;
pub const ERR_READ_ONLY: i32 = 45;
pub const ERR_RMA_ATTACH: i32 = 46;
pub const ERR_RMA_CONFLICT: i32 = 47;
pub const ERR_RMA_RANGE: i32 = 48;
pub const ERR_RMA_SHARED: i32 = 49;
pub const ERR_RMA_SYNC: i32 = 50;
pub const ERR_SERVICE: i32 = 51;
pub const ERR_SIZE: i32 = 52;
pub const ERR_SPAWN: i32 = 53;
pub const ERR_UNSUPPORTED_DATAREP: i32 = 54;
pub const ERR_UNSUPPORTED_OPERATION: i32 = 55;
pub const ERR_WIN: i32 = 56;
pub const ERR_RMA_FLAVOR: i32 = 57;
pub const ERR_PROC_ABORTED: i32 = 58;
pub const ERR_VALUE_TOO_LARGE: i32 = 59;
pub const ERR_SESSION: i32 = 60;
pub const ERR_ERRHANDLER: i32 = 61;
pub const ERR_ABI: i32 = 62;
pub const ERR_LASTCODE: i32 = 0x3fff;
/// Error class of MPI Stages: calls return it from a fault until MPIX_Checkpoint_read. It is far above those that
/// programs define, and the fronts pass it on like one of them (`stasis_mpix.h`).
pub const ERR_TRY_RELOAD: i32 = 0x53_5441;
pub const T_ERR_CANNOT_INIT: i32 = 1001;
pub const T_ERR_NOT_ACCESSIBLE: i32 = 1002;
pub const T_ERR_NOT_INITIALIZED: i32 = 1003;
pub const T_ERR_NOT_SUPPORTED: i32 = 1004;
pub const T_ERR_MEMORY: i32 = 1005;
pub const T_ERR_INVALID: i32 = 1006;
pub const T_ERR_INVALID_INDEX: i32 = 1007;
pub const T_ERR_INVALID_ITEM: i32 = 1008;
pub const T_ERR_INVALID_SESSION: i32 = 1009;
pub const T_ERR_INVALID_HANDLE: i32 = 1010;
pub const T_ERR_INVALID_NAME: i32 = 1011;
pub const T_ERR_OUT_OF_HANDLES: i32 = 1012;
pub const T_ERR_OUT_OF_SESSIONS: i32 = 1013;
pub const T_ERR_CVAR_SET_NOT_NOW: i32 = 1014;
pub const T_ERR_CVAR_SET_NEVER: i32 = 1015;
pub const T_ERR_PVAR_NO_WRITE: i32 = 1016;
pub const T_ERR_PVAR_NO_STARTSTOP: i32 = 1017;
pub const T_ERR_PVAR_NO_ATOMIC: i32 = 1018;
pub const T_VERBOSITY_USER_BASIC: i32 = 0x9;
pub const T_VERBOSITY_USER_DETAIL: i32 = 0xa;
pub const T_VERBOSITY_USER_ALL: i32 = 0xc;
pub const T_VERBOSITY_TUNER_BASIC: i32 = 0x11;
pub const T_VERBOSITY_TUNER_DETAIL: i32 = 0x12;
pub const T_VERBOSITY_TUNER_ALL: i32 = 0x14;
pub const T_VERBOSITY_MPIDEV_BASIC: i32 = 0x21;
pub const T_VERBOSITY_MPIDEV_DETAIL: i32 = 0x22;
pub const T_VERBOSITY_MPIDEV_ALL: i32 = 0x24;
pub const T_BIND_NO_OBJECT: i32 = 1;
pub const T_BIND_MPI_COMM: i32 = 2;
pub const T_BIND_MPI_DATATYPE: i32 = 3;
pub const T_BIND_MPI_ERRHANDLER: i32 = 4;
pub const T_BIND_MPI_FILE: i32 = 5;
pub const T_BIND_MPI_GROUP: i32 = 6;
pub const T_BIND_MPI_OP: i32 = 7;
pub const T_BIND_MPI_REQUEST: i32 = 8;
pub const T_BIND_MPI_WIN: i32 = 9;
pub const T_BIND_MPI_MESSAGE: i32 = 10;
pub const T_BIND_MPI_INFO: i32 = 11;
pub const T_SCOPE_CONSTANT: i32 = 1;
pub const T_SCOPE_READONLY: i32 = 2;
pub const T_SCOPE_LOCAL: i32 = 3;
pub const T_SCOPE_GROUP: i32 = 4;
pub const T_SCOPE_GROUP_EQ: i32 = 5;
pub const T_SCOPE_ALL: i32 = 6;
pub const T_SCOPE_ALL_EQ: i32 = 7;
pub const T_PVAR_CLASS_STATE: i32 = 1;
pub const T_PVAR_CLASS_LEVEL: i32 = 2;
pub const T_PVAR_CLASS_SIZE: i32 = 3;
pub const T_PVAR_CLASS_PERCENTAGE: i32 = 4;
pub const T_PVAR_CLASS_HIGHWATERMARK: i32 = 5;
pub const T_PVAR_CLASS_LOWWATERMARK: i32 = 6;
pub const T_PVAR_CLASS_COUNTER: i32 = 7;
pub const T_PVAR_CLASS_AGGREGATE: i32 = 8;
pub const T_PVAR_CLASS_TIMER: i32 = 9;
pub const T_PVAR_CLASS_GENERIC: i32 = 10;
pub const MODE_APPEND: i32 = 1;
pub const MODE_CREATE: i32 = 2;
pub const MODE_DELETE_ON_CLOSE: i32 = 4;
pub const MODE_EXCL: i32 = 8;
pub const MODE_RDONLY: i32 = 16;
pub const MODE_RDWR: i32 = 32;
pub const MODE_SEQUENTIAL: i32 = 64;
pub const MODE_UNIQUE_OPEN: i32 = 128;
pub const MODE_WRONLY: i32 = 256;
pub const MODE_NOCHECK: i32 = 1024;
pub const MODE_NOPRECEDE: i32 = 2048;
pub const MODE_NOPUT: i32 = 4096;
pub const MODE_NOSTORE: i32 = 8192;
pub const MODE_NOSUCCEED: i32 = 16384;
pub const ANY_SOURCE: i32 = -1;
pub const ANY_TAG: i32 = -2;
pub const PROC_NULL: i32 = -3;
pub const ROOT: i32 = -4;
pub const UNDEFINED: i32 = -32766;
pub const THREAD_SINGLE: i32 = 0;
pub const THREAD_FUNNELED: i32 = 1024;
pub const THREAD_SERIALIZED: i32 = 2048;
pub const THREAD_MULTIPLE: i32 = 4096;
pub const ORDER_C: i32 = 0xC;
pub const ORDER_FORTRAN: i32 = 0xF;
pub const DISTRIBUTE_NONE: i32 = 16;
pub const DISTRIBUTE_BLOCK: i32 = 17;
pub const DISTRIBUTE_CYCLIC: i32 = 18;
/// The standard's value is 19, which is a valid block size in the ABIs of Open MPI and MPICH. So Stasis uses another
/// one.
pub const DISTRIBUTE_DFLT_DARG: i32 = i32::MIN;
pub const COMBINER_NAMED: i32 = 101;
pub const COMBINER_DUP: i32 = 102;
pub const COMBINER_CONTIGUOUS: i32 = 103;
pub const COMBINER_VECTOR: i32 = 104;
pub const COMBINER_HVECTOR: i32 = 105;
pub const COMBINER_INDEXED: i32 = 106;
pub const COMBINER_HINDEXED: i32 = 107;
pub const COMBINER_INDEXED_BLOCK: i32 = 108;
pub const COMBINER_HINDEXED_BLOCK: i32 = 109;
pub const COMBINER_STRUCT: i32 = 110;
pub const COMBINER_SUBARRAY: i32 = 111;
pub const COMBINER_DARRAY: i32 = 112;
pub const COMBINER_F90_REAL: i32 = 113;
pub const COMBINER_F90_COMPLEX: i32 = 114;
pub const COMBINER_F90_INTEGER: i32 = 115;
pub const COMBINER_RESIZED: i32 = 116;
pub const COMBINER_VALUE_INDEX: i32 = 117;
pub const TYPECLASS_INTEGER: i32 = 192;
pub const TYPECLASS_REAL: i32 = 193;
pub const TYPECLASS_COMPLEX: i32 = 194;
pub const IDENT: i32 = 201;
pub const CONGRUENT: i32 = 202;
pub const SIMILAR: i32 = 203;
pub const UNEQUAL: i32 = 204;
pub const CART: i32 = 211;
pub const GRAPH: i32 = 212;
pub const DIST_GRAPH: i32 = 213;
pub const COMM_TYPE_SHARED: i32 = 221;
pub const COMM_TYPE_HW_UNGUIDED: i32 = 222;
pub const COMM_TYPE_HW_GUIDED: i32 = 223;
pub const COMM_TYPE_RESOURCE_GUIDED: i32 = 224;
pub const LOCK_EXCLUSIVE: i32 = 301;
pub const LOCK_SHARED: i32 = 302;
pub const WIN_FLAVOR_CREATE: i32 = 311;
pub const WIN_FLAVOR_ALLOCATE: i32 = 312;
pub const WIN_FLAVOR_DYNAMIC: i32 = 313;
pub const WIN_FLAVOR_SHARED: i32 = 314;
pub const WIN_UNIFIED: i32 = 321;
pub const WIN_SEPARATE: i32 = 322;
pub const SEEK_CUR: i32 = 401;
pub const SEEK_END: i32 = 402;
pub const SEEK_SET: i32 = 403;
pub const DISPLACEMENT_CURRENT: i64 = -1;
pub const KEYVAL_INVALID: i32 = 0;
pub const TAG_UB: i32 = 501;
pub const IO: i32 = 502;
pub const HOST: i32 = 503;
pub const WTIME_IS_GLOBAL: i32 = 504;
pub const APPNUM: i32 = 505;
pub const LASTUSEDCODE: i32 = 506;
pub const UNIVERSE_SIZE: i32 = 507;
pub const WIN_BASE: i32 = 601;
pub const WIN_DISP_UNIT: i32 = 602;
pub const WIN_SIZE: i32 = 603;
pub const WIN_CREATE_FLAVOR: i32 = 604;
pub const WIN_MODEL: i32 = 605;
pub const MAX_DATAREP_STRING: usize = 128;
pub const MAX_ERROR_STRING: usize = 512;
pub const MAX_INFO_KEY: usize = 256;
pub const MAX_INFO_VAL: usize = 1024;
pub const MAX_LIBRARY_VERSION_STRING: usize = 8192;
pub const MAX_OBJECT_NAME: usize = 128;
pub const MAX_PORT_NAME: usize = 1024;
pub const MAX_PROCESSOR_NAME: usize = 256;
pub const MAX_STRINGTAG_LEN: usize = 1024;
pub const MAX_PSET_NAME_LEN: usize = 1024;
pub const BSEND_OVERHEAD: usize = 512;

/// Predefined MPI_Op handles.
pub mod op {
    pub const OP_NULL: usize = 0x20;
    pub const SUM: usize = 0x21;
    pub const MIN: usize = 0x22;
    pub const MAX: usize = 0x23;
    pub const PROD: usize = 0x24;
    pub const BAND: usize = 0x28;
    pub const BOR: usize = 0x29;
    pub const BXOR: usize = 0x2a;
    pub const LAND: usize = 0x30;
    pub const LOR: usize = 0x31;
    pub const LXOR: usize = 0x32;
    pub const MINLOC: usize = 0x38;
    pub const MAXLOC: usize = 0x39;
    pub const REPLACE: usize = 0x3c;
    pub const NO_OP: usize = 0x3d;
    /// All of them, with the standard's names.
    pub const ALL: &[(&str, usize)] = &[
        ("MPI_OP_NULL", OP_NULL),
        ("MPI_SUM", SUM),
        ("MPI_MIN", MIN),
        ("MPI_MAX", MAX),
        ("MPI_PROD", PROD),
        ("MPI_BAND", BAND),
        ("MPI_BOR", BOR),
        ("MPI_BXOR", BXOR),
        ("MPI_LAND", LAND),
        ("MPI_LOR", LOR),
        ("MPI_LXOR", LXOR),
        ("MPI_MINLOC", MINLOC),
        ("MPI_MAXLOC", MAXLOC),
        ("MPI_REPLACE", REPLACE),
        ("MPI_NO_OP", NO_OP),
    ];
}

/// Predefined MPI_Comm handles.
pub mod comm {
    pub const COMM_NULL: usize = 0x100;
    pub const COMM_WORLD: usize = 0x101;
    pub const COMM_SELF: usize = 0x102;
    /// All of them, with the standard's names.
    pub const ALL: &[(&str, usize)] = &[
        ("MPI_COMM_NULL", COMM_NULL),
        ("MPI_COMM_WORLD", COMM_WORLD),
        ("MPI_COMM_SELF", COMM_SELF),
    ];
}

/// Predefined MPI_Group handles.
pub mod group {
    pub const GROUP_NULL: usize = 0x108;
    pub const GROUP_EMPTY: usize = 0x109;
    /// All of them, with the standard's names.
    pub const ALL: &[(&str, usize)] = &[
        ("MPI_GROUP_NULL", GROUP_NULL),
        ("MPI_GROUP_EMPTY", GROUP_EMPTY),
    ];
}

/// Predefined MPI_Win handles.
pub mod win {
    pub const WIN_NULL: usize = 0x110;
    /// All of them, with the standard's names.
    pub const ALL: &[(&str, usize)] = &[("MPI_WIN_NULL", WIN_NULL)];
}

/// Predefined MPI_File handles.
pub mod file {
    pub const FILE_NULL: usize = 0x118;
    /// All of them, with the standard's names.
    pub const ALL: &[(&str, usize)] = &[("MPI_FILE_NULL", FILE_NULL)];
}

/// Predefined MPI_Session handles.
pub mod session {
    pub const SESSION_NULL: usize = 0x120;
    /// All of them, with the standard's names.
    pub const ALL: &[(&str, usize)] = &[("MPI_SESSION_NULL", SESSION_NULL)];
}

/// Predefined MPI_Message handles.
pub mod message {
    pub const MESSAGE_NULL: usize = 0x128;
    pub const MESSAGE_NO_PROC: usize = 0x129;
    /// All of them, with the standard's names.
    pub const ALL: &[(&str, usize)] = &[
        ("MPI_MESSAGE_NULL", MESSAGE_NULL),
        ("MPI_MESSAGE_NO_PROC", MESSAGE_NO_PROC),
    ];
}

/// Predefined MPI_Info handles.
pub mod info {
    pub const INFO_NULL: usize = 0x130;
    pub const INFO_ENV: usize = 0x131;
    /// All of them, with the standard's names.
    pub const ALL: &[(&str, usize)] = &[("MPI_INFO_NULL", INFO_NULL), ("MPI_INFO_ENV", INFO_ENV)];
}

/// Predefined MPI_Errhandler handles.
pub mod errhandler {
    pub const ERRHANDLER_NULL: usize = 0x140;
    pub const ERRORS_ARE_FATAL: usize = 0x141;
    pub const ERRORS_ABORT: usize = 0x142;
    pub const ERRORS_RETURN: usize = 0x143;
    /// All of them, with the standard's names.
    pub const ALL: &[(&str, usize)] = &[
        ("MPI_ERRHANDLER_NULL", ERRHANDLER_NULL),
        ("MPI_ERRORS_ARE_FATAL", ERRORS_ARE_FATAL),
        ("MPI_ERRORS_ABORT", ERRORS_ABORT),
        ("MPI_ERRORS_RETURN", ERRORS_RETURN),
    ];
}

/// Predefined MPI_Request handles.
pub mod request {
    pub const REQUEST_NULL: usize = 0x180;
    /// All of them, with the standard's names.
    pub const ALL: &[(&str, usize)] = &[("MPI_REQUEST_NULL", REQUEST_NULL)];
}

/// Predefined MPI_Datatype handles.
pub mod datatype {
    pub const DATATYPE_NULL: usize = 0x200;
    pub const AINT: usize = 0x201;
    pub const COUNT: usize = 0x202;
    pub const OFFSET: usize = 0x203;
    pub const PACKED: usize = 0x207;
    pub const SHORT: usize = 0x208;
    pub const INT: usize = 0x209;
    pub const LONG: usize = 0x20a;
    pub const LONG_LONG: usize = 0x20b;
    pub const UNSIGNED_SHORT: usize = 0x20c;
    pub const UNSIGNED: usize = 0x20d;
    pub const UNSIGNED_LONG: usize = 0x20e;
    pub const UNSIGNED_LONG_LONG: usize = 0x20f;
    pub const FLOAT: usize = 0x210;
    pub const C_FLOAT_COMPLEX: usize = 0x212;
    pub const CXX_FLOAT_COMPLEX: usize = 0x213;
    pub const DOUBLE: usize = 0x214;
    pub const C_DOUBLE_COMPLEX: usize = 0x216;
    pub const CXX_DOUBLE_COMPLEX: usize = 0x217;
    pub const LOGICAL: usize = 0x218;
    pub const INTEGER: usize = 0x219;
    pub const REAL: usize = 0x21a;
    pub const COMPLEX: usize = 0x21b;
    pub const DOUBLE_PRECISION: usize = 0x21c;
    pub const DOUBLE_COMPLEX: usize = 0x21d;
    pub const CHARACTER: usize = 0x21e;
    pub const LONG_DOUBLE: usize = 0x220;
    pub const C_LONG_DOUBLE_COMPLEX: usize = 0x224;
    pub const CXX_LONG_DOUBLE_COMPLEX: usize = 0x225;
    pub const FLOAT_INT: usize = 0x228;
    pub const DOUBLE_INT: usize = 0x229;
    pub const LONG_INT: usize = 0x22a;
    pub const TWOINT: usize = 0x22b;
    pub const SHORT_INT: usize = 0x22c;
    pub const LONG_DOUBLE_INT: usize = 0x22d;
    pub const TWOREAL: usize = 0x230;
    pub const TWODOUBLE_PRECISION: usize = 0x231;
    pub const TWOINTEGER: usize = 0x232;
    pub const C_BOOL: usize = 0x238;
    pub const CXX_BOOL: usize = 0x239;
    pub const WCHAR: usize = 0x23c;
    pub const INT8_T: usize = 0x240;
    pub const UINT8_T: usize = 0x241;
    pub const CHAR: usize = 0x243;
    pub const SIGNED_CHAR: usize = 0x244;
    pub const UNSIGNED_CHAR: usize = 0x245;
    pub const BYTE: usize = 0x247;
    pub const INT16_T: usize = 0x248;
    pub const UINT16_T: usize = 0x249;
    pub const INT32_T: usize = 0x250;
    pub const UINT32_T: usize = 0x251;
    pub const INT64_T: usize = 0x258;
    pub const UINT64_T: usize = 0x259;
    pub const LOGICAL1: usize = 0x2c0;
    pub const INTEGER1: usize = 0x2c1;
    pub const LOGICAL2: usize = 0x2c8;
    pub const INTEGER2: usize = 0x2c9;
    pub const REAL2: usize = 0x2ca;
    pub const LOGICAL4: usize = 0x2d0;
    pub const INTEGER4: usize = 0x2d1;
    pub const REAL4: usize = 0x2d2;
    pub const COMPLEX4: usize = 0x2d3;
    pub const LOGICAL8: usize = 0x2d8;
    pub const INTEGER8: usize = 0x2d9;
    pub const REAL8: usize = 0x2da;
    pub const COMPLEX8: usize = 0x2db;
    pub const LOGICAL16: usize = 0x2e0;
    pub const INTEGER16: usize = 0x2e1;
    pub const REAL16: usize = 0x2e2;
    pub const COMPLEX16: usize = 0x2e3;
    pub const COMPLEX32: usize = 0x2eb;
    /// All of them, with the standard's names.
    pub const ALL: &[(&str, usize)] = &[
        ("MPI_DATATYPE_NULL", DATATYPE_NULL),
        ("MPI_AINT", AINT),
        ("MPI_COUNT", COUNT),
        ("MPI_OFFSET", OFFSET),
        ("MPI_PACKED", PACKED),
        ("MPI_SHORT", SHORT),
        ("MPI_INT", INT),
        ("MPI_LONG", LONG),
        ("MPI_LONG_LONG_INT", LONG_LONG),
        ("MPI_UNSIGNED_SHORT", UNSIGNED_SHORT),
        ("MPI_UNSIGNED", UNSIGNED),
        ("MPI_UNSIGNED_LONG", UNSIGNED_LONG),
        ("MPI_UNSIGNED_LONG_LONG", UNSIGNED_LONG_LONG),
        ("MPI_FLOAT", FLOAT),
        ("MPI_C_COMPLEX", C_FLOAT_COMPLEX),
        ("MPI_CXX_FLOAT_COMPLEX", CXX_FLOAT_COMPLEX),
        ("MPI_DOUBLE", DOUBLE),
        ("MPI_C_DOUBLE_COMPLEX", C_DOUBLE_COMPLEX),
        ("MPI_CXX_DOUBLE_COMPLEX", CXX_DOUBLE_COMPLEX),
        ("MPI_LOGICAL", LOGICAL),
        ("MPI_INTEGER", INTEGER),
        ("MPI_REAL", REAL),
        ("MPI_COMPLEX", COMPLEX),
        ("MPI_DOUBLE_PRECISION", DOUBLE_PRECISION),
        ("MPI_DOUBLE_COMPLEX", DOUBLE_COMPLEX),
        ("MPI_CHARACTER", CHARACTER),
        ("MPI_LONG_DOUBLE", LONG_DOUBLE),
        ("MPI_C_LONG_DOUBLE_COMPLEX", C_LONG_DOUBLE_COMPLEX),
        ("MPI_CXX_LONG_DOUBLE_COMPLEX", CXX_LONG_DOUBLE_COMPLEX),
        ("MPI_FLOAT_INT", FLOAT_INT),
        ("MPI_DOUBLE_INT", DOUBLE_INT),
        ("MPI_LONG_INT", LONG_INT),
        ("MPI_2INT", TWOINT),
        ("MPI_SHORT_INT", SHORT_INT),
        ("MPI_LONG_DOUBLE_INT", LONG_DOUBLE_INT),
        ("MPI_2REAL", TWOREAL),
        ("MPI_2DOUBLE_PRECISION", TWODOUBLE_PRECISION),
        ("MPI_2INTEGER", TWOINTEGER),
        ("MPI_C_BOOL", C_BOOL),
        ("MPI_CXX_BOOL", CXX_BOOL),
        ("MPI_WCHAR", WCHAR),
        ("MPI_INT8_T", INT8_T),
        ("MPI_UINT8_T", UINT8_T),
        ("MPI_CHAR", CHAR),
        ("MPI_SIGNED_CHAR", SIGNED_CHAR),
        ("MPI_UNSIGNED_CHAR", UNSIGNED_CHAR),
        ("MPI_BYTE", BYTE),
        ("MPI_INT16_T", INT16_T),
        ("MPI_UINT16_T", UINT16_T),
        ("MPI_INT32_T", INT32_T),
        ("MPI_UINT32_T", UINT32_T),
        ("MPI_INT64_T", INT64_T),
        ("MPI_UINT64_T", UINT64_T),
        ("MPI_LOGICAL1", LOGICAL1),
        ("MPI_INTEGER1", INTEGER1),
        ("MPI_LOGICAL2", LOGICAL2),
        ("MPI_INTEGER2", INTEGER2),
        ("MPI_REAL2", REAL2),
        ("MPI_LOGICAL4", LOGICAL4),
        ("MPI_INTEGER4", INTEGER4),
        ("MPI_REAL4", REAL4),
        ("MPI_COMPLEX4", COMPLEX4),
        ("MPI_LOGICAL8", LOGICAL8),
        ("MPI_INTEGER8", INTEGER8),
        ("MPI_REAL8", REAL8),
        ("MPI_COMPLEX8", COMPLEX8),
        ("MPI_LOGICAL16", LOGICAL16),
        ("MPI_INTEGER16", INTEGER16),
        ("MPI_REAL16", REAL16),
        ("MPI_COMPLEX16", COMPLEX16),
        ("MPI_COMPLEX32", COMPLEX32),
    ];
}
