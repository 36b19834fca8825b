//! The messages between ranks, coordinator and clients. A frame ([`crate::net::frame`]) holds one of them.
//! A connection opens with a [`Hello`]. Then a rank exchanges [`FromRank`] and [`ToRank`], a client
//! receives [`ToClient`], and a relay exchanges lists of [`ToParent`] and [`ToChild`]. A partner receives
//! an image ([`crate::partner`]).

use history::event::Cause;
use serde::{Deserialize, Serialize};

use crate::protocol::rank_set::RankSet;
use crate::protocol::region_assignment::{SharedRange, WriteAssignment};
use crate::protocol::state::{RankState, Stage};
use crate::protocol::waits::RankWaits;
pub use crate::protocol::waits::{Counts, WaitTarget};

/// Version of the messages below. Both ends must have the same one.
pub const PROTOCOL: u32 = 16;

/// First frame on a connection: kind of the peer, and its credentials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hello {
    /// A rank's agent.
    Rank(RankHello),
    /// A command, such as `stasis checkpoint`.
    Client {
        /// [`PROTOCOL`].
        protocol: u32,
        /// The job's token, from the job file.
        token: String,
        /// Request of the command.
        request: Request,
    },
    /// A relay, through which ranks connect.
    Relay {
        /// [`PROTOCOL`].
        protocol: u32,
        /// The job's token, as broadcast by rank 0.
        token: String,
    },
    /// A rank that sends its image, so that this process keeps a copy.
    CopySender {
        /// [`PROTOCOL`].
        protocol: u32,
        /// The job's token, as broadcast by rank 0.
        token: String,
        /// Header of the image, which follows.
        header: CopyHeader,
    },
}

/// Header of an image that is sent to a partner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CopyHeader {
    /// Rank of the image.
    pub rank: u32,
    /// Name of the image's set.
    pub set: String,
    /// Id of the image's set.
    pub id: Vec<u8>,
    /// Length of the image in bytes.
    pub bytes: u64,
}

/// Answer to a [`CopyHeader`] and its image: the path of the copy, or the reason why no copy was made, for
/// the user.
pub type CopyAnswer = Result<String, String>;

impl Hello {
    /// The Hello of a rank of this version, with the job's token.
    pub fn rank(token: &str, member: Member) -> Hello {
        Hello::Rank(RankHello {
            protocol: PROTOCOL,
            token: token.to_owned(),
            member,
        })
    }

    /// The [`PROTOCOL`] of the peer, and its token.
    pub fn credentials(&self) -> (u32, &str) {
        match self {
            Hello::Rank(RankHello {
                protocol, token, ..
            })
            | Hello::Client {
                protocol, token, ..
            }
            | Hello::Relay { protocol, token }
            | Hello::CopySender {
                protocol, token, ..
            } => (*protocol, token),
        }
    }
}

/// Hello of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankHello {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// The job's token, as broadcast by rank 0.
    pub token: String,
    /// Identity of the rank.
    pub member: Member,
}

/// Identity of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Member {
    /// Rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// Size of MPI_COMM_WORLD.
    pub size: u32,
    /// Host name, for messages to the user.
    pub host: String,
    /// Process id on that host.
    pub pid: u32,
}

/// Request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Take a checkpoint.
    Checkpoint {
        /// Whether the job ends once the checkpoint is committed.
        stop: bool,
        /// Whether the answer comes after the commit, not at once.
        wait: bool,
        /// Microseconds for which the checkpoint waits for a stuck rank; none for the job's own setting.
        patience: Option<u64>,
    },
    /// Report the status of the job.
    Status {
        /// Details that are wanted of each rank.
        details: Details,
    },
}

/// Activity of a rank that runs to its targets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Activity {
    /// Computing, or in a call that does not depend on other ranks.
    Running,
    /// Inside a collective operation.
    Collective {
        /// Clock of its communicator.
        id: u64,
    },
    /// Waiting for a message.
    Waiting {
        /// Ranks that the message may come from.
        on: WaitTarget,
        /// Messages sent to each rank so far.
        sent: Counts,
        /// Messages received from each rank so far.
        received: Counts,
    },
    /// Parked before a collective that would pass its target.
    Parked {
        /// Clock of its communicator.
        id: u64,
        /// Number that the collective would have.
        seq: u64,
        /// Messages sent to each rank so far.
        sent: Counts,
        /// Whether it is MPI_Finalize. No rank that must still call it depends on anything after it here.
        last: bool,
    },
}

