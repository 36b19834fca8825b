//! Sends in the lower half, which are counted.
//!
//! # Safety
//! The front promises that a buffer is valid, see [`Buffer`](crate::argument::Buffer).
#![allow(unsafe_code)]

use crate::object::comm::{peer_of, NOBODY};
use crate::object::lower_handle::named;
use crate::object::request::synchronous::{self, Route};
use crate::object::request::{Args, Kind, Mode};
use crate::object::Request;
use crate::quiesce::bookmarks;
use crate::request::lifecycle;
use contract::abi::SUCCESS;

/// Sends a message in a blocking call.
#[inline(always)]
pub(crate) fn send(mode: Mode, message: Args) -> i32 {
    let Args {
        buffer,
        count,
        peer: dest,
        tag,
        datatype,
        comm,
    } = message;
    let buffer = buffer.as_ptr();
    let peer = peer_of(comm, dest);
    bookmarks::sent(peer);
    starts(message);
    // SAFETY: the buffer may be read until the call returns, see `Buffer`.
    let error = unsafe {
        match mode {
            Mode::Standard => named::MPI_Send(buffer, count, datatype, dest, tag, comm),
            Mode::Synchronous => named::MPI_Ssend(buffer, count, datatype, dest, tag, comm),
            Mode::Buffered => named::MPI_Bsend(buffer, count, datatype, dest, tag, comm),
        }
    };
    if error != SUCCESS {
        bookmarks::unsent(peer);
    }
    error
}

/// Starts a send.
#[inline(always)]
pub(crate) fn start(mode: Mode, message: Args) -> Result<&'static Request, i32> {
    let Args {
        buffer,
        count,
        peer: dest,
        tag,
        datatype,
        comm,
    } = message;
    let buffer = buffer.as_ptr();
    let peer = peer_of(comm, dest);
    let new = lifecycle::acquire(Kind::Send, peer, comm)?;
    new.has_tag(tag);
    bookmarks::sent(peer);
    match mode {
        Mode::Synchronous => starts_synchronously(new, message),
        Mode::Standard | Mode::Buffered => starts(message),
    }
    let mut lower_handle = Request::null_lower();
    let place = &raw mut lower_handle;
    // SAFETY: the buffer may be read until the operation ends, see `Buffer`. The lower handle is a local.
    let error = unsafe {
        match mode {
            Mode::Standard => named::MPI_Isend(buffer, count, datatype, dest, tag, comm, place),
            Mode::Synchronous => named::MPI_Issend(buffer, count, datatype, dest, tag, comm, place),
            Mode::Buffered => named::MPI_Ibsend(buffer, count, datatype, dest, tag, comm, place),
        }
    };
    if error != SUCCESS {
        bookmarks::unsent(peer);
        synchronous::ended(new);
        new.abandon();
        return Err(error);
    }
    new.started(lower_handle);
    Ok(new)
}

/// A message starts: synchronous sends before it may have to know ([`synchronous`]).
#[inline(always)]
pub(crate) fn starts(message: Args) {
    if synchronous::any_under_way() {
        synchronous::count(route_of(message));
    }
}

/// A synchronous send starts.
#[cold]
pub(crate) fn starts_synchronously(request: &'static Request, message: Args) {
    let route = route_of(message);
    if route.to != NOBODY {
        synchronous::begins(request, route);
    }
}

fn route_of(message: Args) -> Route {
    Route {
        to: peer_of(message.comm, message.peer),
        comm: message.comm.body.id,
        tag: message.tag,
    }
}
