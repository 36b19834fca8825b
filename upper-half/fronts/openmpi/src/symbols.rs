//! The data symbols of Open MPI's libmpi that stand for handles, with the sizes that they have there.
//!
//! ld.so may make a copy of a symbol in the memory of a non-PIE program. The address of that copy is then the handle in
//! all libraries. The first word of each symbol is the address of its object.
//!
//! # Safety
//! This library's constructor writes the symbols once, before any function of MPI can be called. After that they are
//! only read. Their addresses always come from the global offset table or a relocated table, because the linker must
//! not bind them to this library.
#![allow(unsafe_code)]
#![allow(non_upper_case_globals)]

use contract::abi::{comm, datatype, errhandler, file, group, info, message, op, request, win};
use contract::HandleKind;
use core::cell::UnsafeCell;
use stasis_front_common::data_symbols;
use upper_half::object::errhandler::ERRORS_THROW_EXCEPTIONS;

/// Memory of a handle's data symbol, in words.
#[repr(C, align(32))]
pub struct Symbol<const WORDS: usize>(UnsafeCell<[usize; WORDS]>);

impl<const WORDS: usize> Symbol<WORDS> {
    const fn new() -> Self {
        Symbol(UnsafeCell::new([0; WORDS]))
    }
}

// SAFETY: only the library's constructor writes the words, before any other thread reads them.
unsafe impl<const WORDS: usize> Sync for Symbol<WORDS> {}

/// A data symbol, and the object that it stands for.
pub struct Handle {
    /// Kind of the object.
    pub kind: HandleKind,
    /// Index of the object, which is its handle in the standard ABI.
    pub index: u32,
    /// Address of the symbol's first word.
    pub symbol: *mut usize,
}

// SAFETY: the pointer leads to a static, and only the library's constructor writes through it.
unsafe impl Sync for Handle {}

macro_rules! handles {
    ($($kind:ident, $bytes:literal: { $($symbol:ident = $index:expr,)* })*) => {
        $($(
            #[doc = concat!("Open MPI's `", stringify!($symbol), "`.")]
            #[no_mangle]
            pub static $symbol: Symbol<{ $bytes / 8 }> = Symbol::new();
        )*)*

        /// All handles. Where several symbols stand for one object, MPI functions return the first.
        pub static HANDLES: &[Handle] = &[$($(
            Handle {
                kind: HandleKind::$kind,
                index: $index as u32,
                symbol: (&raw const $symbol).cast_mut().cast(),
            },
        )*)*];
    };
}

