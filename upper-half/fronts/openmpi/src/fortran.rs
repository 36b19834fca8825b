//! Fortran in Open MPI's ABI: the exports of its `libmpi_mpifh.so.40`. They serve `mpif.h` and `use mpi`, and `use
//! mpi_f08`, whose own library calls `ompi_xxx_f`.
//!
//! [`functions`] is generated from the table: a thin layer over the C functions. [`handles`] are the integers that
//! programs were compiled with. [`sentinels`] are the addresses that stand for MPI_BOTTOM and the like. [`status`] and
//! [`strings`] convert arguments. [`special`] has the functions for which the generator has no rules. [`attributes`]
//! and [`predefined`] have callbacks in Fortran's convention, and [`refused`] the extensions of Open MPI.
//!
//! # Safety
//! The application passes the arguments that the MPI standard prescribes, by reference. Integers are aligned for their
//! Fortran type. A status may be aligned as an integer only, so it is copied.
#![allow(unsafe_code)]

// A function that allocates, or that calls more than one function of the core, holds a wrapper's guard around the guard
// of the C function: see `upper_half::crossing::call_guard`.

/// Defines other names of a function. Each is one jump to it.
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

/// Returns the error code by `ierror`, which callers of `mpi_f08` functions may omit.
#[inline(always)]
unsafe fn finish(ierror: *mut i32, code: i32) {
    if !ierror.is_null() {
        // SAFETY: `ierror` is not null, so it is the application's integer for the error code.
        unsafe { ierror.write(code) };
    }
}
