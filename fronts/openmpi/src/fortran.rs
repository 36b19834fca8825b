//! Fortran in Open MPI's ABI: what its `libmpi_mpifh.so.40` exports, for `mpif.h` and `use mpi`, and
//! for `use mpi_f08`, whose own library calls `ompi_xxx_f`.
//!
//! [`functions`] is generated from the table, a thin layer over the C functions; the rest is what it
//! is made of. [`handles`] are integers that programs were compiled with, [`sentinels`] addresses that
//! stand for MPI_BOTTOM and the like, [`status`] and [`strings`] what the names say; [`special`] has
//! the functions that the generator has no rules for, [`attributes`] and [`predefined`] callbacks in
//! Fortran's convention, [`refused`] what Open MPI has beside MPI.
//!
//! # Safety
//! As for the C functions: arguments are what the MPI standard prescribes, here by reference. Integers
//! are aligned as Fortran aligns them; statuses need not be aligned as in C and are copied.
#![allow(unsafe_code)]

// A function that allocates, or asks the core for more than an object, holds a wrapper's guard around
// the C function's own: see `upper_half::wrapper`.

/// Defines other names of a function, each one jump.
macro_rules! spellings {
    ($function:ident: $($spelling:ident),*) => {$(
        #[doc = concat!("`", stringify!($function), "` under another name.")]
        #[no_mangle]
        #[unsafe(naked)]
        pub unsafe extern "C" fn $spelling() {
            core::arch::naked_asm!("jmp {}", sym $function)
        }
    )*};
}

mod attributes;
mod functions;
pub mod handles;
mod predefined;
mod refused;
mod sentinels;
mod special;
mod status;
mod strings;

use sentinels::{buffer, weights};
use status::{Status, Statuses};
use strings::{Name, Text};

/// Gives the error code back; callers of `mpi_f08` functions may leave it out.
#[inline(always)]
unsafe fn finish(ierror: *mut i32, code: i32) {
    if !ierror.is_null() {
        // SAFETY: see the module's head.
        unsafe { ierror.write(code) };
    }
}
