//! Error codes of MPI as results, and back.
//!
//! # Safety
//! [`give`] writes to the application's out parameter, as its caller promises.
#![allow(unsafe_code)]

use contract::abi::SUCCESS;

/// A code as a result.
pub(crate) fn check(code: i32) -> Result<(), i32> {
    if code == SUCCESS {
        Ok(())
    } else {
        Err(code)
    }
}

/// A result as a code.
pub(crate) fn code_of(result: Result<(), i32>) -> i32 {
    result.err().unwrap_or(SUCCESS)
}

/// Ends a constructor: stores what was made, or gives the error.
///
/// # Safety
/// `out` must be valid for a write.
pub(crate) unsafe fn give<T>(made: Result<T, i32>, out: *mut T) -> i32 {
    code_of(made.map(|made| {
        // SAFETY: the caller's promise.
        unsafe { out.write(made) }
    }))
}
