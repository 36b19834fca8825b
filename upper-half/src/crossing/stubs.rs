//! Stubs of the lower half's functions: a call of one crosses. `build.rs` generates them from the table. Handles are
//! lower handles, statuses and values are the standard ABI's. Those that are given objects in the place of lower
//! handles are in [`crate::object::lower_handle::named`].
//!
//! # Safety
//! Each is a call of the real MPI library with the promises that its arguments make.
#![allow(unsafe_code)]
#![allow(non_snake_case, missing_docs, clippy::too_many_arguments)]
#![allow(clippy::missing_safety_doc)] // the same for all: see above

include!(concat!(env!("OUT_DIR"), "/stubs.rs"));
