//! Sizes and extents of datatypes, as the lower half knows them.

use crate::crossing::mpi_result::check;
use crate::object::lower_handle::named;
use crate::object::Datatype;
use contract::abi::*;
use core::sync::atomic::Ordering;

/// Asks the lower half for the size of a datatype, which must have its lower handle, and keeps it.
pub(crate) fn learn_size(datatype: &'static Datatype) {
    let mut size = 0;
    if named::MPI_Type_size_x(datatype, &mut size) == SUCCESS {
        datatype.body.size.store(size, Ordering::Relaxed);
    }
}

/// Begin of `count` elements of a datatype, relative to their address, and the bytes that they span.
pub(crate) fn span(count: i32, datatype: &'static Datatype) -> Result<(isize, usize), i32> {
    if count == 0 {
        return Ok((0, 0));
    }
    let (mut lower_bound, mut extent, mut true_lower, mut true_extent) = (0, 0, 0, 0);
    check(named::MPI_Type_get_true_extent(
        datatype,
        &mut true_lower,
        &mut true_extent,
    ))?;
    check(named::MPI_Type_get_extent(
        datatype,
        &mut lower_bound,
        &mut extent,
    ))?;
    let last = (count as isize - 1).saturating_mul(extent);
    let below = true_lower.saturating_add(last.min(0));
    let bytes = true_extent.saturating_add(last.saturating_abs());
    let bytes = usize::try_from(bytes).map_err(|_| ERR_NO_MEM)?;
    Ok((below, bytes))
}
