//! Persistent requests: made once, started many times. The arguments of sends and receives are kept, so
//! that a restart makes them again; a start counts like the operation that it starts.
//!
//! # Safety
//! Buffers are the application's, under the promises that MPI asks of it; handles are descriptors.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // the same for all: see above

use super::receive::{self, peer_for};
use super::request::{self, Args, Kind, Mode, State};
use super::{batch, blame, counts, partitioned, repeated, unexpected};
use crate::lower::{self, named};
use crate::object::{Comm, Datatype, Request};
use crate::sync::multiple;
use contract::abi::{Status, ERR_COUNT, ERR_REQUEST, PROC_NULL, SUCCESS};
use core::ffi::c_void;

/// Makes the lower half's persistent request for `request`, whose arguments stand in it.
unsafe fn make_below(kind: Kind, mode: Mode, args: &Args, word: *mut usize) -> i32 {
    let Args {
        buffer,
        count,
        peer,
        tag,
        datatype,
        comm,
    } = *args;
    let buffer = buffer as *mut c_void;
    // SAFETY: the application's arguments, and the caller's place for a word.
    unsafe {
        match mode {
            _ if kind == Kind::PersistentReceive => {
                named::MPI_Recv_init(buffer, count, datatype, peer, tag, comm, word)
            }
            Mode::Standard => named::MPI_Send_init(buffer, count, datatype, peer, tag, comm, word),
            Mode::Synchronous => {
                named::MPI_Ssend_init(buffer, count, datatype, peer, tag, comm, word)
            }
            Mode::Buffered => named::MPI_Bsend_init(buffer, count, datatype, peer, tag, comm, word),
        }
    }
}

/// Makes a persistent request.
pub(super) unsafe fn make(
    kind: Kind,
    mode: Mode,
    args: Args,
    request: *mut &'static Request,
) -> i32 {
    let new = match request::acquire(kind, peer_for(args.comm, args.peer), args.comm) {
        Ok(new) => new,
        Err(error) => return error,
    };
    let mut word = Request::null_word();
    // SAFETY: the application's arguments, and a place for the word.
    let error = unsafe { make_below(kind, mode, &args, &raw mut word) };
    if error != SUCCESS {
        new.abandon();
        return error;
    }
    new.keep(args);
    new.body.mode.set(mode);
    new.body.state.set(State::Inactive);
    new.set_lower(word);
    // SAFETY: the caller's place for a request.
    unsafe { request.write(new) };
    SUCCESS
}

/// MPI_Recv_init
pub unsafe fn recv_init(
    buf: *mut c_void,
    count: i32,
    datatype: &'static Datatype,
    source: i32,
    tag: i32,
    comm: &'static Comm,
    request: *mut &'static Request,
) -> i32 {
    let args = Args {
        buffer: buf as usize,
        count,
        peer: source,
        tag,
        datatype,
        comm,
    };
    // SAFETY: as promised by the caller.
    unsafe { make(Kind::PersistentReceive, Mode::Standard, args, request) }
}

/// MPI_Start
pub unsafe fn start(request: *mut &'static Request) -> i32 {
    // SAFETY: the caller's request.
    let request = unsafe { *request };
    // SAFETY: as above.
    blame::outcome(request, unsafe { start_one(request) })
}

/// MPI_Startall
pub unsafe fn startall(count: i32, requests: *mut &'static Request) -> i32 {
    let Ok(n) = usize::try_from(count) else {
        return ERR_COUNT;
    };
    // SAFETY: the caller's requests.
    for request in unsafe { batch::handles(requests, n) } {
        // SAFETY: as above.
        let error = unsafe { start_one(request) };
        if error != SUCCESS {
            return blame::outcome(request, error);
        }
    }
    SUCCESS
}

pub(super) unsafe fn start_one(request: &'static Request) -> i32 {
    let body = &request.body;
    if body.state.get() != State::Inactive || request.is_null() {
        return ERR_REQUEST;
    }
    match body.kind.get() {
        Kind::PersistentSend => {
            counts::sent(body.peer.get());
            // SAFETY: the place of an inactive persistent request's word.
            let error = unsafe { start_below(request) };
            if error != SUCCESS {
                counts::unsent(body.peer.get());
            }
            error
        }
        Kind::PersistentReceive if body.args.get().peer == PROC_NULL => {
            request.settle(&Status::PROC_NULL, SUCCESS);
            SUCCESS
        }
        Kind::PersistentReceive if unexpected::any() || multiple() => {
            let args = body.args.get();
            let mut queue = unexpected::queue();
            match queue.take(args.comm, args.peer, args.tag) {
                Some(entry) => {
                    drop(queue);
                    // SAFETY: the application's buffer is the receive's from now on.
                    unsafe { receive::give(request, entry) };
                    SUCCESS
                }
                // SAFETY: as for a send; the queue stays locked meanwhile.
                None => unsafe { start_below(request) },
            }
        }
        // SAFETY: as for a send.
        Kind::PersistentReceive => unsafe { start_below(request) },
        Kind::PersistentCollective => repeated::start(request),
        Kind::Partitioned => partitioned::start(request),
        _ => ERR_REQUEST,
    }
}

/// Makes the lower half's persistent request again: after a restart, or where the library below has
/// freed one that failed.
#[cold]
pub(super) unsafe fn make_again(request: &'static Request) -> i32 {
    let body = &request.body;
    let args = body.args.get();
    // SAFETY: the application's arguments, and the place of the request's word.
    unsafe { make_below(body.kind.get(), body.mode.get(), &args, request.lower_ptr()) }
}

/// Starts the lower half's persistent request.
pub(super) unsafe fn start_below(request: &'static Request) -> i32 {
    if !request.is_below() {
        // SAFETY: the application's arguments, and the place of the request's word.
        let error = unsafe { make_again(request) };
        if error != SUCCESS {
            return error;
        }
    }
    // SAFETY: the place of an inactive persistent request's word.
    let error = unsafe { lower::MPI_Start(request.lower_ptr()) };
    if error == SUCCESS {
        request.posted();
        request.body.state.set(State::Active);
    }
    error
}
