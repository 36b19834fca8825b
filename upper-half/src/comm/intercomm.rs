//! Inter-communicators. The leaders exchange their groups and tell their own group; then all members of both sides make
//! the communicator together.
//!
//! # Safety
//! The leaders exchange arrays with their lengths.
#![allow(unsafe_code)]
#![allow(clippy::too_many_arguments)] // MPI's own signatures

use crate::argument::{pass, App, Out};
use crate::comm::agreement::{among, THREADS};
use crate::comm::construct::construct;
use crate::comm::from_group::{furnish, number_of, of_group};
use crate::comm::lower_group::{below_tag, from_group, sides};
use crate::comm::numbers::{greatest, tell};
use crate::crossing::mpi_result::{check, code_of};
use crate::object::comm::closing::farewell;
use crate::object::comm::comm_id::Hash;
use crate::object::comm::internal::internal_world;
use crate::object::comm::{comm_id, CommBody};
use crate::object::group::own_world_rank;
use crate::object::lower_handle::{named, Fresh};
use crate::object::{Comm, Datatype, Errhandler, Group, Info};
use crate::pt2pt::receive;
use crate::quiesce::collective_gate::collective_end;
use crate::quiesce::retractable::first_call;
use contract::abi::*;
use core::ffi::CStr;
use std::sync::Arc;

/// MPI_Intercomm_create_from_groups. Only the leader knows the remote group. It tells the others over a communicator of
/// the local group.
pub fn intercomm_create_from_groups(
    local_group: &'static Group,
    local_leader: i32,
    remote_group: &'static Group,
    _remote_leader: i32,
    stringtag: &CStr,
    info: &'static Info,
    handler: &'static Errhandler,
    new: &mut &'static Comm,
) -> i32 {
    if local_group.is_null() {
        return ERR_GROUP;
    }
    let members = &local_group.body.ranks;
    if usize::try_from(local_leader).map_or(true, |leader| leader >= members.len()) {
        return ERR_RANK;
    }
    let number = number_of(stringtag);
    let local = match of_group(members, "local_group", number) {
        Ok(local) => local,
        Err(code) => return code,
    };
    let other = match local.body.rank == local_leader {
        true if !remote_group.body.ranks.is_empty() => Ok(Other {
            members: remote_group.body.ranks.to_vec(),
            number,
        }),
        _ => Err(ERR_GROUP),
    };
    let other = tell_group(local, local_leader, other);
    let made = other
        .and_then(|other| connect(local, other))
        .and_then(|made| furnish(made, info, handler));
    farewell(local);
    Out::from(new).give(made)
}

/// The part of an inter-communicator that its leader has agreed on and tells its group.
struct Other {
    /// World ranks of the remote group.
    members: Vec<u32>,
    /// Tells this inter-communicator from what other threads make of the same groups meanwhile.
    number: u64,
}

/// MPI_Intercomm_create. The leaders exchange their groups over the peer communicator, as the
/// standard's tag is for, and tell their groups; then all members of both know each other.
pub fn intercomm_create(
    local_comm: &'static Comm,
    local_leader: i32,
    peer_comm: &'static Comm,
    remote_leader: i32,
    tag: i32,
    new: &mut &'static Comm,
) -> i32 {
    if local_comm.body.size == 0 || local_comm.body.inter {
        return ERR_COMM;
    }
    if local_leader < 0 || local_leader >= local_comm.body.size {
        return ERR_RANK;
    }
    let members = local_comm.body.members();
    let mut other = Err(ERR_COMM);
    if local_comm.body.rank == local_leader {
        // Threads may use one tag, each over a peer communicator of its own.
        let number = Hash::new("peer").add(peer_comm.body.id).add(tag as u64);
        other = exchange(members, peer_comm, remote_leader, tag).map(|members| Other {
            members,
            number: number.finish(),
        });
    }
    let other = tell_group(local_comm, local_leader, other);
    Out::from(new).give(other.and_then(|other| connect(local_comm, other)))
}

/// Makes the inter-communicator once both groups are known to all.
fn connect(local_comm: &'static Comm, other: Other) -> Result<&'static Comm, i32> {
    let members = local_comm.body.members().clone();
    let remote: Arc<[u32]> = Arc::from(other.members);
    let (first, second) = sides(&members, &remote);
    let id = comm_id::next(
        Hash::new("intercomm")
            .add(other.number)
            .ranks(first)
            .ranks(second),
    );
    let (everyone, half) = ([first, second].concat(), first.len());
    let leaders = (members[0], *remote.first().ok_or(ERR_COMM)?);
    let body = CommBody::derived(id, members, Some(remote), &local_comm.body)?;
    among(body, &everyone, |at, id, made| match at {
        THREADS => join_halves(&everyone, half, id, made),
        _ => join(local_comm, leaders, id, made),
    })
}

/// A communicator that is below only, and only for as long as others are made of it.
struct Temporary<'a>(Fresh<'a, CommBody>);

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.0.is_null() {
            named::MPI_Comm_free(&mut self.0);
        }
    }
}

