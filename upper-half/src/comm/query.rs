//! Queries about communicators, which are answered from the body, and their names and hints.

use crate::argument::{Out, Output};
use crate::object::comm::told_names;
use crate::object::group::compare;
use crate::object::info::make_info;
use crate::object::{Comm, Info};
use crate::reduced::channel;
use contract::abi::*;
use core::ffi::{c_char, CStr};

/// MPI_Comm_rank.
#[inline]
pub fn comm_rank(comm: &'static Comm, mut rank: Out<'_, i32>) -> i32 {
    if comm.body.size == 0 {
        return ERR_COMM;
    }
    rank.set(comm.body.rank);
    SUCCESS
}

/// MPI_Comm_size.
#[inline]
pub fn comm_size(comm: &'static Comm, mut size: Out<'_, i32>) -> i32 {
    if comm.body.size == 0 {
        return ERR_COMM;
    }
    size.set(comm.body.size);
    SUCCESS
}

/// MPI_Comm_remote_size.
pub fn comm_remote_size(comm: &'static Comm, mut size: Out<'_, i32>) -> i32 {
    let Some(remote) = comm.body.remote_members() else {
        return ERR_COMM;
    };
    size.set(remote.len() as i32);
    SUCCESS
}

/// MPI_Comm_test_inter.
pub fn comm_test_inter(comm: &'static Comm, mut flag: Out<'_, i32>) -> i32 {
    if comm.body.size == 0 {
        return ERR_COMM;
    }
    flag.set(i32::from(comm.body.inter));
    SUCCESS
}

/// MPI_Comm_compare.
pub fn comm_compare(a: &'static Comm, b: &'static Comm, mut result: Out<'_, i32>) -> i32 {
    if a.body.size == 0 || b.body.size == 0 {
        return ERR_COMM;
    }
    let found = if a.index() == b.index() {
        IDENT
    } else if a.body.inter != b.body.inter {
        UNEQUAL
    } else {
        let local = compare(&a.body.members, &b.body.members);
        let remote = compare(&a.body.peers, &b.body.peers);
        match (local, remote) {
            (UNEQUAL, _) | (_, UNEQUAL) => UNEQUAL,
            (IDENT, IDENT) => CONGRUENT,
            _ => SIMILAR,
        }
    };
    result.set(found);
    SUCCESS
}

/// MPI_Comm_set_name.
pub fn comm_set_name(comm: &'static Comm, name: &CStr) -> i32 {
    if comm.body.size == 0 {
        return ERR_COMM;
    }
    *comm.body.name.lock() = name.to_owned();
    told_names::set(comm.body.id, name);
    channel::is_named(comm);
    SUCCESS
}

/// MPI_Comm_get_name.
pub fn comm_get_name(
    comm: &'static Comm,
    mut name: Output<'_, c_char>,
    mut length: Out<'_, i32>,
) -> i32 {
    length.set(match comm.is_null() {
        true => name.text(b"MPI_COMM_NULL"),
        false => name.text(comm.body.name.lock().as_bytes()),
    });
    SUCCESS
}

/// MPI_Comm_set_info. Hints are kept for MPI_Comm_get_info; the library below is not told.
pub fn comm_set_info(comm: &'static Comm, info: &'static Info) -> i32 {
    if comm.body.size == 0 {
        return ERR_COMM;
    }
    if info.is_null() {
        return ERR_INFO;
    }
    comm.body.take_hints(info.body.entries());
    SUCCESS
}

/// MPI_Comm_get_info.
pub fn comm_get_info(comm: &'static Comm, out: &mut &'static Info) -> i32 {
    if comm.body.size == 0 {
        return ERR_COMM;
    }
    Out::from(out).give(make_info(comm.body.info()))
}

/// MPI_Comm_get_parent: no application under Stasis was spawned.
pub fn comm_get_parent(parent: &mut &'static Comm) -> i32 {
    *parent = Comm::null();
    SUCCESS
}
