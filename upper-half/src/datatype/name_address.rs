//! Names of datatypes, and addresses in memory.

use crate::argument::{Out, Output};
use crate::object::Datatype;
use contract::abi::*;
use core::ffi::{c_char, c_void, CStr};

/// MPI_Address, the deprecated form.
pub use self::get_address as address;

/// MPI_Get_address.
pub fn get_address(location: *const c_void, mut address: Out<'_, isize>) -> i32 {
    address.set(location as isize);
    SUCCESS
}

/// MPI_Type_set_name.
pub fn type_set_name(datatype: &'static Datatype, name: &CStr) -> i32 {
    if datatype.is_null() {
        return ERR_TYPE;
    }
    *datatype.body.name.lock() = name.to_owned();
    SUCCESS
}

/// MPI_Type_get_name.
pub fn type_get_name(
    datatype: &'static Datatype,
    mut name: Output<'_, c_char>,
    mut length: Out<'_, i32>,
) -> i32 {
    length.set(name.text(datatype.body.name.lock().as_bytes()));
    SUCCESS
}
