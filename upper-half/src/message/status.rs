//! What can be read from a status, and written into one.
//!
//! # Safety
//! Statuses and places for results are the caller's.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // the same for all: see above

use crate::lower;
use crate::object::Datatype;
use contract::abi::{Status, ERR_TYPE, SUCCESS, UNDEFINED};

/// Entries of `size` bytes that `bytes` bytes make, `None` if they do not come out even.
fn entries(bytes: u64, size: u64) -> Option<u64> {
    match bytes.checked_rem(size) {
        None => (bytes == 0).then_some(0),
        Some(0) => Some(bytes / size),
        Some(_) => None,
    }
}

/// MPI_Get_count
pub unsafe fn get_count(
    status: *const Status,
    datatype: &'static Datatype,
    count: *mut i32,
) -> i32 {
    let Ok(size) = u64::try_from(datatype.body.size()) else {
        return ERR_TYPE;
    };
    // SAFETY: the caller's status and place for a count.
    unsafe {
        *count = entries((*status).count, size)
            .and_then(|entries| i32::try_from(entries).ok())
            .unwrap_or(UNDEFINED);
    }
    SUCCESS
}

/// MPI_Get_count_c
pub unsafe fn get_count_c(
    status: *const Status,
    datatype: &'static Datatype,
    count: *mut i64,
) -> i32 {
    let Ok(size) = u64::try_from(datatype.body.size()) else {
        return ERR_TYPE;
    };
    // SAFETY: the caller's status and place for a count.
    unsafe {
        *count = entries((*status).count, size)
            .and_then(|entries| i64::try_from(entries).ok())
            .unwrap_or(UNDEFINED.into());
    }
    SUCCESS
}

/// MPI_Get_elements
pub unsafe fn get_elements(
    status: *const Status,
    datatype: &'static Datatype,
    count: *mut i32,
) -> i32 {
    // SAFETY: as promised by the caller.
    unsafe { lower::MPI_Get_elements(status, datatype.lower(), count) }
}

/// MPI_Get_elements_x
pub unsafe fn get_elements_x(
    status: *const Status,
    datatype: &'static Datatype,
    count: *mut i64,
) -> i32 {
    // SAFETY: as promised by the caller.
    unsafe { lower::MPI_Get_elements_x(status, datatype.lower(), count) }
}

/// MPI_Status_set_elements
pub unsafe fn status_set_elements(
    status: *mut Status,
    datatype: &'static Datatype,
    count: i32,
) -> i32 {
    // SAFETY: as promised by the caller.
    unsafe { lower::MPI_Status_set_elements(status, datatype.lower(), count) }
}

/// MPI_Status_set_elements_x
pub unsafe fn status_set_elements_x(
    status: *mut Status,
    datatype: &'static Datatype,
    count: i64,
) -> i32 {
    // SAFETY: as promised by the caller.
    unsafe { lower::MPI_Status_set_elements_x(status, datatype.lower(), count) }
}

/// MPI_Status_set_cancelled
pub unsafe fn status_set_cancelled(status: *mut Status, flag: i32) -> i32 {
    // SAFETY: the caller's status.
    unsafe { (*status).cancelled = i32::from(flag != 0) };
    SUCCESS
}

/// MPI_Test_cancelled
pub unsafe fn test_cancelled(status: *const Status, flag: *mut i32) -> i32 {
    // SAFETY: the caller's places.
    unsafe { *flag = i32::from((*status).cancelled != 0) };
    SUCCESS
}

#[cfg(test)]
mod tests {
    use super::entries;

    #[test]
    fn counts_whole_entries() {
        assert_eq!(entries(24, 8), Some(3));
        assert_eq!(entries(25, 8), None);
        assert_eq!(entries(0, 8), Some(0));
        assert_eq!(entries(0, 0), Some(0));
        assert_eq!(entries(4, 0), None);
    }
}
