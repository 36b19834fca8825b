//! Receiving. A receive looks among the early messages first, which costs one load while there are
//! none. A blocking receive is one call of the lower half's receive service; when a checkpoint
//! interrupts that, its posted receive becomes a request of ours and the wait goes on here.
//!
//! # Safety
//! Buffers are the application's, under the promises that MPI asks of it; handles are descriptors.
//! With several threads in MPI, the queue of early messages is locked while a receive is posted.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // the same for all: see above

use super::counts::{self, peer_of, NOBODY};
use super::request::{self, Args, Kind, State};
use super::unexpected::{self, Entry};
use super::{sweep, wait};
use crate::lower::{self, service};
use crate::object::{Comm, Datatype, Request};
use crate::sync::multiple;
use contract::abi::{Status, ERR_TRUNCATE, PROC_NULL, SUCCESS};
use contract::INTERRUPTED;
use core::ffi::c_void;

/// World rank that a receive from `source` waits for, if it is one.
#[inline(always)]
pub(super) fn peer_for(comm: &'static Comm, source: i32) -> u32 {
    if source < 0 {
        NOBODY
    } else {
        peer_of(comm, source)
    }
}

/// Whether a receive call that returned `error` took a message (if not from MPI_PROC_NULL).
#[inline(always)]
pub(super) fn took_message(error: i32) -> bool {
    error == SUCCESS || error == ERR_TRUNCATE
}

/// MPI_Recv
#[inline]
pub unsafe fn recv(
    buf: *mut c_void,
    count: i32,
    datatype: &'static Datatype,
    source: i32,
    tag: i32,
    comm: &'static Comm,
    status: *mut Status,
) -> i32 {
    let args = Args {
        buffer: buf as usize,
        count,
        peer: source,
        tag,
        datatype,
        comm,
    };
    let mut own = Status::EMPTY;
    // SAFETY: a place for a status if it is not null.
    let status = unsafe { status.as_mut() }.unwrap_or(&mut own);
    if unexpected::any() || multiple() {
        // SAFETY: as promised by the caller.
        return unsafe { posted_and_waited_for(args, status) };
    }
    let mut word = 0;
    // SAFETY: the application's arguments, and places for a status and a word.
    let error = unsafe {
        service::recv(
            buf.cast(),
            count,
            datatype.lower(),
            source,
            tag,
            comm.lower(),
            status,
            &raw mut word,
        )
    };
    if error == INTERRUPTED {
        // SAFETY: the word is that of the posted receive.
        return unsafe { interrupted(args, word, status) };
    }
    if took_message(error) {
        counts::received_by(comm, source, status);
    }
    error
}

#[cold]
unsafe fn posted_and_waited_for(args: Args, status: &mut Status) -> i32 {
    // SAFETY: as promised by the caller.
    match unsafe { post(args) } {
        // SAFETY: as above.
        Ok(mut request) => unsafe { wait::one(&mut request, status) },
        Err(error) => error,
    }
}

/// A receive that is posted below under `word` is waited for here.
#[cold]
pub(super) unsafe fn interrupted(args: Args, word: usize, status: &mut Status) -> i32 {
    let peer = peer_for(args.comm, args.peer);
    match request::acquire(Kind::Receive, peer, args.comm) {
        Ok(mut request) => {
            request.keep(args);
            request.posted();
            request.started(word);
            // SAFETY: as promised by the caller.
            unsafe { wait::one(&mut request, status) }
        }
        Err(error) => error,
    }
}

/// MPI_Irecv
#[inline]
pub unsafe fn irecv(
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
    match unsafe { post(args) } {
        Ok(new) => {
            // SAFETY: the caller's place for a request.
            unsafe { request.write(new) };
            SUCCESS
        }
        Err(error) => error,
    }
}

