//! Error codes of MPI as results, and back.

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
