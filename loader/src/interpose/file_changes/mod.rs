//! Changes that the application and the MPI library make to files: which files were opened for writing, and the undo
//! journal, which records what a call is about to overwrite, truncate, rename or remove.
//!
//! `app_changes` is called by the handlers of system calls, [`mpi_files`] by the lower half and by
//! `library_writes`, the functions that the MPI library calls in the place of the C library's.

pub(crate) mod absolute_names;
pub(crate) mod app_changes;
pub(crate) mod journal;
pub(crate) mod library_writes;
pub mod mpi_files;
pub(crate) mod name_locks;
pub(crate) mod opened_for_write;
pub(crate) mod ranges;
pub(crate) mod segment;
pub(crate) mod watched_fds;

pub use journal::keep_journal;
pub use segment::begin_segment;