handles! {
    Comm, 512: {
        ompi_mpi_comm_null = comm::COMM_NULL,
        ompi_mpi_comm_world = comm::COMM_WORLD,
        ompi_mpi_comm_self = comm::COMM_SELF,
    }
    Group, 256: {
        ompi_mpi_group_null = group::GROUP_NULL,
        ompi_mpi_group_empty = group::GROUP_EMPTY,
    }
    Win, 512: {
        ompi_mpi_win_null = win::WIN_NULL,
    }
    File, 1536: {
        ompi_mpi_file_null = file::FILE_NULL,
    }
    Message, 256: {
        ompi_message_null = message::MESSAGE_NULL,
        ompi_message_no_proc = message::MESSAGE_NO_PROC,
    }
    Info, 256: {
        ompi_mpi_info_null = info::INFO_NULL,
        ompi_mpi_info_env = info::INFO_ENV,
    }
    Request, 256: {
        ompi_request_null = request::REQUEST_NULL,
    }
    Errhandler, 1024: {
        ompi_mpi_errhandler_null = errhandler::ERRHANDLER_NULL,
        ompi_mpi_errors_are_fatal = errhandler::ERRORS_ARE_FATAL,
        ompi_mpi_errors_return = errhandler::ERRORS_RETURN,
        ompi_mpi_errors_throw_exceptions = ERRORS_THROW_EXCEPTIONS,
    }
    Op, 2048: {
        ompi_mpi_op_null = op::OP_NULL,
        ompi_mpi_op_sum = op::SUM,
        ompi_mpi_op_min = op::MIN,
        ompi_mpi_op_max = op::MAX,
        ompi_mpi_op_prod = op::PROD,
        ompi_mpi_op_band = op::BAND,
        ompi_mpi_op_bor = op::BOR,
        ompi_mpi_op_bxor = op::BXOR,
        ompi_mpi_op_land = op::LAND,
        ompi_mpi_op_lor = op::LOR,
        ompi_mpi_op_lxor = op::LXOR,
        ompi_mpi_op_minloc = op::MINLOC,
        ompi_mpi_op_maxloc = op::MAXLOC,
        ompi_mpi_op_replace = op::REPLACE,
        ompi_mpi_op_no_op = op::NO_OP,
    }
    Datatype, 512: {
        ompi_mpi_datatype_null = datatype::DATATYPE_NULL,
        ompi_mpi_aint = datatype::AINT,
        ompi_mpi_count = datatype::COUNT,
        ompi_mpi_offset = datatype::OFFSET,
        ompi_mpi_packed = datatype::PACKED,
        ompi_mpi_short = datatype::SHORT,
        ompi_mpi_int = datatype::INT,
        ompi_mpi_long = datatype::LONG,
        ompi_mpi_long_long_int = datatype::LONG_LONG,
        ompi_mpi_unsigned_short = datatype::UNSIGNED_SHORT,
        ompi_mpi_unsigned = datatype::UNSIGNED,
        ompi_mpi_unsigned_long = datatype::UNSIGNED_LONG,
        ompi_mpi_unsigned_long_long = datatype::UNSIGNED_LONG_LONG,
        ompi_mpi_float = datatype::FLOAT,
        ompi_mpi_c_float_complex = datatype::C_FLOAT_COMPLEX,
        ompi_mpi_c_complex = datatype::C_FLOAT_COMPLEX,
        ompi_mpi_cxx_cplex = datatype::CXX_FLOAT_COMPLEX,
        ompi_mpi_double = datatype::DOUBLE,
        ompi_mpi_c_double_complex = datatype::C_DOUBLE_COMPLEX,
        ompi_mpi_cxx_dblcplex = datatype::CXX_DOUBLE_COMPLEX,
        ompi_mpi_logical = datatype::LOGICAL,
        ompi_mpi_integer = datatype::INTEGER,
        ompi_mpi_real = datatype::REAL,
        ompi_mpi_cplex = datatype::COMPLEX,
        ompi_mpi_dblprec = datatype::DOUBLE_PRECISION,
        ompi_mpi_dblcplex = datatype::DOUBLE_COMPLEX,
        ompi_mpi_character = datatype::CHARACTER,
        ompi_mpi_long_double = datatype::LONG_DOUBLE,
        ompi_mpi_c_long_double_complex = datatype::C_LONG_DOUBLE_COMPLEX,
        ompi_mpi_ldblcplex = datatype::C_LONG_DOUBLE_COMPLEX,
        ompi_mpi_cxx_ldblcplex = datatype::CXX_LONG_DOUBLE_COMPLEX,
        ompi_mpi_float_int = datatype::FLOAT_INT,
        ompi_mpi_double_int = datatype::DOUBLE_INT,
        ompi_mpi_long_int = datatype::LONG_INT,
        ompi_mpi_2int = datatype::TWOINT,
        ompi_mpi_short_int = datatype::SHORT_INT,
        ompi_mpi_longdbl_int = datatype::LONG_DOUBLE_INT,
        ompi_mpi_2real = datatype::TWOREAL,
        ompi_mpi_2dblprec = datatype::TWODOUBLE_PRECISION,
        ompi_mpi_2integer = datatype::TWOINTEGER,
        ompi_mpi_c_bool = datatype::C_BOOL,
        ompi_mpi_cxx_bool = datatype::CXX_BOOL,
        ompi_mpi_wchar = datatype::WCHAR,
        ompi_mpi_int8_t = datatype::INT8_T,
        ompi_mpi_uint8_t = datatype::UINT8_T,
        ompi_mpi_char = datatype::CHAR,
        ompi_mpi_signed_char = datatype::SIGNED_CHAR,
        ompi_mpi_unsigned_char = datatype::UNSIGNED_CHAR,
        ompi_mpi_byte = datatype::BYTE,
        ompi_mpi_int16_t = datatype::INT16_T,
        ompi_mpi_uint16_t = datatype::UINT16_T,
        ompi_mpi_int32_t = datatype::INT32_T,
        ompi_mpi_uint32_t = datatype::UINT32_T,
        ompi_mpi_int64_t = datatype::INT64_T,
        ompi_mpi_uint64_t = datatype::UINT64_T,
        ompi_mpi_logical1 = datatype::LOGICAL1,
        ompi_mpi_integer1 = datatype::INTEGER1,
        ompi_mpi_logical2 = datatype::LOGICAL2,
        ompi_mpi_integer2 = datatype::INTEGER2,
        ompi_mpi_real2 = datatype::REAL2,
        ompi_mpi_logical4 = datatype::LOGICAL4,
        ompi_mpi_integer4 = datatype::INTEGER4,
        ompi_mpi_real4 = datatype::REAL4,
        ompi_mpi_complex8 = datatype::COMPLEX8,
        ompi_mpi_logical8 = datatype::LOGICAL8,
        ompi_mpi_integer8 = datatype::INTEGER8,
        ompi_mpi_real8 = datatype::REAL8,
        ompi_mpi_complex16 = datatype::COMPLEX16,
        ompi_mpi_integer16 = datatype::INTEGER16,
        ompi_mpi_real16 = datatype::REAL16,
        ompi_mpi_complex32 = datatype::COMPLEX32,
        // Datatypes that MPI has removed or never had: their use is an error of class MPI_ERR_TYPE.
        ompi_mpi_lb = datatype::DATATYPE_NULL,
        ompi_mpi_ub = datatype::DATATYPE_NULL,
        ompi_mpi_2cplex = datatype::DATATYPE_NULL,
        ompi_mpi_2dblcplex = datatype::DATATYPE_NULL,
        ompi_mpi_unavailable = datatype::DATATYPE_NULL,
    }
}

