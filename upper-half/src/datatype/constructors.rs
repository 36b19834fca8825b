//! Constructors of datatypes. Each records its call.
#![allow(clippy::too_many_arguments)] // MPI's own signatures

use crate::argument::Input;
use crate::attribute::callbacks;
use crate::datatype::make::{create_datatype, listed, make_datatype, of_one};
use crate::object::datatype::Contents;
use crate::object::Datatype;
use contract::abi::*;
use core::sync::atomic::Ordering;

/// The deprecated forms.
pub use self::{
    type_create_hindexed as type_hindexed, type_create_hvector as type_hvector,
    type_create_struct as type_struct,
};

/// MPI_Type_contiguous.
pub fn type_contiguous(count: i32, old: &'static Datatype, new: &mut &'static Datatype) -> i32 {
    create_datatype(of_one(COMBINER_CONTIGUOUS, vec![count], vec![], old), new)
}

/// MPI_Type_vector.
pub fn type_vector(
    count: i32,
    blocklength: i32,
    stride: i32,
    old: &'static Datatype,
    new: &mut &'static Datatype,
) -> i32 {
    let integers = vec![count, blocklength, stride];
    create_datatype(of_one(COMBINER_VECTOR, integers, vec![], old), new)
}

/// MPI_Type_create_hvector.
pub fn type_create_hvector(
    count: i32,
    blocklength: i32,
    stride: isize,
    old: &'static Datatype,
    new: &mut &'static Datatype,
) -> i32 {
    let integers = vec![count, blocklength];
    create_datatype(of_one(COMBINER_HVECTOR, integers, vec![stride], old), new)
}

/// MPI_Type_indexed.
pub fn type_indexed(
    count: i32,
    blocklengths: Input<'_, i32>,
    displacements: Input<'_, i32>,
    old: &'static Datatype,
    new: &mut &'static Datatype,
) -> i32 {
    let integers = listed(&[count], &[blocklengths, displacements], &[]);
    create_datatype(of_one(COMBINER_INDEXED, integers, vec![], old), new)
}

/// MPI_Type_create_hindexed.
pub fn type_create_hindexed(
    count: i32,
    blocklengths: Input<'_, i32>,
    displacements: Input<'_, isize>,
    old: &'static Datatype,
    new: &mut &'static Datatype,
) -> i32 {
    let integers = listed(&[count], &[blocklengths], &[]);
    let addresses = displacements.to_vec();
    create_datatype(of_one(COMBINER_HINDEXED, integers, addresses, old), new)
}

/// MPI_Type_create_indexed_block.
pub fn type_create_indexed_block(
    count: i32,
    blocklength: i32,
    displacements: Input<'_, i32>,
    old: &'static Datatype,
    new: &mut &'static Datatype,
) -> i32 {
    let integers = listed(&[count, blocklength], &[displacements], &[]);
    create_datatype(of_one(COMBINER_INDEXED_BLOCK, integers, vec![], old), new)
}

/// MPI_Type_create_hindexed_block.
pub fn type_create_hindexed_block(
    count: i32,
    blocklength: i32,
    displacements: Input<'_, isize>,
    old: &'static Datatype,
    new: &mut &'static Datatype,
) -> i32 {
    let (integers, addresses) = (vec![count, blocklength], displacements.to_vec());
    create_datatype(
        of_one(COMBINER_HINDEXED_BLOCK, integers, addresses, old),
        new,
    )
}

/// MPI_Type_create_struct.
pub fn type_create_struct(
    count: i32,
    blocklengths: Input<'_, i32>,
    displacements: Input<'_, isize>,
    types: &[&'static Datatype],
    new: &mut &'static Datatype,
) -> i32 {
    let contents = Contents {
        combiner: COMBINER_STRUCT,
        integers: listed(&[count], &[blocklengths], &[]),
        addresses: displacements.to_vec(),
        counts: vec![],
        datatypes: types.to_vec(),
    };
    create_datatype(contents, new)
}

/// MPI_Type_create_subarray.
pub fn type_create_subarray(
    ndims: i32,
    sizes: Input<'_, i32>,
    subsizes: Input<'_, i32>,
    starts: Input<'_, i32>,
    order: i32,
    old: &'static Datatype,
    new: &mut &'static Datatype,
) -> i32 {
    let integers = listed(&[ndims], &[sizes, subsizes, starts], &[order]);
    create_datatype(of_one(COMBINER_SUBARRAY, integers, vec![], old), new)
}

/// MPI_Type_create_darray.
pub fn type_create_darray(
    size: i32,
    rank: i32,
    ndims: i32,
    gsizes: Input<'_, i32>,
    distribs: &[i32],
    dargs: &[i32],
    psizes: Input<'_, i32>,
    order: i32,
    old: &'static Datatype,
    new: &mut &'static Datatype,
) -> i32 {
    let arrays = [gsizes, distribs.into(), dargs.into(), psizes];
    let integers = listed(&[size, rank, ndims], &arrays, &[order]);
    create_datatype(of_one(COMBINER_DARRAY, integers, vec![], old), new)
}

/// MPI_Type_create_resized.
pub fn type_create_resized(
    old: &'static Datatype,
    lb: isize,
    extent: isize,
    new: &mut &'static Datatype,
) -> i32 {
    create_datatype(of_one(COMBINER_RESIZED, vec![], vec![lb, extent], old), new)
}

/// MPI_Type_dup.
pub fn type_dup(old: &'static Datatype, new: &mut &'static Datatype) -> i32 {
    let made = match make_datatype(of_one(COMBINER_DUP, vec![], vec![], old)) {
        Ok(made) => made,
        Err(code) => return code,
    };
    let committed = old.body.committed.load(Ordering::Relaxed);
    made.body.committed.store(committed, Ordering::Relaxed);
    let code = callbacks::copy(&old.body.attributes, &made.body.attributes, old.handle());
    if code != SUCCESS {
        made.release();
        return code;
    }
    *new = made;
    SUCCESS
}
