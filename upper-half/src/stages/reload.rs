//! The reload: MPI goes back to the state at the end of an epoch. A survivor does it in MPIX_Checkpoint_read, a rank
//! that was started anew in MPI_Init. Both initialise the library below, have the same communicators, make them in the
//! same order, and meet in a barrier.
//!
//! A survivor keeps datatypes, operations, error handlers, attributes and persistent requests that it has.
//! Communicators and groups that were made since are gone, those that were freed since are back under the same handle.
//!
//! # Safety
//! The thread is inside of a call, so that it does not park. Services get places of locals.
#![allow(unsafe_code)]

use super::files::{begun, load};
use super::handles::KEPT;
use super::record::{predefined, CommRecord, Record};
use super::state::{is_broken, BROKEN, EPOCH, ON};
use crate::attribute::predefined::TAG_UB_LIMIT;
use crate::crossing::mpi_result::check;
use crate::crossing::report::fatal;
use crate::crossing::stubs::service;
use crate::crossing::thread_level;
use crate::error::class;
use crate::object::comm::closing::CLOSING;
use crate::object::comm::internal::{internal_world, sync_comm};
use crate::object::comm::{collective_clock, comm_id, CommBody, NOT_STARTED};
use crate::object::group::GroupBody;
use crate::object::lower_handle::{named, Unparked};
use crate::object::request::{Kind, State};
use crate::object::table::Body;
use crate::object::{Comm, Errhandler, Group, Request};
use crate::quiesce::bookmarks;
use crate::request::lifecycle;
use crate::restore_objects::{self, Failure};
use contract::abi::*;
use core::sync::atomic::Ordering;
use std::sync::Arc;

/// What a job ends with that cannot be brought back (`stasis --help`).
const REFUSED: i32 = 5;

/// MPIX_Checkpoint_read.
pub(super) fn read() -> i32 {
    if !is_broken() {
        return SUCCESS;
    }
    or_die(in_survivor(), "MPIX_Checkpoint_read");
    SUCCESS
}

/// In MPI_Init, when the library below is initialised: a rank that was started anew goes on where the survivors do.
pub(crate) fn in_init() {
    let Some((epoch, incarnation)) = begun() else {
        return;
    };
    ON.store(true, Ordering::Relaxed);
    // No thread may be in the library when another rank dies: a send that waits there asks again and again.
    thread_level::never_wait_below();
    if epoch > 0 {
        or_die(in_new_rank(epoch, incarnation), "MPI_Init");
    }
}

fn or_die<T>(result: Result<T, Failure>, function: &str) {
    if let Err((code, what)) = result {
        let text = class::text_of(code).unwrap_or_default();
        fatal(
            &format!("{function} cannot go on from the last epoch: {what}: {text}"),
            REFUSED,
        )
    }
}

fn record_of(epoch: u64) -> Result<Record, Failure> {
    load(epoch).ok_or_else(|| {
        (
            ERR_IO,
            format!("the state of MPI in epoch {epoch} is damaged or lost"),
        )
    })
}

fn in_survivor() -> Result<(), Failure> {
    let (epoch, incarnation) = begun().ok_or_else(|| {
        (
            ERR_OTHER,
            "the job does not run under MPI Stages any more".to_owned(),
        )
    })?;
    let record = record_of(epoch)?;
    let (mut provided, mut tag_ub) = (THREAD_SINGLE, TAG_UB_LIMIT);
    // SAFETY: places of two locals.
    let up = unsafe { service::init(thread_level::level(), &raw mut provided, &raw mut tag_ub) };
    check(up).map_err(|code| (code, "the MPI library cannot be initialised".to_owned()))?;
    drop_requests(&record);
    drop_communicators(&record);
    put_back(&record)?;
    // SAFETY: see the head.
    let unparked = unsafe { Unparked::new() };
    restore_objects::remake(&unparked)?;
    finish(record, epoch, incarnation)
}

