//! Datatypes that the protocol uses itself.
//!
//! # Safety
//! [`as_bytes`] makes datatypes in the lower half and frees them once they are in use; MPI keeps a datatype until the
//! communication that uses it ends. The thread parks neither there nor where communication is started.
#![allow(unsafe_code)]

use crate::crossing::stubs;
use crate::object::lower_handle::{named, Held, Unparked};
use crate::object::{Datatype, DatatypeBody};
use contract::abi;
use contract::abi::SUCCESS;

/// Bytes in one block of a message that is too long for an int count.
const BLOCK: usize = 1 << 30;

/// MPI_BYTE.
pub(crate) fn byte() -> &'static Datatype {
    Datatype::at(abi::datatype::BYTE as u32)
}

/// Calls `f` with a count and a datatype that together mean `length` bytes in a row. `f` starts communication with
/// them.
pub(crate) fn as_bytes(length: usize, f: impl FnOnce(i32, Held<'_, DatatypeBody>) -> i32) -> i32 {
    // SAFETY: see the module's head.
    let unparked = unsafe { Unparked::new() };
    let byte = unparked.held(byte());
    if let Ok(count) = i32::try_from(length) {
        return f(count, byte);
    }
    let (mut block, mut whole) = (unparked.fresh(), unparked.fresh());
    let error = named::MPI_Type_contiguous(BLOCK as i32, byte, &mut block);
    if error != SUCCESS {
        return error;
    }
    let blocks = length / BLOCK;
    let lengths = [blocks as i32, (length % BLOCK) as i32];
    let places = [0, (blocks * BLOCK) as isize];
    let types = [block.held(), byte];
    let (lengths, places, types) = (lengths.as_ptr(), places.as_ptr(), types.as_ptr().cast());
    // SAFETY: arrays of two entries. A held lower handle has the layout of a lower handle.
    let mut error =
        unsafe { stubs::MPI_Type_create_struct(2, lengths, places, types, whole.place()) };
    named::MPI_Type_free(&mut block);
    if error != SUCCESS {
        return error;
    }
    error = named::MPI_Type_commit(&mut whole);
    if error == SUCCESS {
        error = f(1, whole.held());
    }
    named::MPI_Type_free(&mut whole);
    error
}
