//! Constructors of datatypes with large counts. Each records its call, from which `make` and `compose` make what lies
//! below.
#![allow(clippy::too_many_arguments)] // MPI's own signatures

use crate::argument::Input;
use crate::datatype::make::{self, create_datatype, listed};
use crate::object::datatype::Contents;
use crate::object::Datatype;
use contract::abi::*;

/// The recorded form of a constructor with one old datatype and no integers but large counts.
fn of_one(combiner: i32, counts: Vec<i64>, old: &'static Datatype) -> Contents {
    Contents {
        counts,
        ..make::of_one(combiner, vec![], vec![], old)
    }
}

/// `count` elements one after the other.
pub(crate) fn contiguous(count: i64, old: &'static Datatype) -> Contents {
    of_one(COMBINER_CONTIGUOUS, vec![count], old)
}

/// MPI_Type_contiguous_c.
pub fn type_contiguous_c(count: i64, old: &'static Datatype, new: &mut &'static Datatype) -> i32 {
    create_datatype(contiguous(count, old), new)
}

/// MPI_Type_vector_c.
pub fn type_vector_c(
    count: i64,
    blocklength: i64,
    stride: i64,
    old: &'static Datatype,
    new: &mut &'static Datatype,
) -> i32 {
    let counts = vec![count, blocklength, stride];
    create_datatype(of_one(COMBINER_VECTOR, counts, old), new)
}

/// MPI_Type_create_hvector_c.
pub fn type_create_hvector_c(
    count: i64,
    blocklength: i64,
    stride: i64,
    old: &'static Datatype,
    new: &mut &'static Datatype,
) -> i32 {
    let counts = vec![count, blocklength, stride];
    create_datatype(of_one(COMBINER_HVECTOR, counts, old), new)
}

/// MPI_Type_indexed_c.
pub fn type_indexed_c(
    count: i64,
    blocklengths: Input<'_, i64>,
    displacements: Input<'_, i64>,
    old: &'static Datatype,
    new: &mut &'static Datatype,
) -> i32 {
    let counts = listed(&[count], &[blocklengths, displacements], &[]);
    create_datatype(of_one(COMBINER_INDEXED, counts, old), new)
}

/// MPI_Type_create_hindexed_c.
pub fn type_create_hindexed_c(
    count: i64,
    blocklengths: Input<'_, i64>,
    displacements: Input<'_, i64>,
    old: &'static Datatype,
    new: &mut &'static Datatype,
) -> i32 {
    let counts = listed(&[count], &[blocklengths, displacements], &[]);
    create_datatype(of_one(COMBINER_HINDEXED, counts, old), new)
}

/// MPI_Type_create_indexed_block_c.
pub fn type_create_indexed_block_c(
    count: i64,
    blocklength: i64,
    displacements: Input<'_, i64>,
    old: &'static Datatype,
    new: &mut &'static Datatype,
) -> i32 {
    let counts = listed(&[count, blocklength], &[displacements], &[]);
    create_datatype(of_one(COMBINER_INDEXED_BLOCK, counts, old), new)
}

/// MPI_Type_create_hindexed_block_c.
pub fn type_create_hindexed_block_c(
    count: i64,
    blocklength: i64,
    displacements: Input<'_, i64>,
    old: &'static Datatype,
    new: &mut &'static Datatype,
) -> i32 {
    let counts = listed(&[count, blocklength], &[displacements], &[]);
    create_datatype(of_one(COMBINER_HINDEXED_BLOCK, counts, old), new)
}

/// MPI_Type_create_struct_c.
pub fn type_create_struct_c(
    count: i64,
    blocklengths: Input<'_, i64>,
    displacements: Input<'_, i64>,
    types: &[&'static Datatype],
    new: &mut &'static Datatype,
) -> i32 {
    let contents = Contents {
        combiner: COMBINER_STRUCT,
        integers: vec![],
        addresses: vec![],
        counts: listed(&[count], &[blocklengths, displacements], &[]),
        datatypes: types.to_vec(),
    };
    create_datatype(contents, new)
}

/// MPI_Type_create_subarray_c.
pub fn type_create_subarray_c(
    ndims: i32,
    sizes: Input<'_, i64>,
    subsizes: Input<'_, i64>,
    starts: Input<'_, i64>,
    order: i32,
    old: &'static Datatype,
    new: &mut &'static Datatype,
) -> i32 {
    let contents = Contents {
        counts: listed(&[], &[sizes, subsizes, starts], &[]),
        ..make::of_one(COMBINER_SUBARRAY, vec![ndims, order], vec![], old)
    };
    create_datatype(contents, new)
}

/// MPI_Type_create_darray_c.
pub fn type_create_darray_c(
    size: i32,
    rank: i32,
    ndims: i32,
    gsizes: Input<'_, i64>,
    distribs: &[i32],
    dargs: &[i32],
    psizes: Input<'_, i32>,
    order: i32,
    old: &'static Datatype,
    new: &mut &'static Datatype,
) -> i32 {
    let arrays = [distribs.into(), dargs.into(), psizes];
    let integers = listed(&[size, rank, ndims], &arrays, &[order]);
    let contents = Contents {
        counts: gsizes.to_vec(),
        ..make::of_one(COMBINER_DARRAY, integers, vec![], old)
    };
    create_datatype(contents, new)
}

/// MPI_Type_create_resized_c.
pub fn type_create_resized_c(
    old: &'static Datatype,
    lb: i64,
    extent: i64,
    new: &mut &'static Datatype,
) -> i32 {
    create_datatype(of_one(COMBINER_RESIZED, vec![lb, extent], old), new)
}