/// Progress of a rank towards its targets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct State {
    /// Number of the attempt.
    pub epoch: u64,
    /// Version of the targets against which `reached` was judged.
    pub version: u64,
    /// Whether every clock of the rank has reached its target, and the rank is in no collective and not held.
    pub reached: bool,
    /// See [`crate::protocol::rank::View::held`].
    pub held: bool,
    /// Activity of the rank.
    pub activity: Activity,
}

/// Durations of a rank's part in a checkpoint, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Times {
    /// Time until all threads stood still and no message was in flight.
    pub drain: u64,
    /// Time until the memory was not read any more: it was copied on write, or the image was written.
    pub copy: u64,
    /// Time until the image was on disk.
    pub save: u64,
}

/// Place of the copy of an image.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Copied {
    /// Host name of the machine.
    pub host: String,
    /// Path of the file there.
    pub path: String,
}

/// Summary of the image that a rank has saved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Summary {
    /// Bytes of the image on disk.
    pub bytes: u64,
    /// Bytes of memory that the image holds.
    pub memory: u64,
    /// Digest of the image, in hexadecimal.
    pub digest: String,
    /// Machine that wrote it.
    pub host: String,
    /// Local path of an image that is to be drained to its set; none if it was written to the set.
    pub local: Option<String>,
    /// Copy that a partner keeps until the image is drained. The box keeps the usual absent copy small.
    pub copy: Option<Box<Copied>>,
    /// Durations of the rank's part.
    pub times: Times,
    /// Reason why the rank stood still while its image was written; none if its memory was copied on write.
    pub stood: Option<String>,
    /// Whether the image is an increment, which needs its parent set.
    pub inherits: bool,
    /// Notes for the user, such as files that were not saved.
    pub notes: Vec<String>,
}

/// Current activity of a rank, for the user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Doing {
    /// Text, such as `computing` or `in MPI_Barrier`.
    pub what: String,
    /// Least duration in microseconds; the activity is sampled.
    pub since: u64,
    /// Last events of the flight recorder, as many as were asked for, oldest first, a line each.
    pub events: Vec<String>,
    /// Stack of a thread that cannot be stopped, if it was asked for: its call in the kernel, and a line for each
    /// frame.
    pub stack: Vec<String>,
    /// Stacks of the program's threads, if they were asked for.
    pub threads: Vec<ThreadStack>,
    /// What the rank waits for, if that was asked for. The box keeps the usual absence small.
    pub waits: Option<Box<RankWaits>>,
}

/// Stack of a thread of the program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ThreadStack {
    /// Thread id as the program sees it.
    pub thread: u32,
    /// Functions of its frames, outermost first, with the lines of the source if these were asked for. A rank that is
    /// in MPI has the MPI function last.
    pub frames: Vec<String>,
    /// Whether the thread has called MPI before.
    pub calls: bool,
}

/// Details that a question asks a rank for, besides its activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Details {
    /// Number of the last events of the flight recorder.
    pub events: u32,
    /// Stacks.
    pub stacks: WantedStacks,
    /// Whether the rank tells what it waits for.
    pub waits: bool,
    /// Whether the rank writes the file of its profile.
    pub profile: bool,
}

impl Details {
    /// The details that either wants.
    #[must_use]
    pub fn and(self, other: Details) -> Details {
        Details {
            events: self.events.max(other.events),
            stacks: self.stacks.max(other.stacks),
            waits: self.waits || other.waits,
            profile: self.profile || other.profile,
        }
    }
}

/// Stacks that a question asks for.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum WantedStacks {
    /// None.
    #[default]
    None,
    /// That of a thread that cannot be stopped.
    Stuck,
    /// Those of all threads of the program.
    All,
    /// The same, with the lines of the source.
    Lines,
}

