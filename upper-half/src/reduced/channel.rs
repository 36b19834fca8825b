//! The duplicates over which reduced operations go. A communicator gets its own when it is made, so that the first
//! operation needs no other member. Those that were made before the tool was on get theirs in the restart that turned
//! it on.
//!
//! A restart may bring another selection. Members may stand at different calls then: one has left a reduced operation
//! that another has not entered yet, or waits in an operation of the library that another will enter. So they agree,
//! for each communicator, on the last call that belongs to the past.

use crate::comm::numbers::greatest;
use crate::crossing::mpi_result::check;
use crate::object::comm::channel::{select, selection, Channel, Era};
use crate::object::comm::comm_id::{self, Hash};
use crate::object::comm::{told_names, CommBody};
use crate::object::lower_handle::{named, Below, Fresh, Unparked};
use crate::object::{Comm, Errhandler};
use crate::quiesce::wait_loop::is_parked_before;
use crate::tools;
use contract::abi::{comm, errhandler};
use contract::{TOOL_REDUCE, TOOL_REDUCE_VISIBLE};
use core::sync::atomic::Ordering;
use reduction::Selection;
use std::ffi::CString;
use std::sync::Arc;

/// The selection before a restart.
pub(crate) struct Before {
    was_on: bool,
    selection: Arc<Selection>,
}

/// Turns the tool on, if the lower half wants it on, and reads what is selected. Before any communicator is made, or
/// made again. The result is what was before.
pub(crate) fn turn_on() -> Before {
    let wanted = tools::wanted() & TOOL_REDUCE != 0;
    let before = Before {
        was_on: tools::is_set(TOOL_REDUCE),
        selection: selection(),
    };
    if !wanted && !before.was_on {
        return before;
    }
    // Once on, it stays on to count calls.
    tools::set(TOOL_REDUCE, true);
    let text = match wanted {
        true => tools::options(TOOL_REDUCE),
        false => String::new(),
    };
    if tools::wanted() & TOOL_REDUCE_VISIBLE != 0 {
        // It stays on for operations that are under way when a restart turns it off.
        tools::set(TOOL_REDUCE_VISIBLE, true);
    }
    // The command line has been checked. Without the tool nothing is selected.
    select(Arc::new(Selection::parse(&text).unwrap_or_default()));
    before
}

/// The channel of a communicator that was just made below, if there are to be channels. All members call this.
pub(crate) fn of_new(
    made: &Fresh<'_, CommBody>,
    body: &CommBody,
) -> Result<Option<Box<Channel>>, i32> {
    match tools::is_set(TOOL_REDUCE) {
        true => duplicate(made, made.another(), body).map(Some),
        false => Ok(None),
    }
}

fn duplicate(
    made: impl Below<CommBody>,
    mut room: Fresh<'_, CommBody>,
    of: &CommBody,
) -> Result<Box<Channel>, i32> {
    check(named::MPI_Comm_dup(made, &mut room))?;
    let comm = Comm::make_of(room, body_for(of)?)?;
    Ok(Box::new(Channel::new(Some(comm))))
}

/// The body of the duplicate for the channel of `of`.
fn body_for(of: &CommBody) -> Result<CommBody, i32> {
    let id = comm_id::next(Hash::new("channel").add(of.id));
    let remote = of.remote_members().cloned();
    let mut body = CommBody::derived(id, of.members().clone(), remote, of)?;
    body.is_channel = true;
    // Errors are raised over the application's communicator.
    body.errhandler()
        .set(Errhandler::at(errhandler::ERRORS_RETURN as u32));
    set_name(&body, of);
    Ok(body)
}

/// Names the communicator of a channel of `of`, if a profiler sees it.
fn set_name(channel: &CommBody, of: &CommBody) {
    /// Bytes of the longest name that every library stores.
    const MOST: usize = 63;
    if tools::wanted() & TOOL_REDUCE_VISIBLE == 0 {
        return;
    }
    let mut name = format!("stasis: reduced of {}", of.describe()).into_bytes();
    name.truncate(MOST);
    if let Ok(name) = CString::new(name) {
        told_names::set(channel.id, &name);
        *channel.name.lock() = name;
    }
}

