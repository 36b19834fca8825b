//! Partitioned communication: a message to which many threads contribute. All partitions travel in one message when the
//! last is ready, which MPI allows: they arrive at once. So libraries before MPI 4 have it too, and the two sides may
//! partition their buffers differently.
//!
//! A send belongs to a receive by the order in which both are made, among those of the same communicator, ranks and
//! tag; not by the order in which they are started, and apart from all other messages. So a send has a channel, a tag
//! of a communicator of our own, and announces it to the receiver when it is made. A receive that has been started
//! before its announcement has arrived waits for it in the upper half (`partition_matching.rs`).
//!
//! The application's request stands for another, an ordinary persistent one over that communicator. A cut finds that
//! one, and a restart makes it again.

use crate::argument::{Buffer, Input, Out};
use crate::attribute::predefined::TAG_UB_LIMIT;
use crate::crossing::mpi_result::code_of;
use crate::datatype::large_count;
use crate::object::comm::internal::sync_comm;
use crate::object::comm::{peer_of, NOBODY};
use crate::object::request::partitioned::{
    Announcement, Matching, Partitioned, ANNOUNCEMENT, FIRST_CHANNEL, MATCHING,
};
use crate::object::request::{Args, Kind, State};
use crate::object::{Comm, Datatype, Info, Request};
use crate::profile;
use crate::pt2pt::partition_matching::{open, start_whole};
use crate::pt2pt::tell::tell;
use crate::quiesce::waits::Waits;
use crate::request::request_array::ArrayState;
use crate::request::{lifecycle, test};
use contract::abi;
use contract::abi::{ERR_ARG, ERR_REQUEST, PROC_NULL, SUCCESS};
use core::cell::Cell;
use core::sync::atomic::{AtomicI32, Ordering};

impl Partitioned {
    /// What it waits for: the sender, of a receive.
    pub(crate) fn waits_for(&self, waits: &mut Waits) {
        match self.sends {
            true => waits.something(),
            false => waits.message_of(self.peer, self.tag),
        }
    }
}

impl Matching {
    /// A tag for a channel: those that are used again belong to sends of long ago.
    fn next_channel(&mut self) -> i32 {
        self.channel = match self.channel {
            TAG_UB_LIMIT => FIRST_CHANNEL,
            channel => channel + 1,
        };
        self.channel
    }

    fn announce(&mut self, to: u32, announcement: Announcement) -> Result<(), i32> {
        tell(&mut self.told, to, ANNOUNCEMENT, announcement)
    }
}

/// Makes a request for a message of `partitions` times `count` elements.
fn make(
    sends: bool,
    (buffer, partitions, count): (Buffer<'static>, i32, i64),
    datatype: &'static Datatype,
    (rank, tag): (i32, i32),
    comm: &'static Comm,
) -> Result<&'static Request, i32> {
    if partitions < 0 || count < 0 {
        return Err(ERR_ARG);
    }
    let all = count.checked_mul(partitions.into()).ok_or(ERR_ARG)?;
    let fold = large_count::fold(all, datatype)?;
    let nobody = rank == PROC_NULL;
    let peer = if nobody { NOBODY } else { peer_of(comm, rank) };
    if !nobody && peer == NOBODY {
        return Err(abi::ERR_RANK);
    }
    let request = lifecycle::acquire(Kind::Partitioned, peer, comm)?;
    request.body.partitioned.set(Some(Box::new(Partitioned {
        whole: Cell::new(None),
        sends,
        partitions,
        missing: AtomicI32::new(0),
        peer,
        source: rank,
        tag,
        repeated: profile::repeated(Some((all, Some(datatype)))),
    })));
    request.body.state.set(State::Inactive);
    let mut args = Args {
        buffer,
        count: fold.count(),
        peer: if nobody { PROC_NULL } else { peer as i32 },
        tag,
        datatype: fold.datatype(),
        comm: sync_comm(),
    };
    let mut matching = MATCHING.lock();
    let made = match (sends, nobody) {
        (true, _) => {
            args.tag = matching.next_channel();
            let announcement = Announcement {
                comm: comm.body.id,
                tag: tag.into(),
                channel: args.tag.into(),
            };
            open(request, Kind::PersistentSend, args).and_then(|()| match nobody {
                true => Ok(()),
                false => matching.announce(peer, announcement),
            })
        }
        (false, true) => open(request, Kind::PersistentReceive, args),
        (false, false) => {
            args.datatype.retain();
            matching.waiting.push((request, comm.body.id, args));
            matching.bring_together()
        }
    };
    drop(matching);
    made.map(|()| request).inspect_err(|_| request.recycle())
}

