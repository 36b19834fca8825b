//! Posting receives. A receive takes the early message that it matches, or goes to the lower half. While there are no
//! early messages that costs one load. With several threads in MPI, the queue of early messages is locked while a
//! receive is posted.
//!
//! # Safety
//! The front promises that a buffer is valid, see [`Buffer`](crate::argument::Buffer).
#![allow(unsafe_code)]

use crate::crossing::mpi_result::check;
use crate::object::comm::{peer_of, NOBODY};
use crate::object::lower_handle::named;
use crate::object::request::{Args, Kind, Posting, State};
use crate::object::unexpected::Entry;
use crate::object::{unexpected, Comm, Request};
use crate::perturb::open_receives;
use crate::pt2pt::receipts;
use crate::record::{bindings, mode, receives};
use crate::request::lifecycle;
use crate::runtime::lock::multiple;
use crate::tools::{self, is_only, RECORDED};
use contract::abi::{Status, PROC_NULL, SUCCESS};
use contract::TOOL_PERTURB;

/// World rank that a receive from `source` waits for, if it is one.
#[inline(always)]
pub(crate) fn peer_for(comm: &'static Comm, source: i32) -> u32 {
    if source < 0 {
        NOBODY
    } else {
        peer_of(comm, source)
    }
}

/// Whether the call that posts a receive also waits for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waits {
    /// It does not.
    No,
    /// It sends before.
    AfterSend,
    /// It does nothing else.
    AtOnce,
}

/// Posts a receive of the application, or gives it the early message that it matches.
#[inline(always)]
pub(crate) fn post(args: Args) -> Result<&'static Request, i32> {
    if tools::is_set(RECORDED | TOOL_PERTURB) {
        return post_with_tools(args, Waits::No);
    }
    post_as_is(args)
}

/// The same for a call that waits for the receive.
#[cold]
pub(crate) fn post_and_wait(args: Args, waits: Waits) -> Result<&'static Request, i32> {
    match tools::is_set(RECORDED | TOOL_PERTURB) {
        true => post_with_tools(args, waits),
        false => post_as_is(args),
    }
}

/// Posts a receive while the run is recorded, replayed or perturbed.
#[cold]
fn post_with_tools(args: Args, waits: Waits) -> Result<&'static Request, i32> {
    if args.peer == PROC_NULL || tools::untold() {
        return post_as_is(args);
    }
    let request = lifecycle::acquire(Kind::Receive, peer_for(args.comm, args.peer), args.comm)?;
    let posted = match mode::is_on() {
        // Nothing about it is open. A restart, too, must not take it for one with a number.
        true if waits != Waits::No && !bindings::is_wild(&args) => {
            request.body.posting.set(Posting::Unnumbered);
            Some(args)
        }
        true => receives::posting(request, args),
        false => Some(args),
    };
    match posted {
        Some(args) if open_receives::keeps(request, args, waits == Waits::AtOnce) => Ok(request),
        // As without tools. One that holds messages back may have some of them in the queue at any time.
        Some(args) if is_only(RECORDED) && !(unexpected::any() || multiple()) => {
            post_below(request, args)
        }
        Some(args) => post_beside_queue(request, args),
        None => {
            request.keep(args);
            Ok(request)
        }
    }
}

/// Posts a receive as if there were no tools.
#[inline(always)]
pub(crate) fn post_as_is(args: Args) -> Result<&'static Request, i32> {
    let request = lifecycle::acquire(Kind::Receive, peer_for(args.comm, args.peer), args.comm)?;
    if args.peer == PROC_NULL {
        // Done here: not every library gives such a receive the status that MPI asks for.
        request.keep(args);
        request.complete(&Status::PROC_NULL, SUCCESS);
        return Ok(request);
    }
    if unexpected::any() || multiple() {
        return post_beside_queue(request, args);
    }
    post_below(request, args)
}

#[inline(always)]
fn post_below(request: &'static Request, args: Args) -> Result<&'static Request, i32> {
    let lower_handle = irecv_below(args).inspect_err(|_| request.abandon())?;
    request.keep(args);
    request.posted();
    request.started(lower_handle);
    Ok(request)
}

#[inline(always)]
fn irecv_below(args: Args) -> Result<usize, i32> {
    let mut lower_handle = Request::null_lower();
    // SAFETY: the buffer may be written until the receive ends, see `Buffer`. The lower handle is a local.
    let error = unsafe {
        named::MPI_Irecv(
            args.buffer.as_ptr(),
            args.count,
            args.datatype,
            args.peer,
            args.tag,
            args.comm,
            &raw mut lower_handle,
        )
    };
    check(error).map(|()| lower_handle)
}

#[cold]
fn post_beside_queue(request: &'static Request, args: Args) -> Result<&'static Request, i32> {
    let mut queue = unexpected::queue();
    match queue.take(args.comm, args.peer, args.tag) {
        Some(entry) => {
            drop(queue);
            request.keep(args);
            give(request, entry);
            Ok(request)
        }
        // The queue stays locked meanwhile.
        None => post_below(request, args),
    }
}

/// Posts a receive late, which has kept its arguments. The queue is locked meanwhile.
pub(crate) fn post_late(request: &'static Request) -> Result<(), i32> {
    let lower_handle = irecv_below(request.body.args.get())?;
    request.body.state.set(State::Active);
    request.posted();
    request.started(lower_handle);
    Ok(())
}

/// Gives a receive its early message; done at once if that has arrived.
pub(crate) fn give(request: &'static Request, mut entry: Box<Entry>) {
    receipts::give(&mut entry);
    let Args {
        buffer,
        count,
        datatype,
        ..
    } = request.body.args.get();
    if mode::is_on() {
        bindings::given(request, entry.envelope.source, entry.envelope.tag);
    }
    // SAFETY: the buffer may be written until the receive ends, see `Buffer`.
    let arrived = unsafe { entry.is_for(buffer.as_ptr(), count, datatype) };
    request.body.entry.set(Some(entry));
    if arrived {
        // No sweep delivers it too: the request is not yet one that sweeps look for.
        deliver(request);
    } else {
        request.body.state.set(State::Upper);
    }
}

/// Puts the early message of a receive, which has arrived, into its buffer.
pub(crate) fn deliver(request: &'static Request) {
    let Some(entry) = request.body.entry.take() else {
        return;
    };
    let args = request.body.args.get();
    let mut status = Status::EMPTY;
    let buffer = args.buffer.as_ptr();
    // SAFETY: the buffer may be written until the receive ends, see `Buffer`.
    let error = unsafe { entry.deliver(buffer, args.count, args.datatype, &mut status) };
    request.complete(&status, error);
}
