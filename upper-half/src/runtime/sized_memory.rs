//! Memory that knows its size, for the application. It is memory of the upper half, so that it is saved.
//!
//! # Safety
//! A head before the memory holds its size.
#![allow(unsafe_code)]

use core::ffi::c_void;
use std::alloc::Layout;

/// Bytes before the memory, which hold its size; also its alignment.
const HEAD: usize = 64;

fn layout(bytes: usize) -> Option<Layout> {
    Layout::from_size_align(bytes.checked_add(HEAD)?, HEAD).ok()
}

/// The address of new memory, for [`free`].
pub(crate) fn allocate(bytes: usize) -> Option<usize> {
    let layout = layout(bytes)?;
    // SAFETY: the layout is not empty, and the head is inside and aligned.
    unsafe {
        let start = std::alloc::alloc(layout);
        if start.is_null() {
            return None;
        }
        start.cast::<usize>().write(bytes);
        Some(start.add(HEAD) as usize)
    }
}

/// Frees memory, unless its head holds no size.
///
/// # Safety
/// The memory is from [`allocate`] and is not used any more.
pub(crate) unsafe fn free(base: *const c_void) -> Option<()> {
    // SAFETY: the caller's promise: the head with the size is before the memory.
    unsafe {
        let start = base.cast_mut().cast::<u8>().sub(HEAD);
        let layout = layout(start.cast::<usize>().read())?;
        std::alloc::dealloc(start, layout);
    }
    Some(())
}
