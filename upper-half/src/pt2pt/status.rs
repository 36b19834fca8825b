//! Functions that read and write statuses.

use crate::argument::Out;
use crate::crossing::mpi_result::check;
use crate::object::lower_handle::named;
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

/// Writes the number of whole entries of a datatype that a message has.
fn count_entries<T: TryFrom<u64> + From<i32>>(
    status: &Status,
    datatype: &'static Datatype,
    mut count: Out<'_, T>,
) -> i32 {
    let Ok(size) = u64::try_from(datatype.body.size()) else {
        return ERR_TYPE;
    };
    let entries = entries(status.count, size).and_then(|entries| T::try_from(entries).ok());
    count.set(entries.unwrap_or(UNDEFINED.into()));
    SUCCESS
}

/// MPI_Get_count
pub fn get_count(status: &Status, datatype: &'static Datatype, count: Out<'_, i32>) -> i32 {
    count_entries(status, datatype, count)
}

/// MPI_Get_count_c
pub fn get_count_c(status: &Status, datatype: &'static Datatype, count: Out<'_, i64>) -> i32 {
    count_entries(status, datatype, count)
}

/// MPI_Get_elements
pub fn get_elements(status: &Status, datatype: &'static Datatype, mut count: Out<'_, i32>) -> i32 {
    let mut found = 0;
    let error = named::MPI_Get_elements(status, datatype, &mut found);
    count.give(check(error).map(|()| found))
}

/// MPI_Get_elements_x
pub fn get_elements_x(
    status: &Status,
    datatype: &'static Datatype,
    mut count: Out<'_, i64>,
) -> i32 {
    let mut found = 0;
    let error = named::MPI_Get_elements_x(status, datatype, &mut found);
    count.give(check(error).map(|()| found))
}

/// MPI_Status_set_elements
pub fn status_set_elements(status: &mut Status, datatype: &'static Datatype, count: i32) -> i32 {
    named::MPI_Status_set_elements(status, datatype, count)
}

/// MPI_Status_set_elements_x
pub fn status_set_elements_x(status: &mut Status, datatype: &'static Datatype, count: i64) -> i32 {
    named::MPI_Status_set_elements_x(status, datatype, count)
}

/// MPI_Status_set_cancelled
pub fn status_set_cancelled(status: &mut Status, flag: i32) -> i32 {
    status.cancelled = i32::from(flag != 0);
    SUCCESS
}

/// MPI_Test_cancelled
pub fn test_cancelled(status: &Status, mut flag: Out<'_, i32>) -> i32 {
    flag.set(i32::from(status.cancelled != 0));
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
