//! Sizes and extents of datatypes, as the lower half knows them. Each is asked for once.
//!
//! MPI has each of these functions in several forms, whose results have types of different sizes.

use crate::argument::Out;
use crate::crossing::mpi_result::{check, code_of};
use crate::object::datatype::Extents;
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

/// Bounds of one element. The lower half is asked once for each datatype.
#[inline]
pub(crate) fn extents(datatype: &'static Datatype) -> Result<Extents, i32> {
    match datatype.body.extents.get() {
        Some(extents) => Ok(*extents),
        None => learn_extents(datatype),
    }
}

#[cold]
fn learn_extents(datatype: &'static Datatype) -> Result<Extents, i32> {
    let (mut lower_bound, mut extent, mut true_lower_bound, mut true_extent) = (0, 0, 0, 0);
    check(named::MPI_Type_get_true_extent(
        datatype,
        &mut true_lower_bound,
        &mut true_extent,
    ))?;
    check(named::MPI_Type_get_extent(
        datatype,
        &mut lower_bound,
        &mut extent,
    ))?;
    let extents = Extents {
        lower_bound,
        extent,
        true_lower_bound,
        true_extent,
    };
    Ok(*datatype.body.extents.get_or_init(|| extents))
}

/// Whether elements of a datatype are data without gaps, one behind the other.
#[inline]
pub(crate) fn is_contiguous(datatype: &'static Datatype) -> bool {
    extents(datatype).is_ok_and(|of| {
        let dense = [0, datatype.body.size() as isize];
        of.bounds() == dense && of.true_bounds() == dense
    })
}

/// Begin of `count` elements of a datatype, relative to their address, and the bytes that they span.
#[inline]
pub(crate) fn span(count: i64, datatype: &'static Datatype) -> Result<(isize, usize), i32> {
    if count == 0 {
        return Ok((0, 0));
    }
    let of = extents(datatype)?;
    let last = (count as isize - 1).saturating_mul(of.extent);
    let below = of.true_lower_bound.saturating_add(last.min(0));
    let bytes = of.true_extent.saturating_add(last.saturating_abs());
    let bytes = usize::try_from(bytes).map_err(|_| ERR_NO_MEM)?;
    Ok((below, bytes))
}

/// MPI_Type_size
pub fn type_size(datatype: &'static Datatype, size: Out<'_, i32>) -> i32 {
    give_size(datatype, size, |bytes| {
        i32::try_from(bytes).unwrap_or(UNDEFINED)
    })
}

/// MPI_Type_size_x and MPI_Type_size_c
pub fn type_size_x(datatype: &'static Datatype, size: Out<'_, i64>) -> i32 {
    give_size(datatype, size, |bytes| bytes)
}

pub use type_size_x as type_size_c;

#[inline]
fn give_size<T>(
    datatype: &'static Datatype,
    mut size: Out<'_, T>,
    value: impl FnOnce(i64) -> T,
) -> i32 {
    if datatype.is_null() {
        return ERR_TYPE;
    }
    size.set(value(datatype.body.size()));
    SUCCESS
}

/// MPI_Type_get_extent
pub fn type_get_extent(
    datatype: &'static Datatype,
    lower_bound: Out<'_, isize>,
    extent: Out<'_, isize>,
) -> i32 {
    give(datatype, Extents::bounds, [lower_bound, extent], |b| b)
}

/// MPI_Type_get_true_extent
pub fn type_get_true_extent(
    datatype: &'static Datatype,
    lower_bound: Out<'_, isize>,
    extent: Out<'_, isize>,
) -> i32 {
    give(datatype, Extents::true_bounds, [lower_bound, extent], |b| b)
}

/// MPI_Type_get_extent_x and MPI_Type_get_extent_c
pub fn type_get_extent_x(
    datatype: &'static Datatype,
    lower_bound: Out<'_, i64>,
    extent: Out<'_, i64>,
) -> i32 {
    give(datatype, Extents::bounds, [lower_bound, extent], |b| {
        b as i64
    })
}

pub use type_get_extent_x as type_get_extent_c;

/// MPI_Type_get_true_extent_x and MPI_Type_get_true_extent_c
pub fn type_get_true_extent_x(
    datatype: &'static Datatype,
    lower_bound: Out<'_, i64>,
    extent: Out<'_, i64>,
) -> i32 {
    give(datatype, Extents::true_bounds, [lower_bound, extent], |b| {
        b as i64
    })
}

pub use type_get_true_extent_x as type_get_true_extent_c;

/// Gives two bounds of a datatype.
#[inline]
fn give<T>(
    datatype: &'static Datatype,
    bounds: fn(Extents) -> [isize; 2],
    places: [Out<'_, T>; 2],
    value: fn(isize) -> T,
) -> i32 {
    if datatype.is_null() {
        return ERR_TYPE;
    }
    code_of(extents(datatype).map(|of| {
        for (mut place, bound) in places.into_iter().zip(bounds(of)) {
            place.set(value(bound));
        }
    }))
}
