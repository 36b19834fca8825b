//! Cartesian topologies.
//!
//! # Safety
//! Crossings get a place for the lower handle of what they make. The table does not know the length of an array with
//! one entry for each dimension, so such an array comes as a pointer.
#![allow(unsafe_code)]

use crate::argument::{pass, App, Input, Out, Output};
use crate::comm::construct::construct;
use crate::comm::topology::{answer, identity_map};
use crate::object::comm::topology::{Cart, Topology};
use crate::object::lower_handle::named;
use crate::object::Comm;
use contract::abi::*;

pub(crate) fn cart(comm: &'static Comm) -> Result<&'static Cart, i32> {
    match &comm.body.topology {
        Some(Topology::Cart(cart)) => Ok(cart),
        _ if comm.body.size == 0 => Err(ERR_COMM),
        _ => Err(ERR_TOPOLOGY),
    }
}

/// MPI_Cart_create.
pub fn cart_create(
    comm: &'static Comm,
    ndims: i32,
    dims: Input<'_, i32>,
    periods: Input<'_, i32>,
    reorder: i32,
    new: &mut &'static Comm,
) -> i32 {
    if comm.body.inter {
        return ERR_COMM;
    }
    let shape = Cart {
        dims: dims.to_vec(),
        periods: periods.to_vec(),
    };
    Out::from(new).give(construct(
        comm,
        "cart",
        false,
        // The libraries say the same of a null pointer as this function of an array that is too short.
        |made| named::MPI_Cart_create(comm, ndims, dims, periods, reorder, made),
        |_| Ok(Some(Topology::Cart(shape))),
    ))
}

/// MPI_Cart_sub.
///
/// # Safety
/// As MPI prescribes: there is one flag for each dimension at `remain_dims`.
pub unsafe fn cart_sub(
    comm: &'static Comm,
    remain_dims: *const i32,
    new: &mut &'static Comm,
) -> i32 {
    let grid = match cart(comm) {
        Ok(grid) => grid,
        Err(code) => return code,
    };
    // SAFETY: the caller's promise.
    let remain: Input<'_, i32> = unsafe { pass(App((remain_dims, grid.dims.len()))) };
    let kept = |all: &[i32]| {
        all.iter()
            .zip(remain.iter())
            .filter(|&(_, remain)| remain != 0)
            .map(|(&value, _)| value)
            .collect()
    };
    let shape = Cart {
        dims: kept(&grid.dims),
        periods: kept(&grid.periods),
    };
    Out::from(new).give(construct(
        comm,
        "cart_sub",
        false,
        // SAFETY: the caller's promise.
        |made| unsafe { named::MPI_Cart_sub(comm, remain_dims, made.place()) },
        |_| Ok(Some(Topology::Cart(shape))),
    ))
}

/// MPI_Cartdim_get.
pub fn cartdim_get(comm: &'static Comm, mut ndims: Out<'_, i32>) -> i32 {
    ndims.give(cart(comm).map(|grid| grid.dims.len() as i32))
}

/// MPI_Cart_get.
pub fn cart_get(
    comm: &'static Comm,
    _maxdims: i32,
    mut dims: Output<'_, i32>,
    mut periods: Output<'_, i32>,
    mut coords: Output<'_, i32>,
) -> i32 {
    answer(|| {
        let grid = cart(comm)?;
        dims.fill(grid.dims.iter().copied());
        periods.fill(grid.periods.iter().copied());
        coords.fill(grid.coords(comm.body.rank));
        Ok(())
    })
}

/// MPI_Cart_rank.
///
/// # Safety
/// As MPI prescribes: there is one coordinate for each dimension at `coords`.
pub unsafe fn cart_rank(comm: &'static Comm, coords: *const i32, mut rank: Out<'_, i32>) -> i32 {
    answer(|| {
        let grid = cart(comm)?;
        // SAFETY: the caller's promise.
        let coords: Input<'_, i32> = unsafe { pass(App((coords, grid.dims.len()))) };
        rank.set(grid.rank(coords.iter())?);
        Ok(())
    })
}

/// MPI_Cart_coords.
pub fn cart_coords(
    comm: &'static Comm,
    rank: i32,
    _maxdims: i32,
    mut coords: Output<'_, i32>,
) -> i32 {
    answer(|| {
        let grid = cart(comm)?;
        if !(0..comm.body.size).contains(&rank) {
            return Err(ERR_RANK);
        }
        coords.fill(grid.coords(rank));
        Ok(())
    })
}

/// MPI_Cart_shift.
pub fn cart_shift(
    comm: &'static Comm,
    direction: i32,
    disp: i32,
    mut rank_source: Out<'_, i32>,
    mut rank_dest: Out<'_, i32>,
) -> i32 {
    answer(|| {
        let grid = cart(comm)?;
        let direction = usize::try_from(direction)
            .ok()
            .filter(|&direction| direction < grid.dims.len())
            .ok_or(ERR_DIMS)?;
        rank_source.set(grid.neighbour(comm.body.rank, direction, -disp));
        rank_dest.set(grid.neighbour(comm.body.rank, direction, disp));
        Ok(())
    })
}

/// MPI_Cart_map: ranks stay as they are.
pub fn cart_map(
    comm: &'static Comm,
    _ndims: i32,
    dims: Input<'_, i32>,
    _periods: Input<'_, i32>,
    newrank: Out<'_, i32>,
) -> i32 {
    identity_map(comm, dims.iter().product(), newrank)
}
