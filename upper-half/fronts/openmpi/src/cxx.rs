//! Functions beside MPI that Open MPI's `libmpi_cxx.so.40` needs from `libmpi.so.40`.
//!
//! Open MPI's `mpicxx` links that library into every C++ program, with or without `MPI::` classes, so the names must
//! exist. Operations are served. A call of another one is refused, and ends the job: these need Open MPI's own
//! structures, and do not read their arguments.
#![allow(unsafe_code)]

use crate::abi;

/// `Op::Init` of the C++ bindings, after MPI_Op_create with a function of these: that gets the program's function, too.
#[no_mangle]
extern "C" fn ompi_op_set_cxx_callback(op: abi::Op, function: usize) {
    upper_half::op_passes(abi::op(op), function);
}

macro_rules! refused {
    ($($name:ident: $feature:literal;)*) => {$(
        #[doc = concat!("`", $feature, "` of the C++ bindings: refused.")]
        #[no_mangle]
        extern "C" fn $name() {
            upper_half::unsupported(
                concat!($feature, " of the C++ bindings"),
                "MPI has had no C++ bindings since 2012; use the C functions",
            );
            upper_half::abort(stasis_front_common::world(), 1);
        }
    )*};
}

refused! {
    ompi_attr_create_keyval: "Create_keyval";
    ompi_errhandler_create: "Create_errhandler";
    ompi_errhandler_invoke: "Call_errhandler";
}
