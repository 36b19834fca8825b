//! Receiving. A blocking receive is one call of the lower half's receive service. When a checkpoint interrupts that,
//! its posted receive becomes a request of ours and the wait goes on here. `post.rs` has the non-blocking part.
//!
//! # Safety
//! The front promises that a buffer is valid, see [`Buffer`].
#![allow(unsafe_code)]

use crate::argument::{Buffer, Out};
use crate::crossing::stubs::service;
use crate::object::request::{Args, Kind, Mode};
use crate::object::{unexpected, Comm, Datatype, Request};
use crate::pt2pt::post::{peer_for, post, post_as_is};
use crate::pt2pt::send;
use crate::quiesce::bookmarks;
use crate::quiesce::progress::polls;
use crate::record::{bindings, mode};
use crate::request::{lifecycle, wait};
use crate::runtime::lock::multiple;
use contract::abi::{Status, ERR_TRUNCATE, SUCCESS};
use contract::INTERRUPTED;

/// Whether a receive call that returned `error` took a message (if not from MPI_PROC_NULL).
#[inline(always)]
fn took_message(error: i32) -> bool {
    error == SUCCESS || error == ERR_TRUNCATE
}

/// MPI_Recv
#[inline]
pub fn recv(
    buf: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    source: i32,
    tag: i32,
    comm: &'static Comm,
    status: Option<&mut Status>,
) -> i32 {
    let args = Args::new(buf, count, datatype, source, tag, comm);
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    if unexpected::any() || multiple() || polls() || mode::is_on() {
        return posted_and_waited_for(args, status);
    }
    let mut lower_handle = 0;
    // SAFETY: the buffer may be written until the receive ends, see `Buffer`. The lower handle is a local.
    let error = unsafe {
        service::recv(
            buf.as_ptr().cast(),
            count,
            datatype.lower(),
            source,
            tag,
            comm.lower(),
            status,
            &raw mut lower_handle,
        )
    };
    if error == INTERRUPTED {
        return interrupted(args, lower_handle, status);
    }
    if took_message(error) {
        bookmarks::received_by(comm, source, status);
    }
    error
}

#[cold]
fn posted_and_waited_for(args: Args, status: &mut Status) -> i32 {
    // Without wildcards nothing about it is open, so that the record of the run has no number for it.
    let posted = match bindings::is_wild(&args) {
        true => post(args),
        false => post_as_is(args),
    };
    match posted {
        Ok(mut request) => wait::one(&mut request, status),
        Err(error) => error,
    }
}

/// Waits here for a receive that is posted below under `lower handle`.
#[cold]
fn interrupted(args: Args, lower_handle: usize, status: &mut Status) -> i32 {
    let peer = peer_for(args.comm, args.peer);
    match lifecycle::acquire(Kind::Receive, peer, args.comm) {
        Ok(mut request) => {
            request.keep(args);
            request.posted();
            request.started(lower_handle);
            wait::one(&mut request, status)
        }
        Err(error) => error,
    }
}

/// MPI_Irecv
#[inline]
pub fn irecv(
    buf: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    source: i32,
    tag: i32,
    comm: &'static Comm,
    request: &mut &'static Request,
) -> i32 {
    let args = Args::new(buf, count, datatype, source, tag, comm);
    Out::from(request).give(post(args))
}

/// MPI_Sendrecv
#[allow(clippy::too_many_arguments)] // those of MPI_Sendrecv
pub fn sendrecv(
    sendbuf: Buffer<'static>,
    sendcount: i32,
    sendtype: &'static Datatype,
    dest: i32,
    sendtag: i32,
    recvbuf: Buffer<'static>,
    recvcount: i32,
    recvtype: &'static Datatype,
    source: i32,
    recvtag: i32,
    comm: &'static Comm,
    status: Option<&mut Status>,
) -> i32 {
    exchange(
        Args::new(sendbuf, sendcount, sendtype, dest, sendtag, comm),
        Args::new(recvbuf, recvcount, recvtype, source, recvtag, comm),
        status,
    )
}

/// Sends one message and receives another.
///
/// The receive is posted first and waited for last, so that the send in between is one that the
/// peer's own MPI_Sendrecv is ready for.
pub(crate) fn exchange(sent: Args, received: Args, status: Option<&mut Status>) -> i32 {
    let mut request = match post(received) {
        Ok(request) => request,
        Err(error) => return error,
    };
    let error = send::blocking(Mode::Standard, sent);
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    if error != SUCCESS {
        wait::cancel(&mut request);
    }
    let received = wait::one(&mut request, status);
    if error == SUCCESS {
        received
    } else {
        error
    }
}
