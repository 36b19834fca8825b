//! Lower words that this part uses for itself, looked up anew each time: a restart changes them.
//!
//! # Safety
//! [`as_bytes`] makes datatypes in the lower half and frees them once they are in use; MPI keeps a
//! datatype until the communication that uses it ends.
#![allow(unsafe_code)]

use crate::lower;
use crate::object::Datatype;
use contract::abi::{self, SUCCESS};

pub(super) use crate::environment::{internal_self, internal_world};

/// Bytes in one block of a message that is too long for an int count.
const BLOCK: usize = 1 << 30;

/// The word of MPI_BYTE.
pub(super) fn byte() -> usize {
    // SAFETY: used by the callers in the crossing that it is for.
    unsafe { Datatype::at(abi::datatype::BYTE as u32).lower() }
}

/// Calls `f` with a count and a datatype word that together mean `length` bytes in a row.
///
/// # Safety
/// Crosses; `f` must do nothing with the word but start communication.
pub(super) unsafe fn as_bytes(length: usize, f: impl FnOnce(i32, usize) -> i32) -> i32 {
    if let Ok(count) = i32::try_from(length) {
        return f(count, byte());
    }
    let (mut block, mut whole) = (0, 0);
    // SAFETY: all pointers are to the variables above and arrays of two entries.
    unsafe {
        let error = lower::MPI_Type_contiguous(BLOCK as i32, byte(), &raw mut block);
        if error != SUCCESS {
            return error;
        }
        let blocks = length / BLOCK;
        let lengths = [blocks as i32, (length % BLOCK) as i32];
        let places = [0, (blocks * BLOCK) as isize];
        let types = [block, byte()];
        let mut error = lower::MPI_Type_create_struct(
            2,
            lengths.as_ptr(),
            places.as_ptr(),
            types.as_ptr(),
            &raw mut whole,
        );
        lower::MPI_Type_free(&raw mut block);
        if error != SUCCESS {
            return error;
        }
        error = lower::MPI_Type_commit(&raw mut whole);
        if error == SUCCESS {
            error = f(1, whole);
        }
        lower::MPI_Type_free(&raw mut whole);
        error
    }
}
