//! Start and end of MPI: the constructor of the front, MPI_Init and MPI_Finalize, sessions, ports, and memory of
//! MPI_Alloc_mem.

pub(crate) mod alloc_mem;
pub(crate) mod init_finalize;
pub(crate) mod name_service;
pub(crate) mod on_load;
pub(crate) mod predefined;
pub(crate) mod session;
