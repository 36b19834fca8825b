//! Queries of the call that made a datatype.
#![allow(clippy::too_many_arguments)] // MPI's own signatures

use crate::argument::{Out, Output};
use crate::object::Datatype;
use contract::abi::*;

/// MPI_Type_get_envelope. A datatype that was made with large counts has no answer here.
pub fn type_get_envelope(
    datatype: &'static Datatype,
    mut num_integers: Out<'_, i32>,
    mut num_addresses: Out<'_, i32>,
    mut num_datatypes: Out<'_, i32>,
    mut combiner: Out<'_, i32>,
) -> i32 {
    let contents = &datatype.body.contents;
    if datatype.is_null() || !contents.counts.is_empty() {
        return ERR_TYPE;
    }
    num_integers.set(contents.integers.len() as i32);
    num_addresses.set(contents.addresses.len() as i32);
    num_datatypes.set(contents.datatypes.len() as i32);
    combiner.set(contents.combiner);
    SUCCESS
}

/// MPI_Type_get_contents. The derived datatypes among the results are new handles.
pub fn type_get_contents(
    datatype: &'static Datatype,
    max_integers: i32,
    max_addresses: i32,
    max_datatypes: i32,
    integers: Output<'_, i32>,
    addresses: Output<'_, isize>,
    datatypes: &mut [&'static Datatype],
) -> i32 {
    if !datatype.body.contents.counts.is_empty() {
        return ERR_TYPE;
    }
    type_get_contents_c(
        datatype,
        max_integers.into(),
        max_addresses.into(),
        0,
        max_datatypes.into(),
        integers,
        addresses,
        (&mut [][..]).into(),
        datatypes,
    )
}

/// MPI_Type_get_envelope_c.
pub fn type_get_envelope_c(
    datatype: &'static Datatype,
    mut num_integers: Out<'_, i64>,
    mut num_addresses: Out<'_, i64>,
    mut num_large_counts: Out<'_, i64>,
    mut num_datatypes: Out<'_, i64>,
    mut combiner: Out<'_, i32>,
) -> i32 {
    if datatype.is_null() {
        return ERR_TYPE;
    }
    let contents = &datatype.body.contents;
    num_integers.set(contents.integers.len() as i64);
    num_addresses.set(contents.addresses.len() as i64);
    num_large_counts.set(contents.counts.len() as i64);
    num_datatypes.set(contents.datatypes.len() as i64);
    combiner.set(contents.combiner);
    SUCCESS
}

/// MPI_Type_get_contents_c. The derived datatypes among the results are new handles.
pub fn type_get_contents_c(
    datatype: &'static Datatype,
    max_integers: i64,
    max_addresses: i64,
    max_large_counts: i64,
    max_datatypes: i64,
    mut integers: Output<'_, i32>,
    mut addresses: Output<'_, isize>,
    mut counts: Output<'_, i64>,
    datatypes: &mut [&'static Datatype],
) -> i32 {
    let contents = &datatype.body.contents;
    if datatype.is_null() || contents.combiner == COMBINER_NAMED {
        return ERR_TYPE;
    }
    let fits = |max: i64, n: usize| usize::try_from(max).is_ok_and(|max| max >= n);
    if !fits(max_integers, contents.integers.len())
        || !fits(max_addresses, contents.addresses.len())
        || !fits(max_large_counts, contents.counts.len())
        || !fits(max_datatypes, contents.datatypes.len())
    {
        return ERR_ARG;
    }
    integers.fill(contents.integers.iter().copied());
    addresses.fill(contents.addresses.iter().copied());
    counts.fill(contents.counts.iter().copied());
    for (place, &child) in datatypes.iter_mut().zip(&contents.datatypes) {
        *place = child;
        if !child.body.permanent {
            child.retain();
        }
    }
    SUCCESS
}
