//! What ranks, coordinator and tools say to each other. One frame ([`crate::frame`]) holds one of
//! these. A connection opens with a [`First`]; what follows is [`FromRank`]/[`ToRank`] for a rank,
//! [`ToTool`] for a tool, bundles of [`Up`]/[`Down`] for a relay, and an image for a partner
//! ([`crate::partner`]).

use serde::{Deserialize, Serialize};

use crate::ranks::Ranks;
use crate::shared::{Part, Share};

/// Version of the messages below. Both ends must have the same.
pub const PROTOCOL: u32 = 9;

/// First frame on a connection: who is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum First {
    /// A rank's agent.
    Rank(Hello),
    /// A command, such as `stasis checkpoint`.
    Tool {
        /// [`PROTOCOL`].
        protocol: u32,
        /// The job's token, from the job file.
        token: String,
        /// What it wants.
        request: Request,
    },
    /// A relay, through which ranks come in.
    Relay {
        /// [`PROTOCOL`].
        protocol: u32,
        /// The job's token, as broadcast by rank 0.
        token: String,
    },
    /// A rank whose image this process is to keep a copy of.
    Guest {
        /// [`PROTOCOL`].
        protocol: u32,
        /// The job's token, as broadcast by rank 0.
        token: String,
        /// The image, which follows.
        offer: Offer,
    },
}

/// An image of which a copy is to be kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Whose.
    pub rank: u32,
    /// Of which set.
    pub set: String,
    /// Id of that set.
    pub id: Vec<u8>,
    /// How long it is.
    pub bytes: u64,
}

impl First {
    /// A rank of this version, with the job's token.
    pub fn rank(token: &str, member: Member) -> First {
        First::Rank(Hello {
            protocol: PROTOCOL,
            token: token.to_owned(),
            member,
        })
    }

    /// [`PROTOCOL`] of who is there, and his token.
    pub fn credentials(&self) -> (u32, &str) {
        match self {
            First::Rank(Hello {
                protocol, token, ..
            })
            | First::Tool {
                protocol, token, ..
            }
            | First::Relay { protocol, token }
            | First::Guest {
                protocol, token, ..
            } => (*protocol, token),
        }
    }
}

/// A rank introduces itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// The job's token, as broadcast by rank 0.
    pub token: String,
    /// Who it is.
    pub member: Member,
}

/// Who a rank is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Member {
    /// Rank in MPI_COMM_WORLD.
    pub rank: u32,
    /// Size of MPI_COMM_WORLD.
    pub size: u32,
    /// Host name, for messages to people.
    pub host: String,
    /// Process id on that host.
    pub pid: u32,
}

/// What a tool can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Take a checkpoint.
    Checkpoint {
        /// End the job once the checkpoint is committed.
        stop: bool,
        /// Answer when it is committed, not as soon as it is noted.
        wait: bool,
    },
    /// Say how the job stands.
    Status,
}

/// Per-peer message counts, those that are zero left out.
pub type Counts = Vec<(u32, u64)>;

/// On whom a rank waits for a message.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum On {
    /// Any rank of the job (MPI_ANY_SOURCE, or too many to name).
    Any,
    /// These world ranks.
    Ranks(Vec<u32>),
}

/// What a rank is doing while targets are being reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Activity {
    /// Computing, or in a call that does not depend on others.
    Running,
    /// Inside a collective operation.
    Collective {
        /// Clock of its communicator.
        id: u64,
    },
    /// Waiting for a message.
    Waiting {
        /// From whom.
        on: On,
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
        /// It is MPI_Finalize: no rank that must still come to it waits for what follows it here.
        last: bool,
    },
}

/// How far a rank has come towards the targets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct State {
    /// Which checkpoint.
    pub epoch: u64,
    /// Version of the targets against which `reached` was judged.
    pub version: u64,
    /// Every clock of the rank has reached its target, and the rank is in no collective.
    pub reached: bool,
    /// What it does.
    pub activity: Activity,
}

/// Durations of a rank's part in a checkpoint, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Times {
    /// Until all threads stood still and nothing was under way.
    pub drain: u64,
    /// Until nothing was read of the memory any more: it was copied on write, or the image written.
    pub copy: u64,
    /// Until the image was on disk.
    pub save: u64,
}

