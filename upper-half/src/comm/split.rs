//! MPI_Comm_split and MPI_Comm_split_type.

use crate::argument::Out;
use crate::comm::construct::construct;
use crate::object::info::crossing_info;
use crate::object::lower_handle::named;
use crate::object::lower_handle::temporary::with;
use crate::object::{Comm, Info};
use contract::abi::*;

/// MPI_Comm_split.
pub fn comm_split(comm: &'static Comm, color: i32, key: i32, new: &mut &'static Comm) -> i32 {
    Out::from(new).give(construct(
        comm,
        "split",
        comm.body.inter,
        |made| named::MPI_Comm_split(comm, color, key, made),
        |_| Ok(None),
    ))
}

/// Whether hints for a guided split name the type that MPI has a value for.
fn names_shared_memory(info: &'static Info) -> bool {
    let named = info.body.value(c"mpi_hw_resource_type");
    named.is_some_and(|named| named.as_c_str() == c"mpi_shared_memory")
}

/// MPI_Comm_split_type. The members stay what they are now, also when a restart places them differently. Only the split
/// by shared memory has an effect: each library finds the other types of hardware in its own way, or not at all, so
/// they split nothing, as MPI allows.
pub fn comm_split_type(
    comm: &'static Comm,
    split_type: i32,
    key: i32,
    info: &'static Info,
    new: &mut &'static Comm,
) -> i32 {
    let split_type = match split_type {
        COMM_TYPE_HW_GUIDED if names_shared_memory(info) => COMM_TYPE_SHARED,
        COMM_TYPE_HW_GUIDED | COMM_TYPE_HW_UNGUIDED => UNDEFINED,
        other => other,
    };
    Out::from(new).give(construct(
        comm,
        "split",
        comm.body.inter,
        |made| {
            with(crossing_info(info), |info| {
                named::MPI_Comm_split_type(comm, split_type, key, info, made)
            })
        },
        |_| Ok(None),
    ))
}
