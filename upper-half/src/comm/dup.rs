//! Duplicates of communicators, blocking and non-blocking.
//!
//! # Safety
//! The crossing gets places for the lower handles of what it starts.
#![allow(unsafe_code)]

use crate::argument::Out;
use crate::attribute::callbacks;
use crate::comm::construct::{construct, derive};
use crate::crossing::mpi_result::check;
use crate::object::comm::channel::{shown, Channel};
use crate::object::comm::closing::farewell;
use crate::object::comm::internal::sync_comm;
use crate::object::comm::CommBody;
use crate::object::info::crossing_info;
use crate::object::lower_handle::named;
use crate::object::lower_handle::temporary::with;
use crate::object::{Comm, Info, Request};
use crate::quiesce::collective_gate::{collective_begin, collective_end, Token};
use crate::reduced::channel;
use crate::request::lifecycle::{orphan, DUPLICATIONS};
use crate::request::started_operation::{duplication_request, request_of_both};
use contract::abi::*;
use core::sync::atomic::Ordering;
use std::ffi::CString;

/// Copies the parent's attributes, by the callbacks of the application, to a duplicate. When one of
/// them fails the duplicate is freed and the error given.
fn with_attributes(parent: &'static Comm, made: &'static Comm) -> Result<&'static Comm, i32> {
    let handle = parent.handle();
    match callbacks::copy(&parent.body.attributes, &made.body.attributes, handle) {
        SUCCESS => Ok(made),
        code => {
            farewell(made);
            Err(code)
        }
    }
}

/// MPI_Comm_dup.
pub fn comm_dup(comm: &'static Comm, new: &mut &'static Comm) -> i32 {
    if let Some(made) = shown() {
        *new = made;
        return SUCCESS;
    }
    let made = construct(
        comm,
        "dup",
        comm.body.inter,
        |made| named::MPI_Comm_dup(comm, made),
        |_| Ok(comm.body.topology.clone()),
    );
    Out::from(new).give(made.and_then(|made| {
        made.body.take_hints(comm.body.info());
        with_attributes(comm, made)
    }))
}

/// MPI_Comm_dup_with_info.
pub fn comm_dup_with_info(
    comm: &'static Comm,
    info: &'static Info,
    new: &mut &'static Comm,
) -> i32 {
    let made = construct(
        comm,
        "dup",
        comm.body.inter,
        |made| {
            with(crossing_info(info), |info| {
                named::MPI_Comm_dup_with_info(comm, info, made)
            })
        },
        |_| Ok(comm.body.topology.clone()),
    );
    Out::from(new).give(made.and_then(|made| {
        made.body.take_hints(info.body.entries());
        with_attributes(comm, made)
    }))
}

/// MPI_Comm_idup. The new communicator gets its lower handle when the request is complete: before that
/// neither the application nor a drain may use it.
pub fn comm_idup(
    comm: &'static Comm,
    new: &mut &'static Comm,
    request: &mut &'static Request,
) -> i32 {
    idup(comm, comm.body.info(), new, request)
}

/// MPI_Comm_idup_with_info. Hints are kept for MPI_Comm_get_info; the library below is not told.
pub fn comm_idup_with_info(
    comm: &'static Comm,
    info: &'static Info,
    new: &mut &'static Comm,
    request: &mut &'static Request,
) -> i32 {
    idup(comm, info.body.entries(), new, request)
}

fn idup(
    comm: &'static Comm,
    hints: Vec<(CString, CString)>,
    new: &mut &'static Comm,
    request: &mut &'static Request,
) -> i32 {
    if comm.body.size == 0 {
        return ERR_COMM;
    }
    // The application's callbacks run before the operation counts: no cut could fall into them
    // between that and its start below.
    let body = match duplicate(comm) {
        Ok(body) => {
            body.take_hints(hints);
            body
        }
        Err(code) => return code,
    };
    let token = collective_begin(comm);
    let started = start(comm, body, &token);
    collective_end(token);
    match started {
        Ok((made, handle)) => {
            *request = handle;
            *new = made;
            SUCCESS
        }
        Err(code) => code,
    }
}

/// Starts the duplication, and with it that of the channel, so that both are operations of one call. The request is
/// that of both.
fn start(
    comm: &'static Comm,
    body: CommBody,
    token: &Token,
) -> Result<(&'static Comm, &'static Request), i32> {
    let Some((over, channel_body)) = channel::to_be_started(&comm.body, &body)? else {
        return start_dup(dup_below(comm), body, token);
    };
    let (channel, other) = start_dup(over, channel_body, token)?;
    body.take_channel(Box::new(Channel::new(Some(channel))));
    // If something fails, what was started goes on by itself.
    let (made, main) = start_dup(dup_below(comm), body, token).inspect_err(|_| orphan(other))?;
    let both = request_of_both(comm, main, other).inspect_err(|_| {
        orphan(main);
        orphan(other);
    })?;
    Ok((made, both))
}

/// Body of a duplicate, with the attributes that the application's callbacks have copied. A callback that fails keeps
/// the duplication from being started at all.
fn duplicate(comm: &'static Comm) -> Result<CommBody, i32> {
    let members = comm.body.members().clone();
    let remote = comm.body.remote_members().cloned();
    let id = derive("dup", comm.body.id, &members, remote.as_deref());
    let mut body = CommBody::derived(id, members, remote, &comm.body)?;
    body.topology = comm.body.topology.clone();
    check(callbacks::copy(
        &comm.body.attributes,
        &body.attributes,
        comm.handle(),
    ))?;
    Ok(body)
}

/// The communicator that is duplicated below, which has the same processes. While a duplicate of a communicator is
/// under way, Open MPI lets constructors over younger ones wait. The communicator over which `lower_group::from_group`
/// makes one is younger than the world: members that had not started the duplicate yet would wait there for those that
/// have.
fn dup_below(comm: &'static Comm) -> &'static Comm {
    let world = Comm::at(comm::COMM_WORLD as u32);
    match comm.index() == world.index() {
        true => sync_comm(),
        false => comm,
    }
}

/// Starts a non-blocking duplication of `of`, which gives `body` its lower handle when the request is complete.
fn start_dup(
    of: &'static Comm,
    body: CommBody,
    token: &Token,
) -> Result<(&'static Comm, &'static Request), i32> {
    let made = Comm::make(Comm::null_lower(), body)?;
    let (mut lower_handle, mut request) = (Comm::null_lower(), Request::null_lower());
    // Open MPI and MPICH both write the new handle before they return.
    // SAFETY: see the module's head.
    match unsafe { named::MPI_Comm_idup(of, &raw mut lower_handle, &raw mut request) } {
        SUCCESS => {
            DUPLICATIONS.fetch_add(1, Ordering::Relaxed);
            let request = duplication_request(token, request, (made, lower_handle))?;
            Ok((made, request))
        }
        code => {
            made.release();
            Err(code)
        }
    }
}