/// A communicator has a name now.
pub(crate) fn is_named(comm: &'static Comm) {
    if let Some(channel) = comm.body.channel().and_then(|channel| channel.comm) {
        set_name(&channel.body, &comm.body);
    }
}

/// The channel of a communicator that is being made below, by `make`, which makes another one like that with an id.
pub(crate) fn made_alike(
    of: &CommBody,
    mut room: Fresh<'_, CommBody>,
    make: impl FnOnce(u64, &mut Fresh<'_, CommBody>) -> i32,
) -> Result<Option<Box<Channel>>, i32> {
    if !tools::is_set(TOOL_REDUCE) {
        return Ok(None);
    }
    let body = body_for(of)?;
    check(make(body.id, &mut room))?;
    let comm = Comm::make_of(room, body)?;
    Ok(Some(Box::new(Channel::new(Some(comm)))))
}

/// For the channel of `body`, a duplicate of `parent` that is about to be started: the communicator to start another
/// duplicate of, and its body. The channel of `parent` serves, since nobody else starts operations over that, so that
/// all members start the same ones in the same order. `None` if there is nothing to start.
pub(crate) fn to_be_started(
    parent: &CommBody,
    body: &CommBody,
) -> Result<Option<(&'static Comm, CommBody)>, i32> {
    match parent.channel().map(|channel| channel.comm) {
        None => Ok(None),
        Some(None) => {
            body.take_channel(Box::new(Channel::new(None)));
            Ok(None)
        }
        Some(Some(channel)) => Ok(Some((channel, body_for(body)?))),
    }
}

/// Gives the predefined communicators their channels, in MPI_Init.
pub(crate) fn of_predefined(unparked: &Unparked) -> Result<(), i32> {
    if !tools::is_set(TOOL_REDUCE) {
        return Ok(());
    }
    let world = Comm::at(comm::COMM_WORLD as u32);
    world
        .body
        .take_channel(duplicate(world, unparked.fresh(), &world.body)?);
    let own = Comm::at(comm::COMM_SELF as u32);
    own.body.take_channel(Box::new(Channel::new(None)));
    Ok(())
}

/// In a restart, when all communicators are made again: `all` of the application and of the library in the order of
/// their ids, the same on all members.
pub(crate) fn after_restart(
    all: &[&'static Comm],
    before: &Before,
    unparked: &Unparked,
) -> Result<(), i32> {
    if !tools::is_set(TOOL_REDUCE) {
        return Ok(());
    }
    if !before.was_on {
        of_predefined(unparked)?;
    }
    let world = Comm::at(comm::COMM_WORLD as u32);
    // One member may have dropped a communicator whose channel it still has, and another one not yet.
    let others = all.iter().filter(|comm| !comm.body.is_channel).copied();
    for comm in core::iter::once(world).chain(others) {
        if comm.body.channel().is_none() {
            let made = duplicate(comm, unparked.fresh(), &comm.body)?;
            comm.body.take_channel(made);
        }
        is_named(comm);
        agree(comm, before)?;
    }
    Ok(())
}

/// Agrees on the last call over `comm` that belongs to the time before the restart.
fn agree(comm: &'static Comm, before: &Before) -> Result<(), i32> {
    let Some(channel) = comm.body.channel() else {
        return Ok(());
    };
    let clock = comm.body.clock();
    let parked = clock.is_some_and(is_parked_before);
    let calls = channel.calls.load(Ordering::Relaxed);
    let own = [calls as i64, i64::from(parked)];
    let [until, parked] = everyones(comm, own)?;
    if before.was_on {
        channel.eras.lock().push(Era {
            until: until as u64,
            selection: before.selection.clone(),
        });
    } else if let Some(clock) = clock {
        let begun = clock.seq.load(Ordering::Relaxed);
        channel
            .library_until
            .store(begun + parked as u64, Ordering::Relaxed);
    }
    Ok(())
}

/// The greatest of all members' values. Over an inter-communicator an operation gives those of the other side, so that
/// both sides need a second one.
fn everyones(comm: &'static Comm, own: [i64; 2]) -> Result<[i64; 2], i32> {
    let other = greatest(comm, own)?;
    if !comm.body.inter {
        return Ok(other);
    }
    let both = core::array::from_fn(|place| own[place].max(other[place]));
    let [first, second] = greatest(comm, both)?;
    Ok([both[0].max(first), both[1].max(second)])
}
