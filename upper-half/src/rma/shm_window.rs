//! Memory of MPI_Win_allocate_shared: one file in /dev/shm that every member maps as a whole, and that is unlinked once
//! all have mapped it. Segments lie one behind the other, in the order of ranks, as MPI requires. A checkpoint treats
//! it as any memory that ranks share.

use crate::comm::numbers::{gather, greatest, tell};
use crate::crossing::mpi_result::check;
use crate::object::lower_handle::named;
use crate::object::win::segments::Segments;
use crate::object::Comm;
use crate::runtime::syscall;
use contract::abi::*;
use std::ffi::CString;

const PAGE: usize = 4096;

impl Segments {
    /// Makes the memory. With `apart`, who has asked for parts that need not lie together is told that those of
    /// no bytes are nowhere, as by MPI libraries. All members call this inside a counted collective operation.
    pub(crate) fn make(
        comm: &'static Comm,
        bytes: isize,
        unit: i32,
        apart: bool,
    ) -> Result<Segments, i32> {
        let sizes = gather(comm, [bytes as i64, i64::from(unit)])?;
        let total: usize = sizes.iter().map(|[bytes, _]| *bytes as usize).sum();
        let total = total.max(1).next_multiple_of(PAGE);
        // The first member's process id makes the name one that no other job has.
        let mut creator = [syscall::process_id() as u32];
        tell(comm, 0, &mut creator)?;
        let name = name(creator[0], comm.body.id);
        let mut mapping = None;
        if comm.body.rank == 0 {
            mapping = syscall::map_shared(&name, total, true);
        }
        check(named::MPI_Barrier(comm))?;
        if comm.body.rank != 0 {
            mapping = syscall::map_shared(&name, total, false);
        }
        let lacking = greatest(comm, [i64::from(mapping.is_none())]);
        if comm.body.rank == 0 {
            syscall::unlink(&name);
        }
        match (mapping, lacking?) {
            (Some(mapping), [0]) => Ok(Segments::lay_out(mapping, &sizes, apart)),
            _ => Err(ERR_RMA_SHARED),
        }
    }
}

fn name(creator: u32, id: u64) -> CString {
    let name = format!("/dev/shm/stasis-{creator}-{id:016x}");
    CString::new(name).unwrap_or_default()
}
