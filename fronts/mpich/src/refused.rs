//! Functions of MPICH's own that its Fortran layer refers to, whether a program uses them or not:
//! refused by name when called. `refused.names` lists them; `stasis` refuses a program that asks for one
//! itself before it is run.
//!
//! # Safety
//! Arguments are not looked at.
#![allow(unsafe_code)]
#![allow(non_snake_case)]

use contract::abi::{comm, ERR_UNSUPPORTED_OPERATION};

include!(concat!(env!("OUT_DIR"), "/refused.rs"));

#[cold]
fn refuse(name: &str) -> i32 {
    let _guard = upper_half::Wrapper::enter();
    upper_half::unsupported(name, "it is of MPICH alone; use what MPI has");
    let world = upper_half::Comm::at(comm::COMM_WORLD as u32);
    crate::abi::error_out(upper_half::raise_comm(
        world,
        ERR_UNSUPPORTED_OPERATION,
        name,
    ))
}
