//! Arguments that are recognised by their address. A program has variables of these names, and its ld.so resolves them
//! and those of [`symbols`](crate::symbols) to the same address.
#![allow(unsafe_code)]

use core::ffi::c_void;

use crate::symbols;

/// Whether `address` is that of a symbol in `symbols`.
macro_rules! is {
    ($address:expr, $symbol:ident) => {
        $address.cast_const() == (&raw const symbols::$symbol).cast()
    };
}

/// A data buffer for C, where MPI_BOTTOM and MPI_IN_PLACE are constants.
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

/// Weights of edges for C, where MPI_UNWEIGHTED and MPI_WEIGHTS_EMPTY are constants.
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

/// Whether `status` is MPI_STATUS_IGNORE or MPI_STATUSES_IGNORE.
#[inline(always)]
pub fn ignored(status: *mut c_void) -> bool {
    is!(status, mpi_fortran_status_ignore_) || is!(status, mpi_fortran_statuses_ignore_)
}
