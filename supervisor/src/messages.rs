//! Messages between a rank and its keeper: lines of JSON on a Unix socket.

use std::io::{self, Write};
use std::os::unix::net::UnixStream;

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
        /// Rank, if the launcher has told it.
        rank: Option<u32>,
    },
    /// The program ends with this code, as it wants to.
    Exits(i32),
    /// The program ends the job with MPI_Abort and this code.
    Aborts(i32),
    /// The same, while MPI is not initialised (MPI Stages): the launcher would not end the others.
    EndsJob(i32),
    /// The rank cannot go on, perhaps because of the death of another one.
    Fails,
    /// The rank is the child of this process, which stands in for it with the launcher (MPI Stages).
    StandIn(u32),
    /// The rank has written its memory, to go on in it in the next incarnation; or cannot, for this reason.
    Survives(Result<(), NoSurvivor>),
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

/// Message of the keeper; the first one answers the rank's first.
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
}

/// Sends one message.
pub fn send(mut stream: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}
