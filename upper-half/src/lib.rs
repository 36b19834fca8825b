//! What the application sees as its MPI library: virtual objects, messages, the safe state.
//!
//! A front (`fronts/*`) has the C functions of one ABI. It converts arguments to the standard
//! ABI's values and handles to `&'static` objects of this crate, and calls the function of the same
//! name here (snake case, without `MPI_`). What the core must ask of the real MPI library goes
//! through [`lower`]'s stubs, generated from the table, and [`crossing`].
//!
//! This code runs beside the application's libc, in its threads, and sometimes while other threads
//! are stopped anywhere. So it has its own allocator ([`alloc`]), makes its own few system calls
//! ([`system`]), and uses nothing of std that has thread-local state or prints.

pub mod abi;
pub mod alloc;
mod attribute;
mod clock;
mod code;
mod comm;
mod comm_create;
mod comm_free;
mod crossing;
mod datatype;
mod environment;
pub mod errhandler;
pub mod error;
mod file;
mod group;
mod hints;
mod id;
mod info;
mod large;
mod lingering;
pub mod lower;
pub mod message;
pub mod object;
mod op;
mod ports;
mod rebuild;
mod session;
mod slices;
mod stand_in;
mod start;
pub mod sync;
pub mod system;
mod threads;
mod tool;
mod topology;
mod window;
pub mod wrapper;
mod wtime;

pub use abi::Abi;
pub use object::{
    Comm, Datatype, Errhandler, File, Group, Info, Kept, Message, Object, Op, Request, Session, Win,
};
pub use start::start;
pub use wrapper::Wrapper;

// The functions of MPI, under the names by which the fronts call them.
pub use attribute::*;
pub use comm::*;
pub use comm_create::*;
pub use comm_free::*;
pub use datatype::*;
pub use environment::{
    abort, alloc_mem, at_exit, finalize, finalized, free_mem, init, init_thread, initialized,
    is_thread_main, query_thread,
};
pub use errhandler::*;
pub use error::*;
pub use file::*;
pub use group::*;
pub use info::*;
pub use large::*;
pub use message::*;
pub use op::*;
pub use ports::{close_port, open_port, publish_name, unpublish_name};
pub use session::{
    group_from_session_pset, session_finalize, session_get_info, session_get_nth_pset,
    session_get_num_psets, session_get_pset_info, session_init,
};
pub use tool::*;
pub use topology::*;
pub use window::*;
pub use wtime::{wtick, wtime};

#[cfg(not(test))]
#[global_allocator]
static GLOBAL: alloc::Global = alloc::Global::new();
