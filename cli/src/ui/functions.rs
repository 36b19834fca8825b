//! Names of the MPI functions in records.

use record::{Error, Log, Result};

/// The name of the function with this slot.
pub fn name(function: u32) -> String {
    let mut functions = mpi_table::functions().iter();
    let found = functions.find(|one| one.slot == function as usize);
    found.map_or_else(|| format!("function {function}"), |one| one.name.clone())
}

/// Checks that a record numbers functions as this Stasis does.
pub fn check(log: &Log) -> Result<()> {
    match log.header.table_hash == mpi_table::hash() {
        true => Ok(()),
        false => Err(Error::OtherTable(log.path.clone())),
    }
}