/// From a rank's agent to the coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FromRank {
    /// Answer to [`ToRank::Intent`]: collectives started, per clock.
    Clocks {
        /// Number of the attempt.
        epoch: u64,
        /// Clock id and sequence number.
        clocks: Vec<(u64, u64)>,
    },
    /// Progress of the rank; sent for every version of the targets and at every change.
    State(State),
    /// All threads stand still, and no message to this rank is in flight.
    Drained {
        /// Number of the attempt.
        epoch: u64,
        /// Memory that other ranks may share.
        shared: Vec<SharedRange>,
    },
    /// The memory is copied on write and the image is being written: the rank can go on.
    Copied {
        /// Number of the attempt.
        epoch: u64,
    },
    /// The image is on disk.
    Saved {
        /// Number of the attempt.
        epoch: u64,
        /// Summary of the image.
        summary: Summary,
    },
    /// The rank cannot take part in this checkpoint and has gone on.
    Refused {
        /// Number of the attempt.
        epoch: u64,
        /// Reason, for the user.
        reason: String,
    },
    /// Answer to [`ToRank::Tell`].
    Doing {
        /// Number of the question, from [`ToRank::Tell`].
        question: u64,
        /// Activity of the rank.
        doing: Doing,
    },
    /// A request for a checkpoint by a signal or by the program.
    Asks {
        /// Whether the job ends once the checkpoint is committed.
        stop: bool,
    },
    /// The process is about to end normally.
    Finished,
}

/// Outcome of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// Committed under this name; the job goes on.
    Committed {
        /// Name of the set.
        set: String,
    },
    /// Abandoned; the job goes on.
    Abandoned {
        /// Reason, for the user.
        reason: String,
        /// The first ranks for which a time limit was waited in vain. They print their last events.
        late: RankSet,
    },
    /// Committed under this name; the job ends now.
    Exit {
        /// Name of the set.
        set: String,
    },
}

/// From the coordinator to a rank's agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ToRank {
    /// The coordinator rejects this rank (wrong token, version, size ...).
    Rejected {
        /// Reason, for the user.
        reason: String,
    },
    /// Request for the rank's activity.
    Tell {
        /// Number of the question, returned with the answer.
        question: u64,
        /// Details that are wanted.
        details: Details,
    },
    /// A checkpoint is requested: send the clocks.
    Intent {
        /// Number of the attempt; each attempt adds one.
        epoch: u64,
    },
    /// Targets to reach; later versions hold only the raised ones.
    Targets {
        /// Number of the attempt.
        epoch: u64,
        /// Version of the targets.
        version: u64,
        /// Clock id and target.
        targets: Vec<(u64, u64)>,
    },
    /// All ranks have reached their targets: stop all threads and drain.
    Stop {
        /// Number of the attempt.
        epoch: u64,
    },
    /// All ranks are drained: write the image.
    Save {
        /// Number of the attempt.
        epoch: u64,
        /// Name of the set after its commit.
        set: String,
        /// Id in the set's images.
        id: Vec<u8>,
        /// Directory of the images before the commit; none if the images stay in memory.
        directory: Option<String>,
        /// Id of the parent set; none for a full set.
        parent: Option<Vec<u8>>,
        /// Assignment of the shared memory that the rank has reported.
        shared: Vec<WriteAssignment>,
        /// Whether the job ends with this checkpoint. No rank then goes on while images are written.
        stop: bool,
    },
    /// The memory of every rank is copied or written: go on, while copied memory is written.
    GoOn {
        /// Number of the attempt.
        epoch: u64,
    },
    /// The checkpoint is over.
    Resume {
        /// Number of the attempt.
        epoch: u64,
        /// Outcome of the checkpoint.
        outcome: Outcome,
    },
}

/// From a relay to the coordinator, or to the relay between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToParent {
    /// A rank has connected, with the right protocol and token.
    Joined(Member),
    /// A message of some ranks; [`FromRank::Clocks`] holds the largest count of each clock.
    FromRanks {
        /// Ranks that have sent it.
        ranks: RankSet,
        /// Their common message.
        message: FromRank,
    },
    /// The connections to these ranks are closed.
    Lost {
        /// The lost ranks.
        ranks: RankSet,
    },
}

/// A message to ranks, sent through a relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToChild {
    /// Receivers.
    pub to: To,
    /// The message itself.
    pub message: ToRank,
}

