//! MPI_Alloc_mem and MPI_Free_mem.
//!
//! # Safety
//! The application frees what it was given.
#![allow(unsafe_code)]

use crate::argument::Out;
use crate::object::Info;
use crate::runtime::sized_memory::{allocate, free};
use contract::abi::*;
use core::ffi::c_void;

/// MPI_Alloc_mem.
pub fn alloc_mem(size: isize, _info: &'static Info, mut baseptr: Out<'_, usize>) -> i32 {
    let bytes = usize::try_from(size).map_err(|_| ERR_ARG);
    baseptr.give(bytes.and_then(|bytes| allocate(bytes).ok_or(ERR_NO_MEM)))
}

/// MPI_Free_mem.
///
/// # Safety
/// The memory is from [`alloc_mem`] and is not used any more, or `base` is null.
pub unsafe fn free_mem(base: *const c_void) -> i32 {
    if base.is_null() {
        return SUCCESS;
    }
    // SAFETY: the caller's promise.
    match unsafe { free(base) } {
        Some(()) => SUCCESS,
        None => ERR_BASE,
    }
}