/// Where the copy of an image is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Copied {
    /// The machine.
    pub host: String,
    /// The file there.
    pub path: String,
}

/// What a rank saved.
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
    /// Where on that machine it lies, to be drained to its set; none where it was written there.
    pub local: Option<String>,
    /// The copy that a partner keeps of it until it is drained. Few have one, and those that are none are to
    /// take little room.
    pub copy: Option<Box<Copied>>,
    /// How long it took.
    pub times: Times,
    /// Why the rank stood still while its image was written; none where its memory was copied on
    /// write.
    pub stood: Option<String>,
    /// The image holds what has changed since the set to build upon, and needs that one.
    pub inherits: bool,
    /// What people should know, such as what was not saved.
    pub notes: Vec<String>,
}

/// What a rank does, for people.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Doing {
    /// In words, such as `computing` or `in MPI_Barrier`.
    pub what: String,
    /// For how many microseconds at least: it is looked at now and then.
    pub since: u64,
}

/// From a rank's agent to the coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FromRank {
    /// Answer to [`ToRank::Intent`]: collectives started, per clock.
    Clocks {
        /// Which checkpoint.
        epoch: u64,
        /// Clock id and sequence number.
        clocks: Vec<(u64, u64)>,
    },
    /// How far the rank has come; sent for every version of the targets and at every change.
    State(State),
    /// All threads stand still and nothing is under way to this rank.
    Drained {
        /// Which checkpoint.
        epoch: u64,
        /// Memory that other ranks may share.
        shared: Vec<Part>,
    },
    /// The memory is copied on write and the image is being written: the rank can go on.
    Copied {
        /// Which checkpoint.
        epoch: u64,
    },
    /// The image is on disk.
    Saved {
        /// Which checkpoint.
        epoch: u64,
        /// What it is.
        summary: Summary,
    },
    /// The rank cannot take part in this checkpoint and has gone on.
    Refused {
        /// Which checkpoint.
        epoch: u64,
        /// Why, for people.
        reason: String,
    },
    /// Answer to [`ToRank::Tell`].
    Doing {
        /// Which question.
        question: u64,
        /// What the rank does.
        doing: Doing,
    },
    /// The rank wants a checkpoint: a signal came that asks for one, or the program does.
    Asks {
        /// End the job once it is committed.
        stop: bool,
    },
    /// The process is about to end as it should.
    Finished,
}

/// How a checkpoint ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// Committed under this name; go on.
    Committed {
        /// Name of the set.
        set: String,
    },
    /// Given up; go on.
    Abandoned {
        /// Why, for people.
        reason: String,
    },
    /// Committed under this name, and the job is to end now.
    Exit {
        /// Name of the set.
        set: String,
    },
}

/// From the coordinator to a rank's agent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ToRank {
    /// The coordinator will not have this rank (wrong token, version, size ...).
    Rejected {
        /// Why, for people.
        reason: String,
    },
    /// Tell what you do.
    Tell {
        /// Goes back with the answer.
        question: u64,
    },
    /// A checkpoint is wanted: tell your clocks.
    Intent {
        /// Number of the attempt; grows by one each time.
        epoch: u64,
    },
    /// Targets to reach; later versions hold only those that were raised.
    Targets {
        /// Which checkpoint.
        epoch: u64,
        /// Version of the targets.
        version: u64,
        /// Clock id and target.
        targets: Vec<(u64, u64)>,
    },
    /// Everyone has reached the targets: stop all threads and drain.
    Stop {
        /// Which checkpoint.
        epoch: u64,
    },
    /// Everyone is drained: write the image.
    Save {
        /// Which checkpoint.
        epoch: u64,
        /// Name that the set will have.
        set: String,
        /// Id that its images carry.
        id: Vec<u8>,
        /// Directory to write into.
        directory: String,
        /// Id of the set to build upon; none for a full one.
        parent: Option<Vec<u8>>,
        /// What to do about the shared memory that the rank has named.
        shared: Vec<Share>,
        /// The job ends with this checkpoint: nobody goes on while images are written.
        stop: bool,
    },
    /// Every rank's memory is copied, or in its image: go on, while what is copied is written.
    GoOn {
        /// Which checkpoint.
        epoch: u64,
    },
    /// The checkpoint is over.
    Resume {
        /// Which checkpoint.
        epoch: u64,
        /// How it ended.
        outcome: Outcome,
    },
}

