//! The waits of the threads of a rank, as its agent tells them for `stasis explain`.

use serde::{Deserialize, Serialize};

/// Message counts by peer, without zeros.
pub type Counts = Vec<(u32, u64)>;

/// Ranks from which a rank waits for a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum WaitTarget {
    /// Any rank of the job (MPI_ANY_SOURCE, or too many ranks to name).
    Any,
    /// These world ranks.
    Ranks(Vec<u32>),
}

/// The waits of a rank, and its knowledge of messages and collective operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RankWaits {
    /// Whether nothing changed for as long as the agent looked.
    pub still: bool,
    /// Whether several threads may be in MPI at the same time.
    pub multiple: bool,
    /// The waits of its threads, as far as they tell them.
    pub threads: Vec<ThreadWaits>,
    /// Ranks whose message would help a program that polls in vain, again and again.
    pub polls: Option<WaitTarget>,
    /// The collective operations of each communicator of the rank.
    pub clocks: Vec<Entered>,
    /// Names of communicators, by id.
    pub names: Vec<(u64, String)>,
    /// Messages that have come and that no receive asks for. Of each sender at least the first on each communicator.
    pub unasked: Vec<Unasked>,
    /// Messages sent to each rank so far.
    pub sent: Counts,
    /// Messages received from each rank so far.
    pub received: Counts,
}

/// The wait of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ThreadWaits {
    /// Thread id as the program sees it.
    pub thread: u32,
    /// Whether one of the things is enough.
    pub one_is_enough: bool,
    /// The things.
    pub on: Vec<Wait>,
    /// Number of further things.
    pub more: u32,
}

/// Something that a thread waits for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Wait {
    /// A message.
    Message {
        /// World rank of the sender; none for any process of the communicator.
        from: Option<u32>,
        /// Id of the communicator.
        comm: u64,
        /// The tag.
        tag: Tag,
        /// Bytes of room for it, if they are known.
        room: Option<u64>,
    },
    /// The receiver of a message.
    Receiver {
        /// World rank of the receiver.
        to: u32,
        /// Id of the communicator.
        comm: u64,
        /// The tag.
        tag: Tag,
        /// Bytes of the message, if they are known.
        bytes: Option<u64>,
    },
    /// The members of a communicator, for a non-blocking collective operation.
    Members {
        /// Id of the communicator.
        comm: u64,
        /// Number of the operation on the communicator.
        number: u64,
    },
    /// Something that any rank may bring about.
    Anyone,
}

/// Tag of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Tag {
    /// This one.
    Is(i32),
    /// Any tag.
    Any,
    /// It is not known.
    Unknown,
}

/// Collective operations of a rank on one communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Entered {
    /// Id of the communicator.
    pub comm: u64,
    /// Number of the last operation that the rank has entered.
    pub number: u64,
    /// Whether it is inside that operation.
    pub inside: bool,
}

/// A message that no receive asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Unasked {
    /// World rank of the sender.
    pub from: u32,
    /// Id of the communicator.
    pub comm: u64,
    /// The tag.
    pub tag: i32,
    /// Its bytes.
    pub bytes: u64,
}
