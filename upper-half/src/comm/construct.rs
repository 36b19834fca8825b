//! Constructors that are collective over the parent. Such a constructor counts in the parent's clock; the new
//! communicator's clock is visible before the constructor is marked as left.
//!
//! The one call below in which members wait for each other comes first: until it has returned to a member, a checkpoint
//! may be placed before the constructor (`quiesce/retractable.rs`). What follows needs no other member.

use crate::comm::free;
use crate::comm::lower_group::{members_below, sides};
use crate::crossing::mpi_result::check;
use crate::object::comm::comm_id::Hash;
use crate::object::comm::topology::Topology;
use crate::object::comm::{comm_id, CommBody};
use crate::object::lower_handle::{Fresh, Slot};
use crate::object::Comm;
use crate::quiesce::collective_gate::collective_end;
use crate::quiesce::retractable::first_call;
use crate::reduced::channel;
use contract::abi::*;

pub(crate) fn derive(what: &str, parent: u64, members: &[u32], remote: Option<&[u32]>) -> u64 {
    let hash = Hash::new(what).add(parent);
    comm_id::next(match remote {
        None => hash.ranks(members),
        Some(remote) => {
            let (first, second) = sides(members, remote);
            hash.ranks(first).ranks(second)
        }
    })
}

/// Makes the object of what a constructor over `parent` made below.
fn adopt(
    parent: &'static Comm,
    what: &str,
    made: Fresh<'_, CommBody>,
    inter: bool,
    topology: impl FnOnce(&Fresh<'_, CommBody>) -> Result<Option<Topology>, i32>,
) -> Result<&'static Comm, i32> {
    if made.is_null() {
        return Ok(Comm::null());
    }
    let members = members_below(&made, false)?;
    let remote = if inter {
        Some(members_below(&made, true)?)
    } else {
        None
    };
    let id = derive(what, parent.body.id, &members, remote.as_deref());
    let mut body = CommBody::derived(id, members, remote, &parent.body)?;
    body.topology = topology(&made)?;
    if let Some(channel) = channel::of_new(&made, &body)? {
        body.take_channel(channel);
    }
    Comm::make_of(made, body)
}

/// Runs a constructor that is collective over `parent`. `call` makes the lower communicator in the room that it
/// is given, and may do so again; `topology` gets what was made.
pub(crate) fn construct(
    parent: &'static Comm,
    what: &str,
    inter: bool,
    mut call: impl FnMut(&mut Slot<CommBody>) -> i32,
    topology: impl FnOnce(&Fresh<'_, CommBody>) -> Result<Option<Topology>, i32>,
) -> Result<&'static Comm, i32> {
    if parent.body.size == 0 {
        return Err(ERR_COMM);
    }
    free::sweep();
    let mut made = Slot::null();
    let (token, code) = first_call(parent, &mut |code| {
        made = Slot::null();
        *code = call(&mut made);
    });
    let made = token.took(made);
    let result = check(code).and_then(|()| adopt(parent, what, made, inter, topology));
    collective_end(token);
    result
}
