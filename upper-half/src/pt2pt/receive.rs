//! Receiving. A blocking receive is one call of the lower half's receive service, and so is MPI_Sendrecv. When a
//! checkpoint interrupts the service, its posted receive becomes a request of ours and the wait goes on here. `post.rs`
//! has the non-blocking part.
//!
//! # Safety
//! The front promises that a buffer is valid, see [`Buffer`].
#![allow(unsafe_code)]

use crate::argument::{Buffer, Out};
use crate::crossing::stubs::service;
use crate::crossing::thread_level::take_turns;
use crate::object::comm::peer_of;
use crate::object::request::{synchronous, Args, Kind, Mode, Posting};
use crate::object::{unexpected, Comm, Datatype, Request};
use crate::pt2pt::post::{peer_for, post, post_and_wait, Waits};
use crate::pt2pt::send;
use crate::quiesce::bookmarks;
use crate::record::{bindings, receives, turns};
use crate::request::{lifecycle, wait};
use crate::runtime::lock::multiple;
use crate::tools;
use contract::abi::{Status, ERR_OTHER, ERR_TRUNCATE, PROC_NULL, SUCCESS};
use contract::service::{Exchange, ExchangedMessage};
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
    if unexpected::any() || multiple() {
        return posted_and_waited_for(args, status);
    }
    match tools::any_that_changes() {
        true => received_with_tools(args, status),
        false => received_below(args, Posting::None, status),
    }
}

/// Waits in the library, in one call, for a receive that the record knows by `posting`.
#[inline(always)]
fn received_below(args: Args, posting: Posting, status: &mut Status) -> i32 {
    let mut lower_handle = 0;
    // SAFETY: the buffer may be written until the receive ends, see `Buffer`. The lower handle is a local.
    let error = unsafe {
        service::recv(
            args.buffer.as_ptr().cast(),
            args.count,
            args.datatype.lower(),
            args.peer,
            args.tag,
            args.comm.lower(),
            status,
            &raw mut lower_handle,
        )
    };
    if error == INTERRUPTED {
        return interrupted(args, lower_handle, posting, status);
    }
    if took_message(error) {
        bookmarks::received_by(args.comm, args.peer, status);
        if let Posting::Number(number) = posting {
            bindings::got(number, status);
        }
    }
    error
}

#[inline(never)]
fn received_with_tools(args: Args, status: &mut Status) -> i32 {
    match receives::posting_below(&args) {
        Some(posting) => received_below(args, posting, status),
        None => posted_and_waited_for(args, status),
    }
}

#[cold]
fn posted_and_waited_for(args: Args, status: &mut Status) -> i32 {
    let posted = post_and_wait(args, Waits::AtOnce);
    turns::leave();
    match posted {
        Ok(mut request) => wait::one(&mut request, status),
        Err(error) => error,
    }
}

/// Waits here for a receive that is posted below under `lower handle`.
#[cold]
fn interrupted(args: Args, lower_handle: usize, posting: Posting, status: &mut Status) -> i32 {
    match requested(args, lower_handle) {
        Ok(mut request) => {
            request.body.posting.set(posting);
            wait::one(&mut request, status)
        }
        Err(error) => error,
    }
}

/// A request of ours for a receive that is posted below under `lower handle`.
fn requested(args: Args, lower_handle: usize) -> Result<&'static Request, i32> {
    let peer = peer_for(args.comm, args.peer);
    let request = lifecycle::acquire(Kind::Receive, peer, args.comm)?;
    request.keep(args);
    request.posted();
    request.started(lower_handle);
    Ok(request)
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
/// peer's own MPI_Sendrecv is ready for. One call below does all, unless the thread must not wait there, or must tell
/// beforehand what it sends.
pub(crate) fn exchange(sent: Args, received: Args, status: Option<&mut Status>) -> i32 {
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    let here = unexpected::any() || multiple() || tools::any_that_changes();
    let waits = take_turns()
        || synchronous::are_used()
        || send::may_wait(Mode::Standard, sent.count, sent.datatype);
    if here || waits || received.peer == PROC_NULL {
        return one_by_one(sent, received, status);
    }
    let peer = peer_of(sent.comm, sent.peer);
    bookmarks::sent(peer);
    let mut messages;
    // SAFETY: the buffers are valid until the call returns, see `Buffer`. The messages are a local, and the thread does
    // not stop before the crossing.
    let error = unsafe {
        messages = Exchange {
            sent: message(&sent),
            received: message(&received),
            comm: sent.comm.lower(),
            request: 0,
            send_error: ERR_OTHER,
        };
        service::send_receive(&raw mut messages, status)
    };
    if messages.send_error != SUCCESS {
        bookmarks::unsent(peer);
    }
    if error == INTERRUPTED {
        return interrupted_exchange(received, &messages, status);
    }
    if took_message(error) {
        bookmarks::received_by(received.comm, received.peer, status);
    }
    error
}

/// A message for the service.
///
/// # Safety
/// As for a lower handle: the thread does not stop before the crossing.
#[inline(always)]
unsafe fn message(args: &Args) -> ExchangedMessage {
    ExchangedMessage {
        buffer: args.buffer.as_ptr().cast(),
        // SAFETY: as for this function.
        datatype: unsafe { args.datatype.lower() },
        count: args.count,
        peer: args.peer,
        tag: args.tag,
    }
}

/// Waits for the receive, or cancels it because the send has failed.
#[cold]
fn interrupted_exchange(received: Args, messages: &Exchange, status: &mut Status) -> i32 {
    let send_error = messages.send_error;
    match requested(received, messages.request) {
        Ok(request) => waited_for(request, send_error, status),
        Err(error) => error,
    }
}

#[cold]
fn one_by_one(sent: Args, received: Args, status: &mut Status) -> i32 {
    match post_and_wait(received, Waits::AfterSend) {
        Ok(request) => waited_for(request, send::blocking(Mode::Standard, sent), status),
        Err(error) => error,
    }
}

/// Waits for a receive after the send beside it. Cancels it if that has failed.
fn waited_for(mut request: &'static Request, send_error: i32, status: &mut Status) -> i32 {
    if send_error != SUCCESS {
        wait::cancel(&mut request);
    }
    let error = wait::one(&mut request, status);
    match send_error {
        SUCCESS => error,
        send_error => send_error,
    }
}