// Addresses that stand for MPI_BOTTOM, MPI_IN_PLACE and the like in Fortran programs, and two tables to which Open
// MPI's C++ bindings refer. The tables are empty: there is no data representation and no internal error code.
data_symbols! {
    "Open MPI":
    mpi_fortran_argv_null_: u8 = 0;
    mpi_fortran_argvs_null_: u8 = 0;
    mpi_fortran_bottom_: u32 = 0;
    mpi_fortran_errcodes_ignore_: u32 = 0;
    mpi_fortran_in_place_: u32 = 0;
    mpi_fortran_status_ignore_: u64 = 0;
    mpi_fortran_statuses_ignore_: u64 = 0;
    mpi_fortran_unweighted_: u32 = 0;
    mpi_fortran_weights_empty_: u32 = 0;
    ompi_registered_datareps: [u64; 8] = [0; 8];
    ompi_errcodes_intern: [u64; 15] = [0; 15];
    ompi_errcode_intern_lastused: u32 = 0;
}

/// A data symbol that holds the address of another one.
#[repr(transparent)]
pub struct Address(*const ());

// SAFETY: ld.so writes the address when it relocates the library; after that it is constant.
unsafe impl Sync for Address {}

/// Open MPI's `MPI_F_STATUS_IGNORE`: a Fortran status that is ignored, for C programs.
#[no_mangle]
pub static MPI_F_STATUS_IGNORE: Address = Address((&raw const mpi_fortran_status_ignore_).cast());
/// Open MPI's `MPI_F_STATUSES_IGNORE`: an array of Fortran statuses that is ignored, for C programs.
#[no_mangle]
pub static MPI_F_STATUSES_IGNORE: Address =
    Address((&raw const mpi_fortran_statuses_ignore_).cast());
