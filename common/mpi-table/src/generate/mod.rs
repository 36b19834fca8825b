//! Generators of the files that follow from the table. They return source text for the build scripts of the crates that
//! include it, or the text of a page.

mod adapter;
mod build_script;
mod by_name;
mod contents;
mod coverage;
mod fortran;
mod front;
mod lower_type;
mod stubs;

pub use adapter::adapter;
pub use build_script::build_front;
pub use by_name::by_name;
pub use contents::contents;
pub use coverage::coverage;
pub use fortran::fortran;
pub use front::front;
pub use stubs::{named, stubs};
