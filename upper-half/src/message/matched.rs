//! Matched probes and receives. A message counts as received when it is matched, for then nobody
//! else can have it. One that the application has in hand at the cut is received into upper-half
//! memory by the drain, and served from there.
//!
//! # Safety
//! Places for flags, messages and statuses are the caller's. A message's entry pointer comes from
//! `Box::into_raw` and is owned by that message.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // the same for all: see above

use super::counts::{self, peer_of, NOBODY};
use super::request::{self, Args, Kind, State};
use super::unexpected::{self, Entry};
use super::{batch, blame, park, probe, receive, sweep, wait};
use crate::lower::{self, service};
use crate::object::{Body, Comm, Datatype, Message, Request};
use crate::sync::multiple;
use contract::abi::{self, Status, ERR_REQUEST, PROC_NULL, SUCCESS};
use contract::{HandleKind, Phase, INTERRUPTED};
use core::cell::Cell;
use core::ffi::c_void;

/// What a matched message adds to an object.
pub struct MessageBody {
    comm: Option<&'static Comm>,
    /// What the probe told of it.
    status: Status,
    /// The message, if it is in the upper half already; otherwise the object's word stands for it.
    entry: Cell<Option<*mut Entry>>,
}

impl Body for MessageBody {
    const KIND: HandleKind = HandleKind::Message;
    const CAPACITY: u32 = 1 << 20;
    const NULL: usize = abi::message::MESSAGE_NULL;
    const PREDEFINED: &'static [(&'static str, usize)] = abi::message::ALL;

    crate::object_table!(MessageBody);

    fn predefined(_index: u32) -> Self {
        MessageBody {
            comm: None,
            status: Status::PROC_NULL,
            entry: Cell::new(None),
        }
    }

    fn retire(message: &'static Message) {
        if let Some(comm) = message.body.comm {
            comm.release();
        }
    }
}

/// The message of MPI_PROC_NULL.
fn no_process() -> &'static Message {
    Message::at(abi::message::MESSAGE_NO_PROC as u32)
}

/// Takes an early message in hand.
fn from_early(entry: Box<Entry>, comm: &'static Comm) -> Result<(&'static Message, Status), i32> {
    let status = entry.status();
    comm.retain();
    let body = MessageBody {
        comm: Some(comm),
        status,
        entry: Cell::new(Some(Box::into_raw(entry))),
    };
    Ok((Message::make(Message::null_word(), body)?, status))
}

