//! Arguments that are recognised by where they lie: programs hold variables of these names, which
//! their ld.so makes one with those of [`symbols`](crate::symbols).
//!
//! # Safety
//! Addresses are compared; nothing is read.
#![allow(unsafe_code)]

use core::ffi::c_void;

use crate::symbols;

/// Whether `address` is where a symbol of `symbols` lies.
macro_rules! is {
    ($address:expr, $symbol:ident) => {
        $address.cast_const() == (&raw const symbols::$symbol).cast()
    };
}

/// A data buffer in C: MPI_BOTTOM and MPI_IN_PLACE are constants there.
#[inline(always)]
pub fn buffer(buffer: *mut c_void) -> *mut c_void {
    if is!(buffer, mpi_fortran_bottom_) {
        core::ptr::without_provenance_mut(contract::abi::BOTTOM)
    } else if is!(buffer, mpi_fortran_in_place_) {
        core::ptr::without_provenance_mut(contract::abi::IN_PLACE)
    } else {
        buffer
    }
}

/// Weights of edges in C: MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY are constants there.
#[inline(always)]
pub fn weights(weights: *mut c_void) -> *mut c_void {
    if is!(weights, mpi_fortran_unweighted_) {
        core::ptr::without_provenance_mut(crate::abi::UNWEIGHTED)
    } else if is!(weights, mpi_fortran_weights_empty_) {
        core::ptr::without_provenance_mut(crate::abi::WEIGHTS_EMPTY)
    } else {
        weights
    }
}

/// Whether it is MPI_STATUS_IGNORE or MPI_STATUSES_IGNORE.
#[inline(always)]
pub fn ignored(status: *mut c_void) -> bool {
    is!(status, mpi_fortran_status_ignore_) || is!(status, mpi_fortran_statuses_ignore_)
}