/// From a relay to the coordinator, or to the relay between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Up {
    /// A rank has connected, its protocol and token are right.
    Joined(Member),
    /// Ranks have said this; of [`FromRank::Clocks`] the largest that any of them has told.
    Said {
        /// Which.
        ranks: Ranks,
        /// What.
        message: FromRank,
    },
    /// The connections to these ranks are gone.
    Lost {
        /// Which.
        ranks: Ranks,
    },
}

/// To ranks, by way of a relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Down {
    /// To which.
    pub to: To,
    /// What.
    pub message: ToRank,
}

/// To which ranks something goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum To {
    /// All that are connected.
    All,
    /// These.
    Ranks(Ranks),
}

/// A checkpoint that was committed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Report {
    /// Name of the set.
    pub set: String,
    /// The set of which it is an increment; none if it stands by itself.
    pub increment_of: Option<String>,
    /// Bytes of all images on disk.
    pub bytes: u64,
    /// Bytes of memory in all images.
    pub memory: u64,
    /// Microseconds from the request to the commit.
    pub total: u64,
    /// Microseconds of these in which targets were being reached (the job was running).
    pub approach: u64,
    /// Microseconds in which the job stood still.
    pub pause: u64,
    /// The slowest rank's times.
    pub slowest: Times,
    /// Why the job stood still while images were written; none where memory was copied on write.
    pub stood: Option<String>,
    /// Where the images lie.
    pub level: Level,
    /// The job ends with this checkpoint.
    pub stop: bool,
}

/// Where the images of a checkpoint lie when it has its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Level {
    /// In the checkpoint directory.
    Shared,
    /// In local directories, from which they are drained in the background.
    Local,
    /// The same, and a copy of each on another machine.
    Partner,
}

impl Level {
    /// Of those that are not in the checkpoint directory: whether each has a copy.
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

/// How one rank stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RankStatus {
    /// Its rank.
    pub rank: u32,
    /// Its host (empty before it connected).
    pub host: String,
    /// Its process id.
    pub pid: u32,
    /// One word: `absent`, `running`, `finished`, `lost`, or what it does in a checkpoint.
    pub state: String,
    /// What the program does there; none if the rank did not say in time.
    pub doing: Option<Doing>,
}

/// The next checkpoint that nobody has to ask for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Next {
    /// Microseconds until it is due.
    pub after: u64,
    /// Why then, for people.
    pub why: String,
}

/// The stage of a job that ends with a checkpoint, as it was told to.
pub const ENDING: &str = "ending";

/// How the job stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Status {
    /// Number of ranks.
    pub size: u32,
    /// What the coordinator does: `idle`, or a stage of the checkpoint.
    pub stage: String,
    /// What the checkpoint that is being taken waits for.
    pub waiting: Option<String>,
    /// Checkpoints committed since the job started.
    pub committed: u64,
    /// The last of them.
    pub last: Option<Report>,
    /// Why the last checkpoint that was given up was given up.
    pub failure: Option<String>,
    /// The next that is due.
    pub next: Option<Next>,
    /// Each rank.
    pub ranks: Vec<RankStatus>,
}

/// How far the checkpoint that is being taken has come, for people who watch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Progress {
    /// What is being done, as in [`Status::stage`].
    pub stage: String,
    /// How many ranks are done with it.
    pub done: u32,
    /// Of how many.
    pub ranks: u32,
    /// Those that are not: `rank 3`, `ranks 3, 5 and 8`.
    pub missing: String,
    /// Bytes of the images that are on disk.
    pub bytes: u64,
}

/// From the coordinator to a tool.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ToTool {
    /// Something to tell people while they wait.
    Note(String),
    /// How far the checkpoint has come: told when that changes, while it is being taken.
    Progress(Progress),
    /// The checkpoint is being taken, or will be as soon as it can; nothing more is told of it.
    Noted,
    /// The checkpoint is committed.
    Committed(Report),
    /// The checkpoint was given up; the job goes on.
    Failed(String),
    /// Answer to [`Request::Status`].
    Status(Status),
    /// The coordinator will not talk to this tool.
    Rejected(String),
}
