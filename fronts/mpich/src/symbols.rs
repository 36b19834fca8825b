//! The data symbols of MPICH's libmpich that C programs refer to, with the sizes that they have
//! there, and its predefined attribute function.
//!
//! # Safety
//! What is written here is written before any function of MPI is called. Programs may hold copies of the constants, so what
//! they point to is compared, never where they are.
#![allow(unsafe_code)]
#![allow(non_upper_case_globals, non_snake_case)]

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};

/// Memory of a data symbol.
#[repr(transparent)]
pub struct Place<T>(UnsafeCell<T>);

// SAFETY: see the module's head.
unsafe impl<T> Sync for Place<T> {}

/// Memory of so many ints.
type Ints<const COUNT: usize> = Place<[c_int; COUNT]>;

/// A data symbol that holds an address. In writable memory: MPICH's Fortran layer puts its own
/// addresses into MPI_F_STATUS_IGNORE and MPI_F_STATUSES_IGNORE.
#[repr(transparent)]
pub struct Address(UnsafeCell<*const c_int>);

// SAFETY: see the module's head.
unsafe impl Sync for Address {}

static UNWEIGHTED: Ints<1> = Place(UnsafeCell::new([0]));
static WEIGHTS_EMPTY: Ints<1> = Place(UnsafeCell::new([0]));
static ALL_HANDLES: Ints<1> = Place(UnsafeCell::new([0]));
static F_STATUS_IGNORE: Ints<5> = Place(UnsafeCell::new([0; 5]));
static F_STATUSES_IGNORE: Ints<5> = Place(UnsafeCell::new([0; 5]));

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

macro_rules! addresses {
    ($($symbol:ident = $of:ident;)*) => {$(
        #[doc = concat!("MPICH's `", stringify!($symbol), "`.")]
        #[no_mangle]
        pub static $symbol: Address = Address(UnsafeCell::new((&raw const $of).cast()));
    )*};
}

addresses! {
    MPI_UNWEIGHTED = UNWEIGHTED;
    MPI_WEIGHTS_EMPTY = WEIGHTS_EMPTY;
    MPI_T_PVAR_ALL_HANDLES = ALL_HANDLES;
    MPI_F_STATUS_IGNORE = F_STATUS_IGNORE;
    MPI_F_STATUSES_IGNORE = F_STATUSES_IGNORE;
    MPI_F08_STATUS_IGNORE = MPIR_F08_MPI_STATUS_IGNORE_OBJ;
    MPI_F08_STATUSES_IGNORE = MPIR_F08_MPI_STATUSES_IGNORE_OBJ;
}

macro_rules! places {
    ($($symbol:ident: $of:ty = $zero:expr;)*) => {$(
        #[doc = concat!("MPICH's `", stringify!($symbol), "`.")]
        #[no_mangle]
        pub static $symbol: Place<$of> = Place(UnsafeCell::new($zero));
    )*};
}

places! {
    MPIR_F08_MPI_BOTTOM: c_int = 0;
    MPIR_F08_MPI_IN_PLACE: c_int = 0;
    MPIR_F08_MPI_STATUS_IGNORE_OBJ: [c_int; 5] = [0; 5];
    MPIR_F08_MPI_STATUSES_IGNORE_OBJ: [c_int; 5] = [0; 5];
    MPIR_C_MPI_UNWEIGHTED: usize = 0;
    MPIR_C_MPI_WEIGHTS_EMPTY: usize = 0;
}

/// Tells MPICH's library for `mpi_f08` what C's MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY are.
///
/// # Safety
/// To be called once, before any function of MPI.
pub unsafe fn tell_fortran() {
    // SAFETY: ld.so has made each name one variable, of a word, and nobody else uses it yet.
    unsafe {
        MPIR_C_MPI_UNWEIGHTED.0.get().write(unweighted() as usize);
        MPIR_C_MPI_WEIGHTS_EMPTY
            .0
            .get()
            .write(weights_empty() as usize);
    }
}

/// MPI_COMM_DUP_FN, MPI_TYPE_DUP_FN and MPI_WIN_DUP_FN: copies the attribute's value as it is.
#[no_mangle]
unsafe extern "C" fn MPIR_Dup_fn(
    _object: c_int,
    _keyval: c_int,
    _extra: *mut c_void,
    value: *mut c_void,
    copy: *mut *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the core calls it as any attribute function: with pointers to an attribute value and
    // to a flag.
    unsafe {
        copy.write(value);
        flag.write(1);
    }
    0
}
