//! Constructors that are collective over the *new* communicator's members only. They count in its own clock. Before
//! that the members wait for each other by messages, like ranks that receive from each other: a checkpoint is taken
//! while some of them wait for one that comes late, and none blocks below for a rank that has parked.
//!
//! # Safety
//! Messages are sent from locals and received into locals.
#![allow(unsafe_code)]

use crate::argument::{pass, App};
use crate::comm::lower_group::below_tag;
use crate::crossing::mpi_result::check;
use crate::object::comm::internal::sync_comm;
use crate::object::comm::CommBody;
use crate::object::group::own_world_rank;
use crate::object::lower_handle::Fresh;
use crate::object::{Comm, Datatype};
use crate::pt2pt::{receive, send};
use crate::quiesce::collective_gate::{collective_begin_unmade, collective_end};
use crate::reduced::channel;
use crate::request::lifecycle::DUPLICATIONS;
use crate::runtime::lock;
use contract::abi::*;
use core::sync::atomic::Ordering;

/// Runs a constructor that is collective over the new communicator's members only. `call` gets the states of the
/// members, see [`meet`], an id, and the room for what it makes. The channel is made in the same way, and not of the
/// new communicator: in Open MPI that would wait for duplicates under way (`comm::dup`).
pub(crate) fn among(
    body: CommBody,
    everyone: &[u32],
    call: impl Fn(u8, u64, &mut Fresh<'_, CommBody>) -> i32,
) -> Result<&'static Comm, i32> {
    let at = meet(everyone, body.id)?;
    // A member that is held back here must not have the object yet: members that have not come so far do not have it
    // either, and a restart would miss it there.
    let token = collective_begin_unmade(&body);
    let made = Comm::make(Comm::null_lower(), body).and_then(|made| {
        let mut below = token.fresh();
        check(call(at, made.body.id, &mut below)).inspect_err(|_| made.release())?;
        let channel =
            channel::made_alike(&made.body, token.fresh(), |id, below| call(at, id, below));
        if let Some(channel) = channel? {
            made.body.take_channel(channel);
        }
        made.take(below);
        Ok(made)
    });
    collective_end(token);
    made
}

/// Threads of a process may be in MPI at the same time.
pub(crate) const THREADS: u8 = 1;
/// A process has a non-blocking duplication under way.
const DUPLICATING: u8 = 2;

/// Returns when all of `everyone` (world ranks, the same order for all) have come here for `id`. The result is the
/// union of their states ([`THREADS`], [`DUPLICATING`]).
fn meet(everyone: &[u32], id: u64) -> Result<u8, i32> {
    let own = own_world_rank();
    let mut at = if lock::multiple() { THREADS } else { 0 };
    if DUPLICATIONS.load(Ordering::Relaxed) > 0 {
        at |= DUPLICATING;
    }
    let Some((&first, rest)) = everyone.split_first() else {
        return Ok(at);
    };
    let tag = below_tag(id);
    let byte = Datatype::at(datatype::BYTE as u32);
    let tell = |rank: u32, at: u8| {
        let at = (&raw const at).cast_mut().cast();
        // SAFETY: one byte, which is there until the send has ended.
        let at = unsafe { pass(App(at)) };
        check(send::send(at, 1, byte, rank as i32, tag, sync_comm()))
    };
    let hear = |rank: u32| {
        let mut at = 0u8;
        // SAFETY: one byte, which is there until the receive has ended.
        let place = unsafe { pass(App((&raw mut at).cast())) };
        let code = receive::recv(place, 1, byte, rank as i32, tag, sync_comm(), None);
        check(code).map(|()| at)
    };
    if own == first {
        for &rank in rest {
            at |= hear(rank)?;
        }
        rest.iter().try_for_each(|&rank| tell(rank, at))?;
        Ok(at)
    } else {
        tell(first, at)?;
        hear(first)
    }
}
