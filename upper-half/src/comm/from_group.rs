//! Communicators of groups: MPI_Comm_create, MPI_Comm_create_group, MPI_Comm_create_from_group.

use crate::argument::Out;
use crate::comm::agreement::among;
use crate::comm::construct::construct;
use crate::comm::lower_group::from_group;
use crate::crossing::mpi_result::check;
use crate::error::errhandler::comm_set_errhandler;
use crate::object::comm::closing::farewell;
use crate::object::comm::comm_id::Hash;
use crate::object::comm::{comm_id, CommBody};
use crate::object::group::{own_world_rank, rank_in};
use crate::object::lower_handle::named;
use crate::object::lower_handle::temporary::{with, LowerGroup};
use crate::object::{Comm, Errhandler, Group, Info};
use contract::abi::*;
use core::ffi::CStr;
use std::sync::Arc;

/// MPI_Comm_create.
pub fn comm_create(comm: &'static Comm, group: &'static Group, new: &mut &'static Comm) -> i32 {
    if group.is_null() {
        return ERR_GROUP;
    }
    Out::from(new).give(construct(
        comm,
        "create",
        comm.body.inter,
        |made| match LowerGroup::of(&group.body.ranks) {
            Ok(group) => with(group, |group| named::MPI_Comm_create(comm, group, made)),
            Err(code) => code,
        },
        |_| Ok(None),
    ))
}

/// MPI_Comm_create_group.
pub fn comm_create_group(
    comm: &'static Comm,
    group: &'static Group,
    tag: i32,
    new: &mut &'static Comm,
) -> i32 {
    if comm.body.size == 0 || comm.body.inter {
        return ERR_COMM;
    }
    if group.is_null() {
        return ERR_GROUP;
    }
    let members = group.body.ranks.clone();
    if rank_in(&members, own_world_rank()).is_none() {
        *new = Comm::null();
        return SUCCESS;
    }
    let id = comm_id::next(
        Hash::new("create_group")
            .add(comm.body.id)
            .add(tag as u64)
            .ranks(&members),
    );
    let body = CommBody::derived(id, members.clone(), None, &comm.body);
    let made =
        body.and_then(|body| among(body, &members, |_, id, made| from_group(&members, id, made)));
    Out::from(new).give(made)
}

/// The name that the members of a group give a constructor, as a number.
pub(crate) fn number_of(stringtag: &CStr) -> u64 {
    Hash::new(&stringtag.to_string_lossy()).finish()
}

/// A communicator of these members, who all call this, with no parent.
pub(crate) fn of_group(
    members: &Arc<[u32]>,
    what: &str,
    number: u64,
) -> Result<&'static Comm, i32> {
    if rank_in(members, own_world_rank()).is_none() {
        return Err(ERR_GROUP);
    }
    let id = comm_id::next(Hash::new(what).add(number).ranks(members));
    let world = Comm::at(comm::COMM_WORLD as u32);
    let body = CommBody::derived(id, members.clone(), None, &world.body)?;
    among(body, members, |_, id, made| from_group(members, id, made))
}

/// Gives a new communicator what it did not get from a parent.
pub(crate) fn furnish(
    made: &'static Comm,
    info: &'static Info,
    handler: &'static Errhandler,
) -> Result<&'static Comm, i32> {
    made.body.take_hints(info.body.entries());
    check(comm_set_errhandler(made, handler)).inspect_err(|_| farewell(made))?;
    Ok(made)
}

/// MPI_Comm_create_from_group.
pub fn comm_create_from_group(
    group: &'static Group,
    stringtag: &CStr,
    info: &'static Info,
    handler: &'static Errhandler,
    new: &mut &'static Comm,
) -> i32 {
    if group.is_null() {
        return ERR_GROUP;
    }
    let members = &group.body.ranks;
    Out::from(new).give(match members.is_empty() {
        true => Ok(Comm::null()),
        false => of_group(members, "from_group", number_of(stringtag))
            .and_then(|made| furnish(made, info, handler)),
    })
}
