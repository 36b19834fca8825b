//! Stubs of the lower half's functions: calling one crosses. Those of MPI and of the services are
//! generated from the table by build.rs; handles are words, statuses and values the standard's.
//!
//! # Safety
//! Each is a call of the real MPI library with the promises that its arguments make.
#![allow(unsafe_code)]
#![allow(non_snake_case, missing_docs, clippy::too_many_arguments)]

include!(concat!(env!("OUT_DIR"), "/lower.rs"));
