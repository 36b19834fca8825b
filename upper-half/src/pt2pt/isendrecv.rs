//! MPI_Isendrecv: a send and a receive, and a request that is done when both are. So it works over libraries before MPI
//! 4 too, and a cut finds only two operations of known kinds.
//!
//! # Safety
//! No other thread has a request that this module makes, until the function returns.
#![allow(unsafe_code)]

use crate::argument::{Buffer, Out};
use crate::object::comm::NOBODY;
use crate::object::request::pair::{Pair, SendCopy};
use crate::object::request::{Args, Kind, Mode, State};
use crate::object::{Comm, Datatype, Request};
use crate::pt2pt::post::post;
use crate::pt2pt::{receive, send};
use crate::request::{lifecycle, wait};
use contract::abi::{Status, PROC_NULL};

/// MPI_Isendrecv
#[allow(clippy::too_many_arguments)] // those of MPI_Isendrecv
pub fn isendrecv(
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
    request: &mut &'static Request,
) -> i32 {
    let sent = Args::new(sendbuf, sendcount, sendtype, dest, sendtag, comm);
    let received = Args::new(recvbuf, recvcount, recvtype, source, recvtag, comm);
    Out::from(request).give(start(sent, received, None))
}

/// MPI_Isendrecv_replace
#[allow(clippy::too_many_arguments)] // those of MPI_Isendrecv_replace
pub fn isendrecv_replace(
    buf: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    sendtag: i32,
    source: i32,
    recvtag: i32,
    comm: &'static Comm,
    request: &mut &'static Request,
) -> i32 {
    if dest == PROC_NULL {
        return receive::irecv(buf, count, datatype, source, recvtag, comm, request);
    }
    let received = Args::new(buf, count, datatype, source, recvtag, comm);
    let made = SendCopy::of(&received)
        .and_then(|copy| start(copy.message(dest, sendtag, comm), received, Some(copy)));
    Out::from(request).give(made)
}

/// Starts both operations. `copy` is kept until they are over.
fn start(sent: Args, received: Args, copy: Option<SendCopy>) -> Result<&'static Request, i32> {
    let mut receive = post(received)?;
    let started = send::starting(Mode::Standard, sent).and_then(|send| {
        let new = lifecycle::acquire(Kind::Pair, NOBODY, received.comm)?;
        Ok((send, new))
    });
    let (send, new) = match started {
        Ok(started) => started,
        Err(error) => {
            let mut unwanted = Status::EMPTY;
            wait::cancel(&mut receive);
            wait::one(&mut receive, &mut unwanted);
            return Err(error);
        }
    };
    let pair = Pair {
        main: receive,
        other: send,
        _copy: copy,
    };
    new.body.pair.set(Some(Box::new(pair)));
    new.body.state.set(State::Upper);
    Ok(new)
}
