//! What is generated from the table, as source text for the build scripts of the crates that
//! include it.

mod adapter;
mod coverage;
mod fortran;
mod front;
mod lower_type;
mod stubs;

pub use adapter::adapter;
pub use coverage::coverage;
pub use fortran::fortran;
pub use front::front;
pub use stubs::stubs;