/// MPI_Start.
pub(crate) fn start(request: &'static Request) -> i32 {
    let Some(held) = request.partitioned() else {
        return ERR_REQUEST;
    };
    profile::starts_again(held.repeated);
    // The thread that finds the announcement of a receive starts the receive.
    let _matching = MATCHING.lock();
    held.missing.store(held.partitions, Ordering::Relaxed);
    request.body.state.set(State::Upper);
    let starts_now = match held.sends {
        true => held.partitions == 0,
        false => held.whole.get().is_some(),
    };
    if !starts_now {
        return SUCCESS;
    }
    let started = start_whole(request);
    code_of(started.inspect_err(|_| request.body.state.set(State::Inactive)))
}

/// MPI_Psend_init
#[allow(clippy::too_many_arguments)] // those of MPI_Psend_init
pub fn psend_init(
    buf: Buffer<'static>,
    partitions: i32,
    count: i64,
    datatype: &'static Datatype,
    dest: i32,
    tag: i32,
    comm: &'static Comm,
    _info: &'static Info,
    request: &mut &'static Request,
) -> i32 {
    let what = (buf, partitions, count);
    Out::from(request).give(make(true, what, datatype, (dest, tag), comm))
}

/// MPI_Precv_init
#[allow(clippy::too_many_arguments)] // those of MPI_Precv_init
pub fn precv_init(
    buf: Buffer<'static>,
    partitions: i32,
    count: i64,
    datatype: &'static Datatype,
    source: i32,
    tag: i32,
    comm: &'static Comm,
    _info: &'static Info,
    request: &mut &'static Request,
) -> i32 {
    let what = (buf, partitions, count);
    Out::from(request).give(make(false, what, datatype, (source, tag), comm))
}

/// More partitions of a send that has been started are ready.
fn ready(request: &'static Request, partitions: impl Iterator<Item = i32>) -> i32 {
    let held = request.partitioned().filter(|held| held.sends);
    let started = request.body.state.get() == State::Upper;
    let Some(held) = held.filter(|_| started) else {
        return ERR_REQUEST;
    };
    for partition in partitions {
        if !(0..held.partitions).contains(&partition) {
            return ERR_ARG;
        }
        if held.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            if let Err(error) = start_whole(request) {
                return error;
            }
        }
    }
    SUCCESS
}

/// MPI_Pready
pub fn pready(partition: i32, request: &'static Request) -> i32 {
    ready(request, core::iter::once(partition))
}

/// MPI_Pready_range
pub fn pready_range(low: i32, high: i32, request: &'static Request) -> i32 {
    ready(request, low..=high)
}

/// MPI_Pready_list
pub fn pready_list(length: i32, partitions: Input<'_, i32>, request: &'static Request) -> i32 {
    if length < 0 {
        return ERR_ARG;
    }
    ready(request, partitions.iter())
}

/// MPI_Parrived
pub fn parrived(request: &'static Request, partition: i32, mut flag: Out<'_, i32>) -> i32 {
    let Some(held) = request.partitioned().filter(|held| !held.sends) else {
        return ERR_REQUEST;
    };
    if !(0..held.partitions).contains(&partition) {
        return ERR_ARG;
    }
    let is_under_way = || request.body.state.get() == State::Upper;
    if is_under_way() {
        test::look_here(&[request], ArrayState::all);
    }
    flag.set(i32::from(!is_under_way()));
    SUCCESS
}
