//! Adapters written by hand, for functions that are macros in some libraries, or are missing or incomplete there.
//! `HAND_WRITTEN` in the table's generator lists them.
//!
//! # Safety
//! As for the generated adapters (`adapter.rs`).
#![allow(unsafe_code, non_snake_case)]

use core::ffi::c_void;

use contract::abi;

use super::convert::handle::handle;
use super::convert::{error, value_map};
use super::thread_turns;

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

/// Writes the value of `of` for the lower bound and the extent.
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

/// Elements at MPI_BOTTOM, whose datatype has absolute addresses, described as one element at another address. MPICH
/// 4.0 neither packs from MPI_BOTTOM nor unpacks to it.
struct FromBottom(mpi_sys::MPI_Datatype);

impl FromBottom {
    /// Address of the one element.
    const PLACE: *mut c_void = core::ptr::without_provenance_mut(1);

    /// The type of `count` elements.
    unsafe fn new(count: i32, datatype: usize) -> Result<FromBottom, i32> {
        let back = -1;
        let mut told = handle(datatype);
        // SAFETY: locals; the library checks the datatype.
        let code = unsafe {
            match mpi_sys::MPI_Type_create_hindexed(
                1,
                &raw const count,
                &raw const back,
                handle(datatype),
                &raw mut told,
            ) {
                code if error::result(code) == abi::SUCCESS => {
                    mpi_sys::MPI_Type_commit(&raw mut told)
                }
                code => code,
            }
        };
        match error::result(code) {
            abi::SUCCESS => Ok(FromBottom(told)),
            class => Err(class),
        }
    }
}

impl Drop for FromBottom {
    fn drop(&mut self) {
        // SAFETY: made by this.
        unsafe { mpi_sys::MPI_Type_free(&raw mut self.0) };
    }
}

pub unsafe extern "C" fn MPI_Pack(
    inbuf: *const c_void,
    incount: i32,
    datatype: usize,
    outbuf: *mut c_void,
    outsize: i32,
    position: *mut i32,
    comm: usize,
) -> i32 {
    let _turn = thread_turns::turn();
    let pack = |from, count, datatype| {
        // SAFETY: passed on, or the same elements.
        let code = unsafe {
            let to = value_map::buffer(outbuf);
            mpi_sys::MPI_Pack(from, count, datatype, to, outsize, position, handle(comm))
        };
        error::result(code)
    };
    if !inbuf.is_null() || incount == 0 {
        return pack(
            value_map::buffer(inbuf.cast_mut()),
            incount,
            handle(datatype),
        );
    }
    // SAFETY: passed on.
    match unsafe { FromBottom::new(incount, datatype) } {
        Ok(told) => pack(FromBottom::PLACE, 1, told.0),
        Err(class) => class,
    }
}

pub unsafe extern "C" fn MPI_Unpack(
    inbuf: *const c_void,
    insize: i32,
    position: *mut i32,
    outbuf: *mut c_void,
    outcount: i32,
    datatype: usize,
    comm: usize,
) -> i32 {
    let _turn = thread_turns::turn();
    let unpack = |to, count, datatype| {
        // SAFETY: passed on, or the same elements.
        let code = unsafe {
            let from = value_map::buffer(inbuf.cast_mut());
            mpi_sys::MPI_Unpack(from, insize, position, to, count, datatype, handle(comm))
        };
        error::result(code)
    };
    if !outbuf.is_null() || outcount == 0 {
        return unpack(value_map::buffer(outbuf), outcount, handle(datatype));
    }
    // SAFETY: passed on.
    match unsafe { FromBottom::new(outcount, datatype) } {
        Ok(told) => unpack(FromBottom::PLACE, 1, told.0),
        Err(class) => class,
    }
}
