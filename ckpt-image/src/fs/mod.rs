//! Access to the file system: permissions, durable changes, and faults for tests.

pub(crate) mod fault;
pub(crate) mod file_system;
pub(crate) mod high_descriptor;
pub(crate) mod permissions;
