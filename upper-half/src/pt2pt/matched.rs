//! Matched probes and receives. A message counts as received when it is matched, because no other receive can take it
//! then. The drain receives messages that the application has in hand at the cut into upper-half memory, from which
//! they are served.
//!
//! # Safety
//! A crossing that matches a message writes its lower handle to a local. The front promises that a buffer is valid, see
//! [`Buffer`].
#![allow(unsafe_code)]

use crate::argument::{Buffer, Out};
use crate::crossing::stubs::service;
use crate::object::comm::{peer_of, NOBODY};
use crate::object::lower_handle::{named, Slot};
use crate::object::message::MessageBody;
use crate::object::request::{Args, Kind, State};
use crate::object::table::Body;
use crate::object::unexpected::{Entry, Queue};
use crate::object::{unexpected, Comm, Datatype, Message, Request};
use crate::perturb::open_probes::Attempt;
use crate::perturb::{self, open_probes, BY_THE_APPLICATION};
use crate::pt2pt::vain_probes::{self, Pattern};
use crate::pt2pt::{post, probe, receipts};
use crate::quiesce::{bookmarks, progress, wait_loop};
use crate::record::turns;
use crate::request::{error_origin, lifecycle, wait};
use crate::runtime::lock::multiple;
use contract::abi::{Status, ERR_REQUEST, PROC_NULL, SUCCESS};
use contract::waits::SOME_AMOUNT;
use contract::{abi, Phase, INTERRUPTED};
use core::cell::Cell;

/// The message of MPI_PROC_NULL.
fn no_process() -> &'static Message {
    Message::at(abi::message::MESSAGE_NO_PROC as u32)
}

/// Takes an early message in hand.
fn from_early(
    mut entry: Box<Entry>,
    comm: &'static Comm,
) -> Result<(&'static Message, Status), i32> {
    receipts::give(&mut entry);
    let status = entry.status();
    comm.retain();
    let body = MessageBody {
        comm: Some(comm),
        status,
        entry: Cell::new(Some(entry)),
    };
    Ok((Message::make(Message::null_lower(), body)?, status))
}

/// Takes a message in hand that the lower half has matched under `lower handle`.
fn from_below(
    lower_handle: usize,
    comm: &'static Comm,
    status: &Status,
) -> Result<&'static Message, i32> {
    bookmarks::received(peer_of(comm, status.source));
    comm.retain();
    let body = MessageBody {
        comm: Some(comm),
        status: *status,
        entry: Cell::new(None),
    };
    Message::make(lower_handle, body)
}

/// Looks for a message, first among the early ones, then below. With several threads in MPI the
/// queue is locked for both, so that nobody pulls in between.
fn find(
    source: i32,
    tag: i32,
    comm: &'static Comm,
) -> Result<Option<(&'static Message, Status)>, i32> {
    if source == PROC_NULL {
        return Ok(Some((no_process(), Status::PROC_NULL)));
    }
    let mut queue = None;
    if unexpected::any() || multiple() {
        let queue = queue.insert(unexpected::queue());
        if let Some(entry) = queue.take(comm, source, tag) {
            return from_early(entry, comm).map(Some);
        }
    }
    let Some(looking) = vain_probes::look(Pattern::new(source, tag, comm)) else {
        return Ok(None);
    };
    let (mut flag, mut found, mut status) = (0, Slot::empty(), Status::EMPTY);
    let place = Some(&mut status);
    let error = named::MPI_Improbe(source, tag, comm, &mut flag, &mut found, place);
    drop(queue);
    match (error, flag) {
        (SUCCESS, 0) => {
            looking.was_in_vain();
            Ok(None)
        }
        (SUCCESS, _) => Ok(Some((
            from_below(found.into_word(), comm, &status)?,
            status,
        ))),
        (error, _) => Err(error),
    }
}

