//! The operation that a request stands for: its kind, its state, and its arguments.

use crate::argument::Buffer;
use crate::object::comm::Comm;
use crate::object::datatype::Datatype;
use contract::abi;
use core::sync::atomic::{AtomicU8, Ordering};

/// What kind of operation a request stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// MPI_Isend and its modes.
    Send,
    /// MPI_Irecv, and a blocking receive that a checkpoint interrupted.
    Receive,
    /// MPI_Imrecv: matched and counted already, so it is finished at the cut like a send.
    Matched,
    /// A non-blocking collective operation.
    Collective,
    /// An operation on a window: finished at the cut, like a send.
    Access,
    /// An operation of one process on a file: finished at the cut, like a send.
    File,
    /// A collective operation on a file: the same. Those of one file are asked for one after the other.
    FileCollective,
    /// MPI_Grequest_start; nothing lies below.
    Generalized,
    /// MPI_Send_init and its modes.
    PersistentSend,
    /// MPI_Recv_init.
    PersistentReceive,
    /// MPI_Bcast_init and its like: every start is a non-blocking collective operation of its own.
    PersistentCollective,
    /// MPI_Psend_init and MPI_Precv_init: a persistent request that the application does not know moves
    /// all partitions at once.
    Partitioned,
    /// MPI_Isendrecv, and MPI_Comm_idup with a channel: two operations, each with a request that the application does
    /// not know.
    Pair,
}

impl Kind {
    /// Whether the request outlives its operation.
    #[inline(always)]
    pub(crate) fn is_persistent(self) -> bool {
        self.is_persistent_below() || matches!(self, Kind::PersistentCollective | Kind::Partitioned)
    }

    /// Whether it is a persistent request of the lower half too.
    #[inline(always)]
    pub(crate) fn is_persistent_below(self) -> bool {
        matches!(self, Kind::PersistentSend | Kind::PersistentReceive)
    }

    /// Whether it is a collective operation while it is under way.
    pub(crate) fn is_collective(self) -> bool {
        matches!(self, Kind::Collective | Kind::PersistentCollective)
    }

    /// Whether it is a receive that matches a message when it is posted or later.
    #[inline(always)]
    pub(crate) fn is_receive(self) -> bool {
        matches!(self, Kind::Receive | Kind::PersistentReceive)
    }
}

/// Where a request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// On the list of entries for the next use.
    Free,
    /// A persistent request that is not started, and the null request: complete with the empty
    /// status whenever asked.
    Inactive,
    /// Under way in the lower half, under the request's lower handle.
    Active,
    /// A receive that has an early message which is still arriving, or is not posted (`Posting::Held`), a generalized
    /// request, or one that stands for others.
    Upper,
    /// Finished, not yet collected by the application.
    Done,
}

/// A state that another thread may change: MPI_Grequest_complete, or a sweep.
pub(crate) struct StateCell(AtomicU8);

impl StateCell {
    pub(crate) const fn new(state: State) -> Self {
        StateCell(AtomicU8::new(state as u8))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> State {
        match self.0.load(Ordering::Acquire) {
            0 => State::Free,
            1 => State::Inactive,
            2 => State::Active,
            3 => State::Upper,
            _ => State::Done,
        }
    }

    #[inline(always)]
    pub(crate) fn set(&self, state: State) {
        self.0.store(state as u8, Ordering::Release);
    }
}

/// What the record of the run has of a receive, by its number (`upper-half/src/record/receives.rs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Posting {
    /// Nothing: the run is not recorded.
    None,
    /// Nothing: its call waits for it, and it has no wildcards.
    Unnumbered,
    /// It is posted as the application asks.
    Number(u64),
    /// A persistent one is posted for the message of this source with this tag.
    Bound(u64, i32, i32),
    /// It is not posted, since it got no message in the recorded run. Its state is `Upper`.
    Held(u64),
}

/// How a persistent send sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Standard,
    Synchronous,
    Buffered,
}

/// Arguments of a send or a receive. A receive and a persistent request keep them, to be posted again after a restart.
#[derive(Clone, Copy)]
pub(crate) struct Args {
    pub(crate) buffer: Buffer<'static>,
    pub(crate) count: i32,
    pub(crate) peer: i32,
    pub(crate) tag: i32,
    pub(crate) datatype: &'static Datatype,
    pub(crate) comm: &'static Comm,
}

impl Args {
    /// The arguments in the order of MPI_Send and MPI_Recv.
    #[inline(always)]
    pub(crate) fn new(
        buffer: Buffer<'static>,
        count: i32,
        datatype: &'static Datatype,
        peer: i32,
        tag: i32,
        comm: &'static Comm,
    ) -> Args {
        Args {
            buffer,
            count,
            peer,
            tag,
            datatype,
            comm,
        }
    }

    /// Bytes of data in the buffer.
    pub(crate) fn bytes(&self) -> u64 {
        let count = u64::try_from(self.count).unwrap_or(0);
        let size = u64::try_from(self.datatype.body.size()).unwrap_or(0);
        count.saturating_mul(size)
    }

    pub(crate) fn none() -> Args {
        Args {
            buffer: Buffer::NONE,
            count: 0,
            peer: abi::PROC_NULL,
            tag: 0,
            datatype: Datatype::null(),
            comm: Comm::null(),
        }
    }
}

/// Memory that the lower half uses until the operation ends (converted argument arrays).
pub type Scratch = Option<Box<[usize]>>;
