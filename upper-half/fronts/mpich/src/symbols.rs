//! The data symbols of MPICH's libmpich that C programs refer to, with the sizes that they have there, and its
//! predefined attribute function.
//!
//! # Safety
//! The constructor writes the symbols before any function of MPI can be called. A program may hold a copy of a constant
//! in its own memory, so the front compares the value of a constant and never the address of its symbol.
#![allow(unsafe_code)]
#![allow(non_upper_case_globals, non_snake_case)]

use core::ffi::{c_int, c_void};
use stasis_front_common::{data_symbols, DataSymbol};

/// Memory of `COUNT` ints, whose address is the value of a constant.
type Ints<const COUNT: usize> = DataSymbol<[c_int; COUNT]>;

static UNWEIGHTED: Ints<1> = DataSymbol::new([0]);
static WEIGHTS_EMPTY: Ints<1> = DataSymbol::new([0]);
static ALL_HANDLES: Ints<1> = DataSymbol::new([0]);
static F_STATUS_IGNORE: Ints<5> = DataSymbol::new([0; 5]);
static F_STATUSES_IGNORE: Ints<5> = DataSymbol::new([0; 5]);

/// The value of MPI_T_PVAR_ALL_HANDLES.
pub fn all_handles() -> usize {
    (&raw const ALL_HANDLES) as usize
}

/// The value of MPI_UNWEIGHTED.
#[inline(always)]
pub fn unweighted() -> *const c_int {
    (&raw const UNWEIGHTED).cast()
}

/// The value of MPI_WEIGHTS_EMPTY.
#[inline(always)]
pub fn weights_empty() -> *const c_int {
    (&raw const WEIGHTS_EMPTY).cast()
}

// The symbols that hold addresses are in writable memory: MPICH's Fortran layer writes its own addresses to
// MPI_F_STATUS_IGNORE and MPI_F_STATUSES_IGNORE.
data_symbols! {
    "MPICH":
    MPI_UNWEIGHTED: *const c_int = (&raw const UNWEIGHTED).cast();
    MPI_WEIGHTS_EMPTY: *const c_int = (&raw const WEIGHTS_EMPTY).cast();
    MPI_T_PVAR_ALL_HANDLES: *const c_int = (&raw const ALL_HANDLES).cast();
    MPI_F_STATUS_IGNORE: *const c_int = (&raw const F_STATUS_IGNORE).cast();
    MPI_F_STATUSES_IGNORE: *const c_int = (&raw const F_STATUSES_IGNORE).cast();
    MPI_F08_STATUS_IGNORE: *const c_int = (&raw const MPIR_F08_MPI_STATUS_IGNORE_OBJ).cast();
    MPI_F08_STATUSES_IGNORE: *const c_int = (&raw const MPIR_F08_MPI_STATUSES_IGNORE_OBJ).cast();
    MPIR_F08_MPI_BOTTOM: c_int = 0;
    MPIR_F08_MPI_IN_PLACE: c_int = 0;
    MPIR_F08_MPI_STATUS_IGNORE_OBJ: [c_int; 5] = [0; 5];
    MPIR_F08_MPI_STATUSES_IGNORE_OBJ: [c_int; 5] = [0; 5];
    MPIR_C_MPI_UNWEIGHTED: usize = 0;
    MPIR_C_MPI_WEIGHTS_EMPTY: usize = 0;
}

/// Writes the values of C's MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY to the variables in which MPICH's library for
/// `mpi_f08` reads them.
///
/// # Safety
/// Only the library's constructor may call it, so that no other thread uses these variables yet.
pub unsafe fn set_fortran_constants() {
    // SAFETY: ld.so has resolved each name to one variable of a word. The caller promises that
    // no other thread uses them.
    unsafe {
        MPIR_C_MPI_UNWEIGHTED.as_ptr().write(unweighted() as usize);
        MPIR_C_MPI_WEIGHTS_EMPTY
            .as_ptr()
            .write(weights_empty() as usize);
    }
}

/// MPI_COMM_DUP_FN, MPI_TYPE_DUP_FN and MPI_WIN_DUP_FN: copies the attribute's value unchanged.
#[no_mangle]
unsafe extern "C" fn MPIR_Dup_fn(
    _object: c_int,
    _keyval: c_int,
    _extra: *mut c_void,
    value: *mut c_void,
    copy: *mut *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the core calls this as any copy function: `copy` and `flag` point to an attribute value and a flag.
    unsafe {
        copy.write(value);
        flag.write(1);
    }
    0
}