/// Receivers of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum To {
    /// All connected ranks.
    All,
    /// These ranks.
    Ranks(RankSet),
}

/// A committed checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Report {
    /// Name of the set.
    pub set: String,
    /// Parent set of an increment; none for a full set.
    pub increment_of: Option<String>,
    /// Bytes of all images on disk.
    pub bytes: u64,
    /// Bytes of memory in all images.
    pub memory: u64,
    /// Microseconds from the request to the commit.
    pub total: u64,
    /// Microseconds of the total in which ranks ran to their targets.
    pub approach: u64,
    /// Microseconds of the pause of all ranks.
    pub pause: u64,
    /// Times of the slowest rank.
    pub slowest: Times,
    /// Reason why the job stood still while images were written; none if memory was copied on write.
    pub stood: Option<String>,
    /// Place of the images.
    pub level: Level,
    /// Whether the job ends with this checkpoint.
    pub stop: bool,
    /// Origins of its requests.
    pub asked_by: Vec<Cause>,
    /// Microseconds from the beginning of the pause, to which a restart goes back, to the commit.
    pub since_cut: u64,
}

/// Place of a checkpoint's images at the time of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Level {
    /// In memory.
    Memory,
    /// In the checkpoint directory.
    Shared,
    /// In local directories; they are drained from there in the background.
    Local,
    /// In local directories, with a copy of each on another machine.
    Partner,
}

impl Level {
    /// Its name in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Level::Memory => "memory",
            Level::Shared => "shared",
            Level::Local => "local",
            Level::Partner => "partner",
        }
    }

    /// The level of images outside the checkpoint directory, from whether each has a copy.
    pub fn of(copied: impl IntoIterator<Item = bool>) -> Level {
        let mut copied = copied.into_iter().peekable();
        match copied.peek() {
            None => Level::Shared,
            Some(_) => match copied.all(|has_copy| has_copy) {
                true => Level::Partner,
                false => Level::Local,
            },
        }
    }
}

/// Status of one rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RankStatus {
    /// Rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// Host name; empty before the rank connects.
    pub host: String,
    /// Process id on the host.
    pub pid: u32,
    /// State of the rank, as seen by the coordinator.
    pub state: RankState,
    /// Activity of the program; none if the rank did not answer in time.
    pub doing: Option<Doing>,
}

/// The next scheduled checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Next {
    /// Microseconds until it is due.
    pub after: u64,
    /// Reason for this time, for the user.
    pub why: String,
}

/// Status of the job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Status {
    /// Number of ranks.
    pub size: u32,
    /// Stage of the coordinator.
    pub stage: Stage,
    /// Text of what the checkpoint in progress waits for.
    pub waiting: Option<String>,
    /// Checkpoints committed since the job started.
    pub committed: u64,
    /// The last committed checkpoint.
    pub last: Option<Report>,
    /// The last checkpoint in memory. The box keeps the answers to other requests small.
    pub in_memory: Option<Box<Report>>,
    /// Reason of the last abandoned checkpoint.
    pub failure: Option<String>,
    /// The next scheduled checkpoint.
    pub next: Option<Next>,
    /// Status of each rank.
    pub ranks: Vec<RankStatus>,
}

/// Progress of the checkpoint that is being taken, for the user.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Progress {
    /// Stage, as in [`Status::stage`].
    pub stage: Stage,
    /// Number of ranks that have completed the stage.
    pub done: u32,
    /// Number of ranks of the job.
    pub ranks: u32,
    /// The other ranks, as text: `rank 3`, `ranks 3, 5 and 8`.
    pub missing: String,
    /// Bytes of the images on disk.
    pub bytes: u64,
}

/// From the coordinator to a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ToClient {
    /// A text for the user while the client waits.
    Note(String),
    /// Progress of the checkpoint, sent at each change while it is being taken.
    Progress(Progress),
    /// The checkpoint is being taken, or begins as soon as it can; no further message follows.
    Noted,
    /// The checkpoint is committed.
    Committed(Report),
    /// The checkpoint was abandoned; the job goes on.
    Failed(String),
    /// The same, because it has waited for ranks in vain.
    Late(String),
    /// Answer to [`Request::Status`].
    Status(Status),
    /// The coordinator rejects this client.
    Rejected(String),
}
