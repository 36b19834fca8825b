//! Messages between a rank and `stasis run`: lines of JSON, on a Unix socket of the same machine or by TCP.

use std::io::{self, Read, Write};

use ckpt_image::SetId;
use dump::RecipePlace;
use serde::{Deserialize, Serialize};

/// Longest line that is read.
pub const LONGEST: usize = 4096;

/// Message of a rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromRank {
    /// The first message.
    Hello {
        /// Token of the run file.
        token: String,
        /// Incarnation to which the rank belongs.
        incarnation: u32,
        /// The rank.
        #[serde(flatten)]
        member: Member,
        /// Process of a rank on another machine.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        process: Option<Process>,
        /// Whether it is only announced: the process is to become the rank, and runs nothing of it yet. It keeps the
        /// connection until it has another one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        announced: bool,
    },
    /// The first message of a node keeper, which keeps the copies of its machine's ranks in all incarnations. Its other
    /// messages are [`FromNode`](crate::node_messages::FromNode).
    KeepsNode {
        /// Token of the run file.
        token: String,
        /// The node keeper.
        process: Process,
    },
    /// The rank lives: asks for a longer lease.
    Beat,
    /// The rank's process is about to execute another program (execve(2)), which connects anew.
    Executes,
    /// The program ends with this code, as it wants to.
    Exits(i32),
    /// The same, and it has not called MPI_Finalize: most launchers end the other ranks, whatever the code is.
    Leaves(i32),
    /// The program ends the job with MPI_Abort and this code.
    Aborts(i32),
    /// The job is to end, while MPI is not initialised: the launcher would not end the others.
    EndsJob(JobEnd),
    /// The rank cannot go on, perhaps because of the death of another one.
    Fails,
    /// The rank cannot be started or restored, and nothing of it has run.
    Refuses(Refusal),
    /// The rank's image of the set with this number is damaged, or out of reach of all ranks: the job has to go on from
    /// another one.
    Unusable {
        /// Number of the set.
        set: u64,
        /// The reason, which `stasis run` prints.
        why: String,
    },
    /// Rank 0: the job runs, and would go on from this checkpoint.
    Covered(u64),
    /// The rank belongs to a standby world of this size, has initialised MPI and sleeps.
    Asleep {
        /// Number of ranks of the world.
        ranks: u32,
    },
    /// A rank that sleeps has mapped its image of this checkpoint.
    Mapped(u64),
    /// The rank's image of a set in memory. With it come the descriptors of the child that has it: its socket, its
    /// pidfd and its memory.
    Holds {
        /// The set.
        set: SetId,
        /// Its number.
        number: u64,
        /// The rank.
        rank: u32,
        /// Number of ranks of the job.
        ranks: u32,
        /// Where the child has the rest of the image.
        recipe: RecipePlace,
    },
    /// Rank 0: all ranks have handed over their images of this set, from which the job can go on now.
    Held(SetId),
    /// Rank 0: this set in memory was given up.
    NotHeld(SetId),
    /// The rank is the child of this process, which stands in for it with the launcher (MPI Stages).
    StandIn(u32),
    /// The rank has written its memory, to go on in it in the next incarnation; or cannot, for this reason.
    Survives(Result<(), NoSurvivor>),
}

/// A rank, as far as its launcher has told it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its number.
    pub rank: Option<u32>,
    /// Number of ranks of the job.
    pub size: Option<u32>,
}

impl Member {
    /// The rank of this process.
    pub fn of_this_process() -> Member {
        Member {
            rank: launcher::rank(),
            size: launcher::size(),
        }
    }
}

/// How a rank wants the job to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnd {
    /// Exit code of the job.
    pub code: i32,
    /// Reason for the user, which `stasis run` prints. The rank does not print it, since a launcher may drop the output
    /// of a rank that ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// Longest reason in a message, in characters: a message has a limit, and a path may be as long.
pub const LONGEST_REASON: usize = 900;

/// Why a rank cannot be started or restored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Reason for the user, which `stasis run` prints. Without one, another rank has told why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Exit code of the rank.
    pub code: i32,
    /// Whether the reason cannot pass while the job waits.
    pub lasts: bool,
}

impl Refusal {
    /// A refusal for this reason, and whether the whole of it is in it.
    pub fn new(why: Option<String>, code: i32, lasts: bool) -> (Refusal, bool) {
        let short = why
            .as_ref()
            .map(|why| why.chars().take(LONGEST_REASON).collect());
        let is_whole = short == why;
        let why = short;
        (Refusal { why, code, lasts }, is_whole)
    }
}

/// Why a rank's memory does not go on in the next incarnation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NoSurvivor {
    /// The rank is in MPI_Finalize, or through.
    Finalises,
    /// Another reason. The rank is started anew, like the one that has died.
    Because(String),
}

/// A process of another machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Name of the machine.
    pub host: String,
    /// Its process id there.
    pub pid: u32,
}

/// Message of `stasis run`: first the answer to the first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToRank {
    /// The rank belongs to the incarnation that runs now.
    Welcome,
    /// Another rank is dead: write the memory (MPI Stages).
    Survive,
    /// Another incarnation runs.
    Superseded {
        /// That incarnation.
        by: u32,
    },
    /// To a rank that sleeps: become a rank of the running incarnation, from the newest checkpoint.
    Go,
    /// To a rank that sleeps: map the image of this checkpoint, in the place of an older one.
    Map(u64),
    /// To a rank that sleeps: end.
    Leave,
    /// Answer to a heartbeat: the lease counts from its sending.
    Lives,
    /// The incarnation ends: the rank has to kill itself.
    Dies,
}

/// Sends one message.
///
/// # Errors
/// The connection is broken.
pub fn send(mut stream: impl Write, message: &impl Serialize) -> io::Result<()> {
    stream.write_all(&line_of(message)?)
}

/// A message as it is sent.
///
/// # Errors
/// The message cannot be written as JSON (a defect in Stasis).
pub fn line_of(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Takes the first whole line out of what has come.
pub fn take_line(text: &mut Vec<u8>) -> Option<Vec<u8>> {
    let end = text.iter().position(|byte| *byte == b'\n')?;
    Some(text.drain(..=end).collect())
}

/// Reads a message. `line` has the part of it that has come before a timeout. An order to die is an error.
///
/// # Errors
/// The connection is broken or has reached its timeout, or what has come is no message;
/// [`io::ErrorKind::ConnectionAborted`] for the order to die.
pub fn receive(mut stream: impl Read, line: &mut Vec<u8>) -> io::Result<ToRank> {
    let mut byte = [0];
    loop {
        match stream.read(&mut byte) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) if byte == *b"\n" => break,
            Ok(_) if line.len() < LONGEST => line.extend(byte),
            Ok(_) => return Err(io::ErrorKind::InvalidData.into()),
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
    let message = serde_json::from_slice(line);
    line.clear();
    match message? {
        ToRank::Dies => Err(io::ErrorKind::ConnectionAborted.into()),
        message => Ok(message),
    }
}