/// Posts a receive, or gives it the early message that it matches.
#[inline(always)]
pub(super) unsafe fn post(args: Args) -> Result<&'static Request, i32> {
    let request = request::acquire(Kind::Receive, peer_for(args.comm, args.peer), args.comm)?;
    if args.peer == PROC_NULL {
        // Done here: not every library gives such a receive the status that MPI asks for.
        request.keep(args);
        request.settle(&Status::PROC_NULL, SUCCESS);
        return Ok(request);
    }
    if unexpected::any() || multiple() {
        // SAFETY: as promised by the caller.
        return unsafe { post_beside_queue(request, args) };
    }
    // SAFETY: as promised by the caller.
    unsafe { post_below(request, args) }
}

#[inline(always)]
unsafe fn post_below(request: &'static Request, args: Args) -> Result<&'static Request, i32> {
    let mut word = Request::null().lower();
    // SAFETY: the application's arguments, and a place for the word.
    let error = unsafe {
        lower::MPI_Irecv(
            args.buffer as *mut c_void,
            args.count,
            args.datatype.lower(),
            args.peer,
            args.tag,
            args.comm.lower(),
            &raw mut word,
        )
    };
    if error != SUCCESS {
        request.abandon();
        return Err(error);
    }
    request.keep(args);
    request.posted();
    request.started(word);
    Ok(request)
}

#[cold]
unsafe fn post_beside_queue(
    request: &'static Request,
    args: Args,
) -> Result<&'static Request, i32> {
    let mut queue = unexpected::queue();
    match queue.take(args.comm, args.peer, args.tag) {
        Some(entry) => {
            drop(queue);
            request.keep(args);
            // SAFETY: as promised by the caller.
            unsafe { give(request, entry) };
            Ok(request)
        }
        // SAFETY: as promised by the caller. The queue stays locked meanwhile.
        None => unsafe { post_below(request, args) },
    }
}

/// Gives a receive its early message; done at once if that has arrived.
pub(super) unsafe fn give(request: &'static Request, mut entry: Box<Entry>) {
    // SAFETY: looking crosses, which the caller allows.
    let arrived = unsafe { entry.look() };
    request.body.entry.set(Some(Box::into_raw(entry)));
    if arrived {
        // SAFETY: the entry has arrived, and the buffer is the application's for this receive. No
        // sweep delivers it too: the request is not yet one that sweeps look for.
        unsafe { sweep::deliver(request) };
    } else {
        request.body.state.set(State::Upper);
    }
}

/// MPI_Sendrecv
///
/// The receive is posted first and waited for last, so that the send in between is one that the
/// peer's own MPI_Sendrecv is ready for.
#[allow(clippy::too_many_arguments)] // those of MPI_Sendrecv
pub unsafe fn sendrecv(
    sendbuf: *const c_void,
    sendcount: i32,
    sendtype: &'static Datatype,
    dest: i32,
    sendtag: i32,
    recvbuf: *mut c_void,
    recvcount: i32,
    recvtype: &'static Datatype,
    source: i32,
    recvtag: i32,
    comm: &'static Comm,
    status: *mut Status,
) -> i32 {
    let args = Args {
        buffer: recvbuf as usize,
        count: recvcount,
        peer: source,
        tag: recvtag,
        datatype: recvtype,
        comm,
    };
    // SAFETY: as promised by the caller.
    let mut request = match unsafe { post(args) } {
        Ok(request) => request,
        Err(error) => return error,
    };
    // SAFETY: as promised by the caller.
    let error = unsafe { super::send::send(sendbuf, sendcount, sendtype, dest, sendtag, comm) };
    let mut own = Status::EMPTY;
    // SAFETY: a place for a status if it is not null.
    let status = unsafe { status.as_mut() }.unwrap_or(&mut own);
    if error != SUCCESS {
        // SAFETY: our own request; nobody else knows of it.
        unsafe { wait::cancel(&raw mut request) };
    }
    // SAFETY: as above.
    let received = unsafe { wait::one(&mut request, status) };
    if error == SUCCESS {
        received
    } else {
        error
    }
}
