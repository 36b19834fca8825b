//! MPI_Isendrecv: a send and a receive, and a request that is done when both are. So it is there over
//! libraries before MPI 4 too, and a cut finds nothing but two operations that it knows.
//!
//! # Safety
//! Buffers are the application's, under the promises that MPI asks of it; handles are descriptors.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // the same for all: see above

use super::copy::Copy;
use super::counts::NOBODY;
use super::receive::{self, post};
use super::request::{self, Args, Kind, State};
use super::wait;
use crate::object::{Comm, Datatype, Request};
use contract::abi::{Status, PROC_NULL, SUCCESS};
use core::ffi::c_void;

/// The operations that a request stands for.
pub(super) struct Pair {
    send: &'static Request,
    pub(super) receive: &'static Request,
    /// What is sent, where the receive replaces it.
    _copy: Option<Copy>,
}

impl Pair {
    /// Both operations.
    pub(super) fn parts(&self) -> [&'static Request; 2] {
        [self.send, self.receive]
    }

    /// Status and error of the whole, once both operations are done.
    pub(super) fn outcome(&self) -> Option<(Status, i32)> {
        let is_done = |part: &&Request| part.body.state.get() == State::Done;
        if !self.parts().iter().all(is_done) {
            return None;
        }
        let (mut status, mut unwanted) = (Status::EMPTY, Status::EMPTY);
        let received = self.receive.result(&mut status)?;
        let sent = self.send.result(&mut unwanted)?;
        let error = if received == SUCCESS { sent } else { received };
        Some((status, error))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for part in self.parts() {
            part.recycle();
        }
    }
}

/// MPI_Isendrecv
#[allow(clippy::too_many_arguments)] // those of MPI_Isendrecv
pub unsafe fn isendrecv(
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
    request: *mut &'static Request,
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
    unsafe {
        start(
            (sendbuf, sendcount, sendtype),
            (dest, sendtag),
            args,
            None,
            request,
        )
    }
}

/// MPI_Isendrecv_replace
#[allow(clippy::too_many_arguments)] // those of MPI_Isendrecv_replace
pub unsafe fn isendrecv_replace(
    buf: *mut c_void,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    sendtag: i32,
    source: i32,
    recvtag: i32,
    comm: &'static Comm,
    request: *mut &'static Request,
) -> i32 {
    let args = Args {
        buffer: buf as usize,
        count,
        peer: source,
        tag: recvtag,
        datatype,
        comm,
    };
    // SAFETY: as promised by the caller.
    unsafe {
        if dest == PROC_NULL {
            return receive::irecv(buf, count, datatype, source, recvtag, comm, request);
        }
        match Copy::of(buf, count, datatype, comm) {
            Ok(copy) => {
                let sent = (copy.buffer, copy.count, copy.datatype);
                start(sent, (dest, sendtag), args, Some(copy), request)
            }
            Err(error) => error,
        }
    }
}

unsafe fn start(
    (buffer, count, datatype): (*const c_void, i32, &'static Datatype),
    (dest, tag): (i32, i32),
    args: Args,
    copy: Option<Copy>,
    request: *mut &'static Request,
) -> i32 {
    // SAFETY: as promised by the caller.
    unsafe {
        let mut receive = match post(args) {
            Ok(receive) => receive,
            Err(error) => return error,
        };
        let mut send = Request::null();
        let place = &raw mut send;
        let sent = super::send::isend(buffer, count, datatype, dest, tag, args.comm, place);
        let started = match sent {
            SUCCESS => request::acquire(Kind::SendReceive, NOBODY, args.comm),
            error => Err(error),
        };
        let new = match started {
            Ok(new) => new,
            Err(error) => {
                wait::cancel(&raw mut receive);
                let mut unwanted = Status::EMPTY;
                wait::one(&mut receive, &mut unwanted);
                return error;
            }
        };
        let pair = Pair {
            send,
            receive,
            _copy: copy,
        };
        new.body.pair.set(Some(Box::new(pair)));
        new.body.state.set(State::Upper);
        request.write(new);
    }
    SUCCESS
}
