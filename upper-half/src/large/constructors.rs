//! Constructors of datatypes with large counts. Each records its call, from which `datatype` and
//! `compose` make what lies below.
//!
//! # Safety
//! Arrays and out parameters are the application's, as MPI prescribes them.

use crate::datatype::{create, Contents};
use crate::object::Datatype;
use crate::slices::input;
use contract::abi::*;

/// The recorded form of a constructor with one old datatype and no integers but large counts.
fn of_one(combiner: i32, counts: Vec<i64>, old: &'static Datatype) -> Contents {
    Contents {
        combiner,
        integers: vec![],
        addresses: vec![],
        counts,
        datatypes: vec![old],
    }
}

/// A count, and two arrays of as many entries.
///
/// # Safety
/// The arrays have that many entries, or there are none.
unsafe fn listed(count: i64, first: *const i64, second: *const i64) -> Vec<i64> {
    // SAFETY: this function's contract.
    unsafe { [&[count], input(first, count), input(second, count)].concat() }
}

/// Makes a datatype of blocks of one length, whose displacements are bytes or elements.
///
/// # Safety
/// As for MPI_Type_create_indexed_block_c.
unsafe fn create_of_equal_blocks(
    combiner: i32,
    count: i64,
    blocklength: i64,
    displacements: *const i64,
    old: &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    // SAFETY: MPI's contract: count entries.
    unsafe {
        let counts = [&[count, blocklength], input(displacements, count)].concat();
        create(of_one(combiner, counts, old), new)
    }
}

/// `count` elements one after the other.
pub(super) fn contiguous(count: i64, old: &'static Datatype) -> Contents {
    of_one(COMBINER_CONTIGUOUS, vec![count], old)
}

/// MPI_Type_contiguous_c.
pub unsafe fn type_contiguous_c(
    count: i64,
    old: &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    // SAFETY: passed on.
    unsafe { create(contiguous(count, old), new) }
}

/// MPI_Type_vector_c.
pub unsafe fn type_vector_c(
    count: i64,
    blocklength: i64,
    stride: i64,
    old: &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    let counts = vec![count, blocklength, stride];
    // SAFETY: passed on.
    unsafe { create(of_one(COMBINER_VECTOR, counts, old), new) }
}

/// MPI_Type_create_hvector_c.
pub unsafe fn type_create_hvector_c(
    count: i64,
    blocklength: i64,
    stride: i64,
    old: &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    let counts = vec![count, blocklength, stride];
    // SAFETY: passed on.
    unsafe { create(of_one(COMBINER_HVECTOR, counts, old), new) }
}

/// MPI_Type_indexed_c.
pub unsafe fn type_indexed_c(
    count: i64,
    blocklengths: *const i64,
    displacements: *const i64,
    old: &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    // SAFETY: MPI's contract: count entries each.
    unsafe {
        let counts = listed(count, blocklengths, displacements);
        create(of_one(COMBINER_INDEXED, counts, old), new)
    }
}

/// MPI_Type_create_hindexed_c.
pub unsafe fn type_create_hindexed_c(
    count: i64,
    blocklengths: *const i64,
    displacements: *const i64,
    old: &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    // SAFETY: MPI's contract: count entries each.
    unsafe {
        let counts = listed(count, blocklengths, displacements);
        create(of_one(COMBINER_HINDEXED, counts, old), new)
    }
}

/// MPI_Type_create_indexed_block_c.
pub unsafe fn type_create_indexed_block_c(
    count: i64,
    blocklength: i64,
    displacements: *const i64,
    old: &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    let combiner = COMBINER_INDEXED_BLOCK;
    // SAFETY: passed on.
    unsafe { create_of_equal_blocks(combiner, count, blocklength, displacements, old, new) }
}

/// MPI_Type_create_hindexed_block_c.
pub unsafe fn type_create_hindexed_block_c(
    count: i64,
    blocklength: i64,
    displacements: *const i64,
    old: &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    let combiner = COMBINER_HINDEXED_BLOCK;
    // SAFETY: passed on.
    unsafe { create_of_equal_blocks(combiner, count, blocklength, displacements, old, new) }
}

/// MPI_Type_create_struct_c.
pub unsafe fn type_create_struct_c(
    count: i64,
    blocklengths: *const i64,
    displacements: *const i64,
    types: *const &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    // SAFETY: MPI's contract: count entries each.
    unsafe {
        let contents = Contents {
            combiner: COMBINER_STRUCT,
            integers: vec![],
            addresses: vec![],
            counts: listed(count, blocklengths, displacements),
            datatypes: input(types, count).to_vec(),
        };
        create(contents, new)
    }
}

/// MPI_Type_create_subarray_c.
pub unsafe fn type_create_subarray_c(
    ndims: i32,
    sizes: *const i64,
    subsizes: *const i64,
    starts: *const i64,
    order: i32,
    old: &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    // SAFETY: MPI's contract: ndims entries each.
    unsafe {
        let contents = Contents {
            combiner: COMBINER_SUBARRAY,
            integers: vec![ndims, order],
            addresses: vec![],
            counts: [
                input(sizes, ndims),
                input(subsizes, ndims),
                input(starts, ndims),
            ]
            .concat(),
            datatypes: vec![old],
        };
        create(contents, new)
    }
}

/// MPI_Type_create_darray_c.
pub unsafe fn type_create_darray_c(
    size: i32,
    rank: i32,
    ndims: i32,
    gsizes: *const i64,
    distribs: *const i32,
    dargs: *const i32,
    psizes: *const i32,
    order: i32,
    old: &'static Datatype,
    new: *mut &'static Datatype,
) -> i32 {
    // SAFETY: MPI's contract: ndims entries each.
    unsafe {
        let contents = Contents {
            combiner: COMBINER_DARRAY,
            integers: [
                &[size, rank, ndims],
                input(distribs, ndims),
                input(dargs, ndims),
                input(psizes, ndims),
                &[order],
            ]
            .concat(),
            addresses: vec![],
            counts: input(gsizes, ndims).to_vec(),
            datatypes: vec![old],
        };
        create(contents, new)
    }
}

/// MPI_Type_create_resized_c.
pub unsafe fn type_create_resized_c(
    old: &'static Datatype,
    lb: i64,
    extent: i64,
    new: *mut &'static Datatype,
) -> i32 {
    // SAFETY: passed on.
    unsafe { create(of_one(COMBINER_RESIZED, vec![lb, extent], old), new) }
}
