//! MPI_Type_get_contents: some of the integers that it returns are constants of the ABI.
//!
//! # Safety
//! The core has just written the integers, and their number is the one of the datatype's envelope.
#![allow(unsafe_code)]

use contract::abi;
use upper_half::object::Datatype;

/// Translates the constants among a datatype's integers: the order of subarrays and darrays, and the distributions
/// with their arguments. The sizes of arrays are not among the integers of a datatype that was made with large counts.
///
/// # Safety
/// `integers` must hold what MPI_Type_get_contents, or its large-count form, wrote for `datatype`.
pub unsafe fn contents_out(
    datatype: &'static Datatype,
    integers: *mut i32,
    order_out: fn(i32) -> i32,
    distribution_out: fn(i32) -> i32,
    distribution_arg_out: fn(i32) -> i32,
) {
    let (mut count, mut addresses, mut large, mut types, mut combiner) = (0, 0, 0, 0, 0);
    upper_half::type_get_envelope_c(
        datatype,
        (&mut count).into(),
        (&mut addresses).into(),
        (&mut large).into(),
        (&mut types).into(),
        (&mut combiner).into(),
    );
    // SAFETY: the caller promises that `integers` holds the contents of `datatype`, so the entries that MPI 4.0,
    // §5.1.13 gives for its combiner are there.
    unsafe {
        let arrays = |n| if large == 0 { n } else { 0 };
        match combiner {
            abi::COMBINER_SUBARRAY => {
                let order = integers.add(1 + arrays(3 * (*integers as usize)));
                *order = order_out(*order);
            }
            abi::COMBINER_DARRAY => {
                let dims = *integers.add(2) as usize;
                let distributions = integers.add(3 + arrays(dims));
                crate::map_in_place(distributions, dims, distribution_out);
                crate::map_in_place(distributions.add(dims), dims, distribution_arg_out);
                let order = distributions.add(3 * dims);
                *order = order_out(*order);
            }
            _ => {}
        }
    }
}