/// Takes a message in hand that the lower half has matched under `word`.
fn from_below(word: usize, comm: &'static Comm, status: &Status) -> Result<&'static Message, i32> {
    counts::received(peer_of(comm, status.source));
    comm.retain();
    let body = MessageBody {
        comm: Some(comm),
        status: *status,
        entry: Cell::new(None),
    };
    Message::make(word, body)
}

/// Looks for a message, first among the early ones, then below. With several threads in MPI the
/// queue is locked for both, so that nobody pulls in between.
unsafe fn find(
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
    let (mut flag, mut word, mut status) = (0, 0, Status::EMPTY);
    // SAFETY: writes the three variables.
    let error = unsafe {
        lower::MPI_Improbe(
            source,
            tag,
            comm.lower(),
            &raw mut flag,
            &raw mut word,
            &raw mut status,
        )
    };
    drop(queue);
    match (error, flag) {
        (SUCCESS, 0) => Ok(None),
        (SUCCESS, _) => Ok(Some((from_below(word, comm, &status)?, status))),
        (error, _) => Err(error),
    }
}

/// MPI_Mprobe
pub unsafe fn mprobe(
    source: i32,
    tag: i32,
    comm: &'static Comm,
    message: *mut &'static Message,
    status: *mut Status,
) -> i32 {
    let mut own = Status::EMPTY;
    // SAFETY: a place for a status if it is not null.
    let status = unsafe { status.as_mut() }.unwrap_or(&mut own);
    loop {
        let found = if source == PROC_NULL || unexpected::any() || multiple() {
            // SAFETY: crosses.
            unsafe { find(source, tag, comm) }
        } else {
            let mut word = 0;
            // SAFETY: places for a message and a status.
            match unsafe { service::mprobe(source, tag, comm.lower(), &raw mut word, status) } {
                INTERRUPTED => Ok(None),
                SUCCESS => from_below(word, comm, status).map(|message| Some((message, *status))),
                error => Err(error),
            }
        };
        match found {
            Ok(Some((found, seen))) => {
                *status = seen;
                // SAFETY: the caller's place for a message.
                unsafe { message.write(found) };
                return SUCCESS;
            }
            Ok(None) => {}
            Err(error) => return error,
        }
        // SAFETY: a probe that found nothing leaves nothing in the lower half.
        unsafe {
            let mut asked = false;
            probe::until_found(source, tag, comm, || {
                // With several threads this loop does the asking, once in each round.
                multiple() && core::mem::replace(&mut asked, true)
            });
        }
    }
}

/// MPI_Improbe
pub unsafe fn improbe(
    source: i32,
    tag: i32,
    comm: &'static Comm,
    flag: *mut i32,
    message: *mut &'static Message,
    status: *mut Status,
) -> i32 {
    let mut own = Status::EMPTY;
    // SAFETY: the caller's places.
    let (flag, status) = unsafe { (&mut *flag, status.as_mut().unwrap_or(&mut own)) };
    *flag = 0;
    // SAFETY: crosses.
    let mut found = unsafe { find(source, tag, comm) };
    let phase = sweep::phase();
    if phase != Phase::Run && matches!(found, Ok(None)) {
        // SAFETY: crossings without further conditions.
        unsafe {
            park::look_around(phase);
            found = find(source, tag, comm);
            match found {
                Ok(None) => park::polled(|set| batch::receive_waits_for(comm, source, set)),
                _ => park::moving(),
            }
        }
    }
    match found {
        Ok(Some((found, seen))) => {
            (*flag, *status) = (1, seen);
            // SAFETY: the caller's place for a message.
            unsafe { message.write(found) };
            SUCCESS
        }
        Ok(None) => SUCCESS,
        Err(error) => error,
    }
}

/// MPI_Mrecv
pub unsafe fn mrecv(
    buf: *mut c_void,
    count: i32,
    datatype: &'static Datatype,
    message: *mut &'static Message,
    status: *mut Status,
) -> i32 {
    let mut own = Status::EMPTY;
    let mut request = Request::null();
    // SAFETY: as promised by the caller.
    unsafe {
        let error = imrecv(buf, count, datatype, message, &raw mut request);
        if error != SUCCESS {
            return error;
        }
        wait::one(&mut request, status.as_mut().unwrap_or(&mut own))
    }
}

/// MPI_Imrecv
pub unsafe fn imrecv(
    buf: *mut c_void,
    count: i32,
    datatype: &'static Datatype,
    message: *mut &'static Message,
    request: *mut &'static Request,
) -> i32 {
    // SAFETY: the caller's message.
    let message = unsafe { &mut *message };
    let body = &message.body;
    if message.is_null() {
        return ERR_REQUEST;
    }
    let new = match request::acquire(Kind::Matched, NOBODY, body.comm.unwrap_or_else(Comm::null)) {
        Ok(new) => new,
        Err(error) => return error,
    };
    let mut error = SUCCESS;
    match (body.comm, body.entry.take()) {
        (Some(comm), Some(entry)) => {
            // A receive that has its message already; it is not counted again.
            new.body.kind.set(Kind::Receive);
            new.keep(Args {
                buffer: buf as usize,
                count,
                peer: body.status.source,
                tag: body.status.tag,
                datatype,
                comm,
            });
            // SAFETY: the message's own entry; the application's buffer.
            unsafe { receive::give(new, Box::from_raw(entry)) };
        }
        (Some(_), None) => {
            let mut word = Request::null().lower();
            // SAFETY: the message's word, which is used up, and a place for the request's.
            error = unsafe {
                lower::MPI_Imrecv(
                    buf,
                    count,
                    datatype.lower(),
                    message.lower_ptr(),
                    &raw mut word,
                )
            };
            if error == SUCCESS {
                new.started(word);
            }
        }
        (None, _) => {
            new.settle(&Status::PROC_NULL, SUCCESS);
        }
    }
    if error != SUCCESS {
        blame::outcome(new, error);
        new.abandon();
        return error;
    }
    message.release();
    *message = Message::null();
    debug_assert!(new.body.state.get() != State::Free);
    // SAFETY: the caller's place for a request.
    unsafe { request.write(new) };
    SUCCESS
}

/// Receives the messages that the application has in hand into upper-half memory, as far as they
/// are not there yet; whether all have arrived.
///
/// # Safety
/// Crosses; for the drain, while no other thread is in MPI.
pub(super) unsafe fn save() -> Result<bool, i32> {
    let mut all = true;
    for message in MessageBody::table().dynamic() {
        let body = &message.body;
        let Some(comm) = body.comm else { continue };
        let entry = match body.entry.get() {
            Some(entry) => entry,
            None => {
                let mut word = message.lower();
                // SAFETY: the word stands for the message, and is used up.
                let entry = unsafe { Entry::pull(comm, &body.status, &mut word)? };
                message.set_lower(Message::null_word());
                let entry = Box::into_raw(entry);
                body.entry.set(Some(entry));
                entry
            }
        };
        // SAFETY: the message's own entry.
        all &= unsafe { (*entry).look() };
    }
    Ok(all)
}
