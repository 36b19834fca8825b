//! What the application sees as its MPI library: virtual objects, messages, the safe state.
//!
//! A front (`upper-half/fronts/*`) has the C functions of one ABI. It converts arguments to the standard ABI's values
//! and handles to `&'static` objects of this crate, and calls the function of the same name here (snake case, without
//! `MPI_`).
//!
//! From the ground up:
//!
//! | module | has |
//! |---|---|
//! | [`runtime`] | memory, locks, system calls; no MPI |
//! | [`argument`] | the application's arguments as safe types |
//! | [`crossing`] | the lower half's functions, the guard of a call, the application's ABI |
//! | [`object`] | the data of MPI's objects |
//! | `quiesce` | the checkpoint protocol inside a rank |
//! | `request`, `pt2pt` | requests and point-to-point communication |
//! | `error`, `attribute`, `info`, `comm`, `datatype`, `op`, `rma`, `io`, `mpi_t`, `init` | MPI's other chapters |
//! | `record` | the record of the run, and its replay |
//! | `restore_objects` | objects are created again after a restart |
//! | `tools` | the debugging tools that are on |
//! | `gpu` | what the program has on GPUs is put into its memory, and back |
//! | [`device_buffer`] | buffers in memory of a GPU are refused |
//! | [`told`] | what they are told of the application's calls |
//! | `perturb` | messages that are held back |
//! | `breakpoint` | the rank stops at a call |
//! | [`profile`] | calls are counted, with their bytes and their time |
//! | [`reduced`] | collective operations that are reduced to messages |
//! | [`stages`] | MPI Stages: a rank goes on in its memory after another one's death |

pub mod argument;
mod attribute;
mod breakpoint;
mod comm;
pub mod crossing;
mod datatype;
pub mod device_buffer;
mod error;
mod gpu;
mod info;
mod init;
mod io;
mod mpi_t;
pub mod object;
mod op;
mod perturb;
pub mod profile;
pub mod pt2pt;
pub mod quiesce;
mod record;
pub mod reduced;
pub mod request;
mod restore_objects;
mod rma;
pub mod runtime;
pub mod stages;
#[cfg(test)]
mod tests;
pub mod told;
pub mod tools;

pub use crossing::app_abi::{self, Abi};
pub use crossing::call_guard::CallGuard;
pub use crossing::report::unsupported;
pub use crossing::stubs;
pub use init::on_load::start;
pub use object::{
    Comm, Datatype, Errhandler, File, Group, Info, Message, Object, ObjectRef, Op, Request,
    Session, Win,
};

// The functions of MPI, under the names by which the fronts call them.
pub use attribute::*;
pub use comm::*;
pub use datatype::*;
pub use error::*;
pub use info::*;
pub use init::alloc_mem::{alloc_mem, free_mem};
pub use init::init_finalize::{
    abort, at_exit, finalize, finalized, init, init_thread, initialized, is_thread_main,
    query_thread,
};
pub use init::name_service::{close_port, open_port, publish_name, unpublish_name};
pub use init::session::{
    group_from_session_pset, session_finalize, session_get_info, session_get_nth_pset,
    session_get_num_psets, session_get_pset_info, session_init,
};
pub use io::*;
pub use mpi_t::*;
pub use object::info::crossing_info;
pub use op::*;
pub use pt2pt::*;
pub use quiesce::*;
pub use request::*;
// In the place of those of `request`, `pt2pt` and `rma`.
pub use record::{
    cancel, improbe, iprobe, mprobe, mrecv, parrived, probe, recv, request_get_status, sendrecv,
    sendrecv_replace, test, testall, testany, testsome, wait, waitall, waitany, waitsome, win_test,
};
pub use rma::*;
pub use runtime::wtime::{wtick, wtime};

#[cfg(not(test))]
#[global_allocator]
static GLOBAL: runtime::alloc::Global = runtime::alloc::Global::new();