/// Makes the inter-communicator `id` below, of what `local` is on each side. Any member may lead there; the
/// first ones (world ranks: our own, and the other) do. Open MPI and MPICH both tell the leaders' messages apart by
/// the communicator alone and not by the tag, so the leaders get a communicator for this: threads that make several
/// between the same two would take each other's messages. No sweep looks into it, nor into the one that it is made
/// over: a sweep would take a leader's message for one of ours when the other leader is slow.
fn join(local: &'static Comm, leaders: (u32, u32), id: u64, made: &mut Fresh<'_, CommBody>) -> i32 {
    let (own, other) = leaders;
    let (rank, tag) = (i32::from(own < other), below_tag(id));
    if own_world_rank() != own {
        // A library asks the leaders alone for a communicator between them.
        return named::MPI_Intercomm_create(local, 0, internal_world(), rank, tag, made);
    }
    let mut between = Temporary(made.another());
    match from_group(&[own.min(other), own.max(other)], id, &mut between.0) {
        SUCCESS => named::MPI_Intercomm_create(local, 0, &between.0, rank, tag, made),
        code => code,
    }
}

/// The same where threads may make several at the same time. The first `half` of `everyone` are one side.
///
/// Threads of a process may have several constructors under way. Open MPI 4.1 lets the one over the communicator with
/// the lowest context id go first. The ids of an inter-communicator's local communicators need not be the same, least
/// of all after a restart. If they stand in another order on the other side, each side waits for the other for ever.
/// Parts of one split have the same id.
///
/// This is not for a member that has started a duplicate which others may only start afterwards: the duplicate would
/// let the younger communicators here wait.
fn join_halves(everyone: &[u32], half: usize, id: u64, made: &mut Fresh<'_, CommBody>) -> i32 {
    let is_second = everyone[half..].contains(&own_world_rank());
    let leader = if is_second { 0 } else { half as i32 };
    let mut all = Temporary(made.another());
    let code = from_group(everyone, id, &mut all.0);
    if code != SUCCESS {
        return code;
    }
    let mut local = Temporary(made.another());
    match named::MPI_Comm_split(&all.0, i32::from(is_second), 0, &mut local.0) {
        SUCCESS => named::MPI_Intercomm_create(&local.0, 0, &all.0, leader, below_tag(id), made),
        code => code,
    }
}

/// Exchanges the groups between the leaders.
fn exchange(
    members: &[u32],
    peer_comm: &'static Comm,
    remote_leader: i32,
    tag: i32,
) -> Result<Vec<u32>, i32> {
    let uint = Datatype::at(datatype::UINT32_T as u32);
    let swap = |out: &[u32], into: &mut [u32]| {
        let (sent, received) = (out.as_ptr().cast_mut().cast(), into.as_mut_ptr().cast());
        // SAFETY: both slices are passed with their lengths, and are there until the exchange has ended.
        let (sent, received) = unsafe { (pass(App(sent)), pass(App(received))) };
        check(receive::sendrecv(
            sent,
            out.len() as i32,
            uint,
            remote_leader,
            tag,
            received,
            into.len() as i32,
            uint,
            remote_leader,
            tag,
            peer_comm,
            None,
        ))
    };
    let mut length = [0];
    swap(&[members.len() as u32], &mut length)?;
    let mut remote = vec![0; length[0] as usize];
    swap(members, &mut remote)?;
    Ok(remote)
}

/// Tells a group what its leader has agreed on, or the error that kept the leader from that. The first call is a
/// reduction and not a broadcast, since the leader would return from that before a late member has come.
fn tell_group(comm: &'static Comm, leader: i32, other: Result<Other, i32>) -> Result<Other, i32> {
    let own = match (&other, comm.body.rank == leader) {
        (Ok(other), true) => [0, other.members.len() as i64, other.number as i64],
        (Err(code), true) => [i64::from(*code), 0, 0],
        (_, false) => [i64::MIN; 3],
    };
    let mut head = own;
    let (token, code) = first_call(comm, &mut |code| {
        *code = code_of(greatest(comm, own).map(|all| head = all));
    });
    let [failed, length, number] = head;
    let told = check(code)
        .and_then(|()| check(failed as i32))
        .and_then(|()| {
            let mut members = match other {
                Ok(other) if comm.body.rank == leader => other.members,
                _ => vec![0; length as usize],
            };
            tell(comm, leader, &mut members)?;
            Ok(Other {
                members,
                number: number as u64,
            })
        });
    collective_end(token);
    told
}

/// MPI_Intercomm_merge.
pub fn intercomm_merge(intercomm: &'static Comm, high: i32, new: &mut &'static Comm) -> i32 {
    if !intercomm.body.inter {
        return ERR_COMM;
    }
    Out::from(new).give(construct(
        intercomm,
        "merge",
        false,
        |made| named::MPI_Intercomm_merge(intercomm, high, made),
        |_| Ok(None),
    ))
}
