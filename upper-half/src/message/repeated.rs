//! Persistent collectives (MPI_Bcast_init and its like). Below there is no persistent request: every start
//! is a non-blocking collective operation, which every library has, and which counts and is drained as
//! such. Between two starts there is nothing that a restart would have to make again, but for the
//! communicator.
//!
//! That is a duplicate of the application's, one for each request: which starts belong together is
//! settled when the requests are made, and members may start several in different orders, which
//! non-blocking collectives over one communicator may not be.
//!
//! # Safety
//! The closure crosses with the arguments that the application gave, under MPI's promise that buffers
//! and arrays stay what they are while the request lives.
#![allow(unsafe_code)]

use super::collective::{collective_begin, collective_end};
use super::counts::NOBODY;
use super::request::{self, Kind, Scratch, State};
use crate::comm_create::construct;
use crate::object::{Comm, Request};
use crate::{comm_free, lower};
use contract::abi::SUCCESS;

/// Starts the operation over a communicator, writes its word, and gives what it uses until it is
/// complete.
pub type Starter = Box<dyn Fn(&'static Comm, *mut usize) -> (i32, Scratch)>;

/// What the request of a persistent collective holds.
pub(super) struct Repeated {
    comm: &'static Comm,
    start: Starter,
}

impl Drop for Repeated {
    fn drop(&mut self) {
        // SAFETY: the request is over, and nobody else has the communicator.
        unsafe { comm_free::farewell(self.comm) };
    }
}

/// Makes the request of a persistent collective over `comm`; collective over it.
pub fn collective_init(comm: &'static Comm, start: Starter) -> Result<&'static Request, i32> {
    // SAFETY: a live communicator, and a place for the word.
    let own = unsafe {
        construct(
            comm,
            "persistent",
            comm.body.inter,
            |word| lower::MPI_Comm_dup(comm.lower(), word),
            |_| Ok(comm.body.topology.clone()),
        )?
    };
    let repeated = Box::new(Repeated { comm: own, start });
    let request = request::acquire(Kind::PersistentCollective, NOBODY, comm)?;
    request.body.repeated.set(Some(repeated));
    request.body.state.set(State::Inactive);
    Ok(request)
}

/// MPI_Start.
pub(super) fn start(request: &'static Request) -> i32 {
    let body = &request.body;
    let Some(repeated) = body.repeated.take() else {
        return contract::abi::ERR_REQUEST;
    };
    let token = collective_begin(repeated.comm);
    let mut word = Request::null_word();
    let (error, scratch) = (repeated.start)(repeated.comm, &raw mut word);
    collective_end(token);
    body.repeated.set(Some(repeated));
    if error == SUCCESS {
        request.keep_scratch(scratch);
        request.started(word);
        // Only now, or a sweep would look for a word that is not there.
        body.state.set(State::Active);
    }
    error
}
