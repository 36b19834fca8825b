//! Requests: how they pass through their states, and the functions of MPI that complete and start them.

pub(crate) mod error_origin;
pub(crate) mod grequest;
pub(crate) mod grequest_callbacks;
pub(crate) mod lifecycle;
pub(crate) mod persistent;
pub(crate) mod persistent_collective;
pub(crate) mod request_array;
pub(crate) mod started_operation;
pub(crate) mod test;
pub(crate) mod vain_tests;
pub(crate) mod wait;

pub use crate::object::request::persistent_collective::Starter;
pub use crate::object::request::Scratch;
pub use grequest::{grequest_complete, grequest_is_fortran, grequest_start};
pub use persistent::{start, startall};
pub use persistent_collective::collective_init;
pub use started_operation::{
    access_request, collective_request, done_access_request, file_collective_request, file_request,
};
pub use test::{request_get_status, test, testall, testany, testsome};
pub use wait::{cancel, request_free, wait, waitall, waitany, waitsome};

/// Whether a non-blocking collective operation is under way: it may use operations and datatypes
/// that the application has freed.
pub(crate) fn collectives_pending() -> bool {
    lifecycle::pending().any(|request| request.body.kind.get().is_collective())
}
