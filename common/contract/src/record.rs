//! The record of a rank's run, as both halves see it. The lower half owns the memory: it maps the end of the record's
//! file, and stores the address of a [`Record`] in [`crate::Gate::record`]. No image holds any of it. The upper half
//! writes events there while it records, and asks the services `Replay*` while it replays.
//!
//! The encoding of events and the file's format are in the crate `stasis-record`.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};

/// Use of the record: the values of [`Record::mode`].
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordMode {
    /// Nothing.
    Off = 0,
    /// Events are written.
    Record = 1,
    /// Events are asked for.
    Replay = 2,
}

/// A call of an MPI function, as records have it. What a function does not have is zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call {
    /// Slot of the function in [`crate::Gate::slots`].
    pub function: u32,
    /// Peer or root.
    pub peer: i32,
    /// Id of the communicator, [`NO_COMM`] or [`EVERY_COMM`].
    pub comm: u64,
    /// Tag.
    pub tag: i32,
    /// Bytes of a message, or the number of requests.
    pub count: i64,
}

/// Instead of the id of a communicator: the call has no order among those of other threads.
pub const NO_COMM: u64 = 0;
/// The same: it has its order among the calls over all communicators.
pub const EVERY_COMM: u64 = u64::MAX;

/// Entries of the table of calls.
pub const CALLS: usize = 4096;

/// Table of the calls that a writer has written last: an entry may be any of those with the same hash.
pub type CallTable = [Call; CALLS];

/// The record in this process. It is written by the lower half before the upper half has it, and by the service
/// `RecordRoom`.
#[repr(C)]
pub struct Record {
    /// A [`RecordMode`].
    pub mode: AtomicU32,
    /// Whether the record that is replayed has a cancelled receive.
    pub cancels: AtomicU32,
    /// Most bytes of a message whose digest is taken, plus one; 0 for no digests.
    pub digests: AtomicU64,
    /// Whether digests of sent messages are taken, too.
    pub sends: AtomicU32,
    /// Address of the number of bytes in the file that are events, an `AtomicU64` in the mapped file.
    pub end: AtomicUsize,
    /// Address of the window: the part of the file that is mapped for writing.
    pub window: AtomicUsize,
    /// Offset of the window's first byte among the events.
    pub window_begin: AtomicU64,
    /// Offset behind its last byte.
    pub window_end: AtomicU64,
    /// Address of the [`CallTable`].
    pub calls: AtomicUsize,
    /// Offset among the events of the last mark. An event before it does not change any more.
    pub sealed: AtomicU64,
    /// Whether several threads made the calls of the record that is replayed.
    pub threads: AtomicU32,
}

/// Answer of the service `ReplayTurn`: the thread's test or probe finds nothing. No communicator has this id.
pub const TURN_MISS: u64 = u64::MAX - 1;
/// The same: an event of another thread comes before the thread's next one.
pub const TURN_LATER: u64 = u64::MAX - 2;

/// Answers of the service `ReplayBinding`.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// The receive got the message of this source with this tag.
    Bound = 0,
    /// It was cancelled.
    Cancelled = 1,
    /// The record does not say that it got a message.
    Unbound = 2,
}

/// The outcome that a call asks for by the service `ReplayOutcome`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Source and tag of a probed message.
    Found = 0,
    /// The index of a complete operation.
    Index = 1,
    /// How many indices follow.
    Some = 2,
}

/// Result of `ReplayOutcome`: the call found nothing.
pub const MISS: i32 = 1;
/// Result of services `Replay*`: the record has ended, and the rank goes on without it.
pub const ENDED: i32 = 2;
/// Result of `ReplayCall`: the record ends in this call.
pub const LAST: i32 = 3;

const _: () = {
    assert!(core::mem::size_of::<Call>() == 32);
    assert!(core::mem::offset_of!(Call, comm) == 8);
    assert!(core::mem::offset_of!(Call, count) == 24);
    assert!(core::mem::size_of::<Record>() == 80);
    assert!(core::mem::offset_of!(Record, digests) == 8);
    assert!(core::mem::offset_of!(Record, end) == 24);
    assert!(core::mem::offset_of!(Record, calls) == 56);
    assert!(core::mem::offset_of!(Record, sealed) == 64);
    assert!(core::mem::offset_of!(Record, threads) == 72);
};
