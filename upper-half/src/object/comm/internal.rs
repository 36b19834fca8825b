//! The communicators that Stasis itself uses, and the group of all processes.
//!
//! # Safety
//! The pointer to a communicator is set once, in MPI_Init.
#![allow(unsafe_code)]

use crate::crossing::mpi_result::check;
use crate::object::comm::{Comm, CommBody};
use crate::object::group::GroupBody;
use crate::object::lower_handle::{named, Fresh, Slot, Unparked};
use contract::abi::*;
use core::sync::atomic::{AtomicPtr, Ordering};

static INTERNAL_WORLD: Slot<CommBody> = Slot::empty();
static INTERNAL_SELF: Slot<CommBody> = Slot::empty();
static WORLD_GROUP: Slot<GroupBody> = Slot::empty();
pub(crate) static SYNC: AtomicPtr<Comm> = AtomicPtr::new(core::ptr::null_mut());

/// The duplicate of MPI_COMM_WORLD that the drain uses, and constructors for what the library
/// below tells other ranks in messages. It is never swept.
pub(crate) fn internal_world() -> &'static Slot<CommBody> {
    &INTERNAL_WORLD
}

/// The duplicate of MPI_COMM_SELF that the drain uses.
pub(crate) fn internal_self() -> &'static Slot<CommBody> {
    &INTERNAL_SELF
}

/// The group of all processes.
pub(crate) fn world_group() -> &'static Slot<GroupBody> {
    &WORLD_GROUP
}

/// A duplicate of MPI_COMM_WORLD whose messages are drained like the application's: constructors
/// that must wait for each other by messages use it.
pub(crate) fn sync_comm() -> &'static Comm {
    // SAFETY: set in MPI_Init to an object that lives for ever.
    unsafe { &*SYNC.load(Ordering::Acquire) }
}

/// Makes the communicators that this library uses itself, and gives what is below [`sync_comm`]. Every rank calls this.
pub(crate) fn make_internal(unparked: &Unparked) -> Result<Fresh<'_, CommBody>, i32> {
    let world = Comm::at(comm::COMM_WORLD as u32);
    let own = Comm::at(comm::COMM_SELF as u32);
    let duplicate = |of| {
        let mut made = unparked.fresh();
        check(named::MPI_Comm_dup(of, &mut made)).map(|()| made)
    };
    INTERNAL_WORLD.take(duplicate(world)?);
    let sync = duplicate(world)?;
    INTERNAL_SELF.take(duplicate(own)?);
    // Of the duplicate: MPICH 4.0 makes no communicator of a group over one that was not asked
    // for its own before (it crashes).
    let mut group = unparked.fresh();
    check(named::MPI_Comm_group(internal_world(), &mut group))?;
    WORLD_GROUP.take(group);
    Ok(sync)
}
