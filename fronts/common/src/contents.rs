//! MPI_Type_get_contents: among the integers that it returns are constants of the ABI.
//!
//! # Safety
//! The integers were just written by the core, as many as the envelope says.
#![allow(unsafe_code)]

use contract::abi;
use upper_half::object::Datatype;

/// Translates the constants among a datatype's integers: the order of subarrays and darrays,
/// distributions and their arguments.
///
/// # Safety
/// `integers` holds what MPI_Type_get_contents wrote for `datatype`.
pub unsafe fn contents_out(
    datatype: &'static Datatype,
    integers: *mut i32,
    order_out: fn(i32) -> i32,
    distribution_out: fn(i32) -> i32,
    distribution_arg_out: fn(i32) -> i32,
) {
    let (mut count, mut addresses, mut types, mut combiner) = (0, 0, 0, 0);
    // SAFETY: the pointers lead to locals; `integers` is the caller's promise, and its layout is
    // that of MPI 3.1, §4.1.13.
    unsafe {
        upper_half::type_get_envelope(
            datatype,
            &mut count,
            &mut addresses,
            &mut types,
            &mut combiner,
        );
        match combiner {
            abi::COMBINER_SUBARRAY => {
                let order = integers.add(1 + 3 * (*integers as usize));
                *order = order_out(*order);
            }
            abi::COMBINER_DARRAY => {
                let dims = *integers.add(2) as usize;
                crate::map_in_place(integers.add(3 + dims), dims, distribution_out);
                crate::map_in_place(integers.add(3 + 2 * dims), dims, distribution_arg_out);
                let order = integers.add(3 + 4 * dims);
                *order = order_out(*order);
            }
            _ => {}
        }
    }
}
