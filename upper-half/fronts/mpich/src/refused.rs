//! Functions of MPICH alone, to which its Fortran layer always refers. A call of one is refused with its name.
//!
//! `refused.names` lists them. `stasis` refuses a program that imports one itself before it runs.
#![allow(unsafe_code)]
#![allow(non_snake_case)]

use contract::abi::ERR_UNSUPPORTED_OPERATION;
use stasis_front_common::world;

include!(concat!(env!("OUT_DIR"), "/refused.rs"));

#[cold]
fn refuse(name: &str) -> i32 {
    let _guard = upper_half::CallGuard::enter();
    upper_half::unsupported(
        name,
        "only MPICH has it; use a function of the MPI standard",
    );
    crate::abi::error_out(upper_half::raise_comm(
        world(),
        ERR_UNSUPPORTED_OPERATION,
        name,
    ))
}