/// Gives the application a message that was found.
fn hand_over(
    found: Result<(&'static Message, Status), i32>,
    message: &mut &'static Message,
    status: &mut Status,
) -> i32 {
    match found {
        Ok((found, seen)) => {
            (*message, *status) = (found, seen);
            SUCCESS
        }
        Err(error) => error,
    }
}

/// MPI_Mprobe. Returns `INTERRUPTED` where [`has_another_record`](crate::record::mode::has_another_record).
pub fn mprobe(
    source: i32,
    tag: i32,
    comm: &'static Comm,
    message: &mut &'static Message,
    status: Option<&mut Status>,
) -> i32 {
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    if perturb::is_on() {
        if let Some(entry) = open_probes::wait(source, tag, comm, Queue::take_at) {
            return hand_over(from_early(entry, comm), message, status);
        }
    }
    loop {
        let found = if source == PROC_NULL || unexpected::any() || probe::asks_below() {
            turns::look(|| find(source, tag, comm).transpose()).transpose()
        } else {
            let mut lower_handle = 0;
            // SAFETY: a handle of a live object, numbers, a local, and a place for a status.
            match unsafe {
                service::mprobe(source, tag, comm.lower(), &raw mut lower_handle, status)
            } {
                INTERRUPTED => Ok(None),
                SUCCESS => {
                    from_below(lower_handle, comm, status).map(|message| Some((message, *status)))
                }
                error => Err(error),
            }
        };
        if let Some(found) = found.transpose() {
            return hand_over(found, message, status);
        }
        // A message that it sees is taken in hand above.
        if let Err(interrupted) = probe::until_found(source, tag, comm) {
            return interrupted;
        }
    }
}

/// MPI_Improbe
pub fn improbe(
    source: i32,
    tag: i32,
    comm: &'static Comm,
    mut flag: Out<'_, i32>,
    message: &mut &'static Message,
    status: Option<&mut Status>,
) -> i32 {
    let mut own = Status::EMPTY;
    let status = status.unwrap_or(&mut own);
    flag.set(0);
    if perturb::is_on() {
        match open_probes::attempt(source, tag, comm, BY_THE_APPLICATION, Queue::take_at) {
            Attempt::Finds(entry) => {
                flag.set(1);
                return hand_over(from_early(entry, comm), message, status);
            }
            Attempt::Misses => {
                wait_loop::look_around(progress::phase());
                return SUCCESS;
            }
            Attempt::IsUsual => {}
        }
    }
    let mut found = find(source, tag, comm);
    let phase = progress::phase();
    if (phase != Phase::Run || progress::polls()) && matches!(found, Ok(None)) {
        wait_loop::look_around(phase);
        found = find(source, tag, comm);
        match found {
            Ok(None) if phase == Phase::Run => {}
            Ok(None) => wait_loop::polled(|waits| waits.message(comm, source, tag, SOME_AMOUNT)),
            _ => wait_loop::moving(),
        }
    }
    flag.set(i32::from(matches!(found, Ok(Some(_)))));
    match found.transpose() {
        Some(found) => hand_over(found, message, status),
        None => SUCCESS,
    }
}

/// MPI_Mrecv
pub fn mrecv(
    buf: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    message: &mut &'static Message,
    status: Option<&mut Status>,
) -> i32 {
    let mut own = Status::EMPTY;
    let mut request = Request::null();
    let error = imrecv(buf, count, datatype, message, &mut request);
    turns::leave();
    if error != SUCCESS {
        return error;
    }
    wait::one(&mut request, status.unwrap_or(&mut own))
}

/// MPI_Imrecv
pub fn imrecv(
    buf: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    message: &mut &'static Message,
    request: &mut &'static Request,
) -> i32 {
    let body = &message.body;
    if message.is_null() {
        return ERR_REQUEST;
    }
    let Status { source, tag, .. } = body.status;
    let comm = body.comm.unwrap_or_else(Comm::null);
    let args = Args::new(buf, count, datatype, source, tag, comm);
    let new = match lifecycle::acquire(Kind::Matched, NOBODY, comm) {
        Ok(new) => new,
        Err(error) => return error,
    };
    let mut error = SUCCESS;
    match (body.comm, body.entry.take()) {
        (Some(_), Some(entry)) => {
            // A receive that has its message already; it is not counted again.
            new.body.kind.set(Kind::Receive);
            new.keep(args);
            post::give(new, entry);
        }
        (Some(_), None) => {
            let mut lower_handle = Request::null_lower();
            let (from, place) = (message.lower_ptr(), &raw mut lower_handle);
            // SAFETY: the buffer may be written until the receive ends, see `Buffer`. The message's lower handle is
            // used up. The request's lower handle is a local.
            error = unsafe { named::MPI_Imrecv(buf.as_ptr(), count, datatype, from, place) };
            if error == SUCCESS {
                new.keep(args);
                new.started(lower_handle);
            }
        }
        (None, _) => {
            new.keep(args);
            new.complete(&Status::PROC_NULL, SUCCESS);
        }
    }
    if error != SUCCESS {
        error_origin::outcome(new, error);
        new.abandon();
        return error;
    }
    message.release();
    *message = Message::null();
    debug_assert!(new.body.state.get() != State::Free);
    *request = new;
    SUCCESS
}

/// Receives the messages that the application has in hand into upper-half memory, as far as they
/// are not there yet; whether all have arrived.
/// For the drain, while no other thread is in MPI.
pub(crate) fn save() -> Result<bool, i32> {
    let mut all = true;
    for message in MessageBody::table().dynamic() {
        let body = &message.body;
        let Some(comm) = body.comm else { continue };
        let mut entry = body.entry.take().unwrap_or_else(|| {
            // The entry has the message from here on.
            Entry::matched(comm, &body.status, message.leave().into_word())
        });
        let looked = entry.look();
        body.entry.set(Some(entry));
        all &= looked?;
    }
    Ok(all)
}
