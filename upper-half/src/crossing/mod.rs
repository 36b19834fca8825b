//! The border to the lower half and to the application's ABI.
//!
//! [`stubs`] are the lower half's functions, `switch` is the code that every stub jumps to, [`call_guard`] keeps a
//! thread from being stopped inside an MPI call, [`app_abi`] has the conversions of the front, `namespace` the
//! functions of MPI that the application would call, and `report` brings messages to the user.

pub(crate) mod abandon;
pub mod app_abi;
pub mod call_guard;
pub(crate) mod mpi_result;
pub(crate) mod namespace;
pub(crate) mod report;
pub mod stubs;
pub(crate) mod switch;
pub(crate) mod thread_level;
