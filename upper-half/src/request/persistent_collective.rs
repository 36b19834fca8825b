//! Persistent collectives (MPI_Bcast_init and its like). Below there is no persistent request: every start is a
//! non-blocking collective operation, which every library has, and which is counted and drained as such. Between two
//! starts a restart has only the communicator to make again.
//!
//! The communicator is a duplicate of the application's, one for each request: members agree when the requests are made
//! which starts belong together, and may start several in different orders, which MPI forbids for non-blocking
//! collectives over one communicator.

use crate::comm::construct::construct;
use crate::crossing::mpi_result::code_of;
use crate::crossing::namespace::Namespace;
use crate::object::comm::NOBODY;
use crate::object::lower_handle::named;
use crate::object::request::persistent_collective::{PersistentCollective, Start, Starter};
use crate::object::request::{Kind, State};
use crate::object::{Comm, Request};
use crate::profile;
use crate::quiesce::collective_gate::{collective_begin, collective_end};
use crate::quiesce::progress::visible_schedules;
use crate::request::lifecycle;
use contract::abi::SUCCESS;

/// Makes the request of a persistent collective over `comm`; collective over it.
///
/// # Errors
/// The error class of the duplicate communicator that it needs; `MPI_ERR_NO_MEM` if there are too many requests.
pub fn collective_init(comm: &'static Comm, start: Starter) -> Result<&'static Request, i32> {
    make(comm, Start::Below(start))
}

/// Makes the request of one that is started by `start`.
pub(crate) fn make(comm: &'static Comm, start: Start) -> Result<&'static Request, i32> {
    let repeated = profile::take_repeated();
    let own = construct(
        comm,
        "persistent",
        comm.body.inter,
        |made| named::MPI_Comm_dup(comm, made),
        |_| Ok(comm.body.topology.clone()),
    )?;
    if let (Some(channel), Some(namespace)) = (own.body.channel(), Namespace::for_profilers()) {
        // A profiler knows the application's communicator alone.
        channel.show(comm, namespace);
    }
    let held = Box::new(PersistentCollective {
        comm: own,
        start,
        repeated,
    });
    let request = lifecycle::acquire(Kind::PersistentCollective, NOBODY, comm)?;
    request.body.persistent_collective.set(Some(held));
    request.body.state.set(State::Inactive);
    Ok(request)
}

/// MPI_Start.
pub(crate) fn start(request: &'static Request) -> i32 {
    let body = &request.body;
    let Some(held) = body.persistent_collective.take() else {
        return contract::abi::ERR_REQUEST;
    };
    profile::starts_again(held.repeated);
    let error = match &held.start {
        Start::Below(start) => start_below(request, held.comm, start),
        Start::Reduced(start) => code_of(start(request, held.comm)),
    };
    body.persistent_collective.set(Some(held));
    // The thread may stop in there, so that the request must be whole.
    visible_schedules();
    error
}

fn start_below(request: &'static Request, comm: &'static Comm, start: &Starter) -> i32 {
    let token = collective_begin(comm);
    let mut lower_handle = Request::null_lower();
    let (error, scratch) = start(comm, &raw mut lower_handle);
    request.is_operation(token.number());
    collective_end(token);
    if error == SUCCESS {
        request.keep_scratch(scratch);
        request.started(lower_handle);
        // Only now, or a sweep would look for a lower handle that is not there.
        request.body.state.set(State::Active);
    }
    error
}
