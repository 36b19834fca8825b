//! Sending. A send is counted and goes straight down. A send that blocks below while a checkpoint is pending returns
//! when its receiver, waiting or draining, pulls the message.
//!
//! A process that has made a synchronous send waits for all its sends in the upper half (`synchronous_sends.rs`).
//!
//! Ready mode goes down as standard mode, which MPI allows: after a restart a receive that was posted before the cut is
//! posted again on its rank, but maybe not before the sender goes on.

use crate::argument::{Buffer, Out};
use crate::crossing::thread_level;
use crate::object::comm::peer_of;
use crate::object::request::{synchronous, Args, Kind, Mode};
use crate::object::{Comm, Datatype, Request};
use crate::pt2pt::{persistent_message, send_below as below, synchronous_sends, taken_sends};
use crate::quiesce::progress::polls;
use crate::quiesce::waits::{in_blocking_send, Report};
use crate::record::turns;
use crate::request::wait;
use crate::tools::{self, RECORDED};
use contract::abi::Status;

/// Sends a message in a blocking call.
#[inline(always)]
pub(crate) fn blocking(mode: Mode, message: Args) -> i32 {
    let Args {
        buffer,
        count,
        peer: dest,
        tag,
        datatype,
        comm,
    } = message;
    if thread_level::take_turns() || polls() || synchronous::are_used() || must_not_wait(mode) {
        return by_request(mode, buffer, count, datatype, dest, tag, comm);
    }
    if may_wait(mode, count, datatype) {
        return told(mode, buffer, count, datatype, dest, tag, comm);
    }
    below::send(mode, message)
}

/// Whether the run is recorded or replayed in a way in which no send waits in the library.
#[inline(always)]
fn must_not_wait(mode: Mode) -> bool {
    tools::is_set(RECORDED) && (taken_sends::are_taken(mode) || turns::are_taken())
}

/// Whether a send may wait for its receiver. Libraries take messages of some KiB in any case, and the elements of
/// predefined datatypes have at most 16 bytes. Where a library takes fewer, the numbers of messages still tell who
/// waits for whom.
#[inline(always)]
pub(crate) fn may_wait(mode: Mode, count: i32, datatype: &'static Datatype) -> bool {
    const TAKEN: i32 = 256;
    mode == Mode::Synchronous || count > TAKEN || !datatype.is_predefined()
}

/// Sends a message, and tells beforehand what it is: the library does not return while it waits for the receiver.
#[inline(never)]
fn told(
    mode: Mode,
    buffer: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
) -> i32 {
    let message = Args::new(buffer, count, datatype, dest, tag, comm);
    let mut report = Report::new();
    report.tell_send(comm, peer_of(comm, dest), tag, message.bytes());
    below::send(mode, message)
}

/// Sends a message where threads take turns, since a blocking call would keep all other threads out of the library, or
/// where operations are under way that only the upper half brings forward.
///
/// The arguments are not in a struct: the usual path would have to store the struct in memory.
#[cold]
fn by_request(
    mode: Mode,
    buffer: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
) -> i32 {
    let message = Args::new(buffer, count, datatype, dest, tag, comm);
    let started = starting(mode, message);
    turns::leave();
    let mut request = match started {
        Ok(request) => request,
        Err(error) => return error,
    };
    in_blocking_send(message.bytes(), || {
        wait::one(&mut request, &mut Status { ..Status::EMPTY })
    })
}

/// Starts a send.
#[inline(always)]
pub(crate) fn starting(mode: Mode, message: Args) -> Result<&'static Request, i32> {
    if taken_sends::are_taken(mode) {
        if let Some(taken) = taken_sends::taken(message) {
            return taken;
        }
    }
    below::start(mode, message)
}

/// Makes a persistent send.
fn persistent(mode: Mode, message: Args) -> Result<&'static Request, i32> {
    persistent_message::make(Kind::PersistentSend, mode, message)
}

/// MPI_Send
#[inline]
pub fn send(
    buf: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
) -> i32 {
    let message = Args::new(buf, count, datatype, dest, tag, comm);
    blocking(Mode::Standard, message)
}

/// MPI_Ssend
pub fn ssend(
    buf: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
) -> i32 {
    let message = Args::new(buf, count, datatype, dest, tag, comm);
    match synchronous_sends::begin_use() {
        Ok(()) => blocking(Mode::Synchronous, message),
        Err(error) => error,
    }
}

/// MPI_Bsend
pub fn bsend(
    buf: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
) -> i32 {
    let message = Args::new(buf, count, datatype, dest, tag, comm);
    blocking(Mode::Buffered, message)
}

/// MPI_Rsend
pub fn rsend(
    buf: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
) -> i32 {
    let message = Args::new(buf, count, datatype, dest, tag, comm);
    blocking(Mode::Standard, message)
}

/// MPI_Isend
#[inline]
pub fn isend(
    buf: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
    request: &mut &'static Request,
) -> i32 {
    let message = Args::new(buf, count, datatype, dest, tag, comm);
    Out::from(request).give(starting(Mode::Standard, message))
}

/// MPI_Issend
pub fn issend(
    buf: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
    request: &mut &'static Request,
) -> i32 {
    let message = Args::new(buf, count, datatype, dest, tag, comm);
    let used = synchronous_sends::begin_use();
    Out::from(request).give(used.and_then(|()| starting(Mode::Synchronous, message)))
}

/// MPI_Ibsend
pub fn ibsend(
    buf: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
    request: &mut &'static Request,
) -> i32 {
    let message = Args::new(buf, count, datatype, dest, tag, comm);
    Out::from(request).give(starting(Mode::Buffered, message))
}

/// MPI_Irsend
pub fn irsend(
    buf: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
    request: &mut &'static Request,
) -> i32 {
    let message = Args::new(buf, count, datatype, dest, tag, comm);
    Out::from(request).give(starting(Mode::Standard, message))
}

/// MPI_Send_init
pub fn send_init(
    buf: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
    request: &mut &'static Request,
) -> i32 {
    let message = Args::new(buf, count, datatype, dest, tag, comm);
    Out::from(request).give(persistent(Mode::Standard, message))
}

/// MPI_Ssend_init
pub fn ssend_init(
    buf: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
    request: &mut &'static Request,
) -> i32 {
    let message = Args::new(buf, count, datatype, dest, tag, comm);
    let used = synchronous_sends::begin_use();
    Out::from(request).give(used.and_then(|()| persistent(Mode::Synchronous, message)))
}

/// MPI_Bsend_init
pub fn bsend_init(
    buf: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
    request: &mut &'static Request,
) -> i32 {
    let message = Args::new(buf, count, datatype, dest, tag, comm);
    Out::from(request).give(persistent(Mode::Buffered, message))
}

/// MPI_Rsend_init
pub fn rsend_init(
    buf: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
    request: &mut &'static Request,
) -> i32 {
    let message = Args::new(buf, count, datatype, dest, tag, comm);
    Out::from(request).give(persistent(Mode::Standard, message))
}