fn in_new_rank(epoch: u64, incarnation: u32) -> Result<(), Failure> {
    let record = record_of(epoch)?;
    put_back(&record)?;
    for (comm, errhandler) in predefined().into_iter().zip(record.errhandlers) {
        comm.body.errhandler().set(Errhandler::at(errhandler));
    }
    // SAFETY: see the head.
    let unparked = unsafe { Unparked::new() };
    restore_objects::communicators(&unparked)?;
    finish(record, epoch, incarnation)
}

/// All ranks begin to count anew, and wait for each other.
fn finish(record: Record, epoch: u64, incarnation: u32) -> Result<(), Failure> {
    collective_clock::count_anew();
    bookmarks::count_anew();
    // Ids of communicators that were made before the fault may be in use on some ranks.
    comm_id::derive_anew(incarnation);
    *KEPT.lock() = record.kept;
    EPOCH.store(epoch, Ordering::Relaxed);
    BROKEN.store(false, Ordering::Relaxed);
    check(named::MPI_Barrier(internal_world()))
        .map_err(|code| (code, "the ranks cannot meet".to_owned()))
}

/// Drops all requests but inactive persistent ones of communicators that stay.
fn drop_requests(record: &Record) {
    lifecycle::reap();
    let lives = |request: &Request| request.body.state.get() != State::Free;
    // First those that hold others, which they give back.
    for pair in [true, false] {
        for request in lifecycle::all() {
            let kind = request.body.kind.get();
            if !lives(request) || (kind == Kind::Pair) != pair {
                continue;
            }
            if kind.is_persistent_below() && stays(request.body.args.get().comm, record) {
                request.body.state.set(State::Inactive);
                request.body.cancelling.set(false);
            } else {
                request.recycle();
            }
        }
    }
}

/// Whether a communicator is there after the reload.
fn stays(comm: &Comm, record: &Record) -> bool {
    comm.is_predefined() || comm.index() == sync_comm().index() || record.has(comm)
}

/// Drops communicators that were made since, and forgets that others were freed.
fn drop_communicators(record: &Record) {
    CLOSING.lock().clear();
    for comm in CommBody::table().dynamic() {
        // It is void, and a release must not give it to the library.
        comm.clear_lower();
        comm.body.freed.store(false, Ordering::Relaxed);
        comm.body.farewell.store(NOT_STARTED, Ordering::Relaxed);
        if !stays(comm, record) {
            comm.release();
        }
    }
}

/// Makes the objects of communicators and groups that are in the record and not here, under the same handles.
fn put_back(record: &Record) -> Result<(), Failure> {
    for comm in &record.communicators {
        let here = CommBody::table().get(comm.index);
        if here.is_none_or(|here| here.body.id != comm.id) {
            let what = |code| {
                (
                    code,
                    format!("communicator {}", comm.name.to_string_lossy()),
                )
            };
            let body = body_of(comm).map_err(what)?;
            Comm::make_at(comm.index, Comm::null_lower(), body).map_err(what)?;
        }
    }
    let is_recorded = |group: &Group| {
        let mut all = record.groups.iter();
        all.any(|known| known.index == group.index() && known.ranks[..] == group.body.ranks[..])
    };
    for group in GroupBody::table()
        .dynamic()
        .filter(|group| !is_recorded(group))
    {
        group.release();
    }
    for group in &record.groups {
        if GroupBody::table().get(group.index).is_none() {
            let body = GroupBody {
                ranks: Arc::from(&group.ranks[..]),
            };
            let what = |code| (code, format!("a group of {} processes", group.ranks.len()));
            Group::make_at(group.index, 0, body).map_err(what)?;
        }
    }
    Ok(())
}

fn body_of(record: &CommRecord) -> Result<CommBody, i32> {
    let [world, _] = predefined();
    let remote = record.remote.as_deref().map(Arc::from);
    let mut body = CommBody::derived(
        record.id,
        Arc::from(&record.members[..]),
        remote,
        &world.body,
    )?;
    body.topology = record.topology.clone();
    body.errhandler().set(Errhandler::at(record.errhandler));
    *body.name.lock() = record.name.clone();
    Ok(body)
}
