//! Receives that wait: the digest of what they got.

use crate::argument::Buffer;
use crate::object::{Comm, Datatype, Message};
use crate::pt2pt::{self, matched, receive};
use crate::record::digests;
use crate::record::mode::is_on;
use crate::tools::untold;
use contract::abi::{Status, SUCCESS};

/// Calls a receive with a place for its status, and takes the digest of what it got.
#[inline(always)]
fn noted(
    buffer: Buffer<'static>,
    datatype: &'static Datatype,
    comm: Option<&'static Comm>,
    status: Option<&mut Status>,
    call: impl FnOnce(Option<&mut Status>) -> i32,
) -> i32 {
    if !is_on() || !digests::are_taken() || untold() {
        return call(status);
    }
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    let error = call(Some(&mut *status));
    if let (SUCCESS, Some(comm)) = (error, comm) {
        digests::of_message(buffer, datatype, comm, status);
    }
    error
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
    noted(buf, datatype, Some(comm), status, |status| {
        receive::recv(buf, count, datatype, source, tag, comm, status)
    })
}

/// MPI_Mrecv
pub fn mrecv(
    buf: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    message: &mut &'static Message,
    status: Option<&mut Status>,
) -> i32 {
    let comm = message.body.comm;
    noted(buf, datatype, comm, status, |status| {
        matched::mrecv(buf, count, datatype, message, status)
    })
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
    noted(recvbuf, recvtype, Some(comm), status, |status| {
        receive::sendrecv(
            sendbuf, sendcount, sendtype, dest, sendtag, recvbuf, recvcount, recvtype, source,
            recvtag, comm, status,
        )
    })
}

/// MPI_Sendrecv_replace
#[allow(clippy::too_many_arguments)] // those of MPI_Sendrecv_replace
pub fn sendrecv_replace(
    buf: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    sendtag: i32,
    source: i32,
    recvtag: i32,
    comm: &'static Comm,
    status: Option<&mut Status>,
) -> i32 {
    noted(buf, datatype, Some(comm), status, |status| {
        pt2pt::sendrecv_replace(
            buf, count, datatype, dest, sendtag, source, recvtag, comm, status,
        )
    })
}
