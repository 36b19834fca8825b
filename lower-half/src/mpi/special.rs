//! Adapters by hand, for functions that some libraries have as macros or not at all. Which these
//! are is said by `HAND_WRITTEN` in the table's generator.
//!
//! # Safety
//! As for the generated adapters (`adapter.rs`).
#![allow(unsafe_code, non_snake_case)]

use contract::abi;

use super::error;
use super::handle::handle;

pub unsafe extern "C" fn MPI_Aint_add(base: isize, disp: isize) -> isize {
    base.wrapping_add(disp)
}

pub unsafe extern "C" fn MPI_Aint_diff(addr1: isize, addr2: isize) -> isize {
    addr1.wrapping_sub(addr2)
}

/// Lower bound and extent of a datatype, or the error class.
unsafe fn extent(datatype: usize) -> Result<(isize, isize), i32> {
    let (mut lower_bound, mut extent) = (0, 0);
    // SAFETY: locals; the library checks the datatype.
    let code =
        unsafe { mpi_sys::MPI_Type_get_extent(handle(datatype), &mut lower_bound, &mut extent) };
    match error::result(code) {
        abi::SUCCESS => Ok((lower_bound as _, extent as _)),
        class => Err(class),
    }
}

/// Writes what `of` makes of lower bound and extent.
unsafe fn answer(datatype: usize, to: *mut isize, of: fn(isize, isize) -> isize) -> i32 {
    // SAFETY: `to` is the caller's, valid for a write.
    unsafe {
        match extent(datatype) {
            Ok((lower_bound, extent)) => {
                *to = of(lower_bound, extent);
                abi::SUCCESS
            }
            Err(class) => class,
        }
    }
}

pub unsafe extern "C" fn MPI_Type_extent(datatype: usize, to: *mut isize) -> i32 {
    // SAFETY: passed on.
    unsafe { answer(datatype, to, |_, extent| extent) }
}

pub unsafe extern "C" fn MPI_Type_lb(datatype: usize, to: *mut isize) -> i32 {
    // SAFETY: passed on.
    unsafe { answer(datatype, to, |lower_bound, _| lower_bound) }
}

pub unsafe extern "C" fn MPI_Type_ub(datatype: usize, to: *mut isize) -> i32 {
    // SAFETY: passed on.
    unsafe { answer(datatype, to, |lower_bound, extent| lower_bound + extent) }
}
