//! Persistent sends and receives. Their arguments are kept, so that a restart makes them again; a start counts like the
//! operation that it starts.
//!
//! # Safety
//! The front promises that a buffer is valid, see [`Buffer`].
#![allow(unsafe_code)]

use crate::argument::{Buffer, Out};
use crate::crossing::mpi_result::{check, code_of};
use crate::crossing::stubs;
use crate::object::lower_handle::named;
use crate::object::request::{synchronous, Args, Kind, Mode, Posting, State};
use crate::object::unexpected;
use crate::object::{Comm, Datatype, Request};
use crate::perturb::open_receives;
use crate::pt2pt::post::peer_for;
use crate::pt2pt::{post, send_below, taken_sends};
use crate::quiesce::bookmarks;
use crate::record::receives;
use crate::request::lifecycle;
use crate::runtime::lock::multiple;
use crate::tools::{self, RECORDED};
use contract::abi::{Status, ERR_REQUEST, PROC_NULL, SUCCESS};
use contract::TOOL_PERTURB;

/// Makes a persistent request in the lower half, and gives its lower handle.
fn make_below(kind: Kind, mode: Mode, args: Args) -> Result<usize, i32> {
    let Args {
        buffer,
        count,
        peer,
        tag,
        datatype,
        comm,
    } = args;
    let buffer = buffer.as_ptr();
    let mut made = Request::null_lower();
    let lower_handle = &raw mut made;
    // SAFETY: the buffer may be used whenever the request is started, see `Buffer`. The lower handle is a local.
    let error = unsafe {
        match mode {
            _ if kind == Kind::PersistentReceive => {
                named::MPI_Recv_init(buffer, count, datatype, peer, tag, comm, lower_handle)
            }
            Mode::Standard => {
                named::MPI_Send_init(buffer, count, datatype, peer, tag, comm, lower_handle)
            }
            Mode::Synchronous => {
                named::MPI_Ssend_init(buffer, count, datatype, peer, tag, comm, lower_handle)
            }
            Mode::Buffered => {
                named::MPI_Bsend_init(buffer, count, datatype, peer, tag, comm, lower_handle)
            }
        }
    };
    check(error).map(|()| made)
}

/// Makes a persistent request.
pub(crate) fn make(kind: Kind, mode: Mode, args: Args) -> Result<&'static Request, i32> {
    let new = lifecycle::acquire(kind, peer_for(args.comm, args.peer), args.comm)?;
    let lower_handle = make_below(kind, mode, args).inspect_err(|_| new.abandon())?;
    new.keep(args);
    new.body.mode.set(mode);
    new.body.state.set(State::Inactive);
    new.set_lower(lower_handle);
    Ok(new)
}

/// MPI_Recv_init
pub fn recv_init(
    buf: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    source: i32,
    tag: i32,
    comm: &'static Comm,
    request: &mut &'static Request,
) -> i32 {
    let args = Args::new(buf, count, datatype, source, tag, comm);
    Out::from(request).give(make(Kind::PersistentReceive, Mode::Standard, args))
}

/// Starts a persistent send or receive, for which [`may_start`] holds.
#[inline]
pub(crate) fn start(request: &'static Request) -> i32 {
    let body = &request.body;
    match body.kind.get() {
        Kind::PersistentSend if taken_sends::are_taken(body.mode.get()) && is_taken(request) => {
            SUCCESS
        }
        Kind::PersistentSend => {
            bookmarks::sent(body.peer.get());
            match body.mode.get() {
                Mode::Synchronous => send_below::starts_synchronously(request, body.args.get()),
                Mode::Standard | Mode::Buffered => send_below::starts(body.args.get()),
            }
            let error = start_below(request);
            if error != SUCCESS {
                bookmarks::unsent(body.peer.get());
                synchronous::ended(request);
            }
            error
        }
        Kind::PersistentReceive if body.args.get().peer == PROC_NULL => {
            request.complete(&Status::PROC_NULL, SUCCESS);
            SUCCESS
        }
        Kind::PersistentReceive if tools_hold(request) && !starts_now(request) => SUCCESS,
        Kind::PersistentReceive if unexpected::any() || multiple() => {
            let args = receives::posted_args(request);
            let mut queue = unexpected::queue();
            match queue.take(args.comm, args.peer, args.tag) {
                Some(entry) => {
                    drop(queue);
                    post::give(request, entry);
                    SUCCESS
                }
                // The queue stays locked meanwhile.
                None => start_below(request),
            }
        }
        Kind::PersistentReceive => start_below(request),
        _ => ERR_REQUEST,
    }
}

/// Whether a persistent send, which would be taken, is complete now.
#[cold]
fn is_taken(request: &'static Request) -> bool {
    let taken = taken_sends::take(request.body.args.get()) == Some(Ok(()));
    if taken {
        request.complete(&Status::EMPTY, SUCCESS);
    }
    taken
}

/// Whether tools have to do with a persistent receive.
#[inline(always)]
fn tools_hold(request: &'static Request) -> bool {
    tools::is_set(RECORDED | TOOL_PERTURB) || request.body.posting.get() != Posting::None
}

/// Whether a persistent receive, which tools have to do with, is to be started now.
#[cold]
fn starts_now(request: &'static Request) -> bool {
    receives::starting(request)
        && !open_receives::keeps(request, receives::posted_args(request), false)
}

/// Makes the lower half's persistent request again: after a restart, or where the library below has
/// freed one that failed.
#[cold]
pub(crate) fn make_again(request: &'static Request) -> i32 {
    let body = &request.body;
    let args = receives::posted_args(request);
    let made = make_below(body.kind.get(), body.mode.get(), args);
    code_of(made.map(|lower_handle| request.set_lower(lower_handle)))
}

/// Starts the lower half's persistent request.
fn start_below(request: &'static Request) -> i32 {
    if !request.is_below() {
        let error = make_again(request);
        if error != SUCCESS {
            return error;
        }
    }
    // SAFETY: the place of an inactive persistent request's lower handle. The buffer may be used until the operation
    // ends.
    let error = unsafe { stubs::MPI_Start(request.lower_ptr()) };
    if error == SUCCESS {
        request.posted();
        request.body.state.set(State::Active);
    }
    error
}

/// Starts a persistent receive that was held back.
pub(crate) fn start_late(request: &'static Request) -> Result<(), i32> {
    check(start_below(request))
}

/// Whether a request is a persistent one, of any kind, that is not started.
pub(crate) fn may_start(request: &'static Request) -> bool {
    request.body.state.get() == State::Inactive && !request.is_null()
}
