//! What Open MPI's `libmpi_cxx.so.40` wants of `libmpi.so.40` beside MPI itself. Its `mpicxx` links
//! that library into every C++ program, whether the program uses the `MPI::` classes or not, so the
//! names must be there; the features of those classes behind them are refused when called.
//!
//! # Safety
//! Arguments are not looked at: none of these functions returns.
#![allow(unsafe_code)]

macro_rules! refused {
    ($($name:ident: $feature:literal;)*) => {$(
        /// Refused.
        #[no_mangle]
        extern "C" fn $name() {
            upper_half::unsupported(
                concat!($feature, " of the C++ bindings"),
                "MPI has no such bindings since 2012; use the functions for C",
            );
            upper_half::abort(upper_half::Comm::at(contract::abi::comm::COMM_WORLD as u32), 1);
        }
    )*};
}

refused! {
    ompi_attr_create_keyval: "Create_keyval";
    ompi_errhandler_create: "Create_errhandler";
    ompi_errhandler_invoke: "Call_errhandler";
    ompi_op_set_cxx_callback: "Op::Init";
}
