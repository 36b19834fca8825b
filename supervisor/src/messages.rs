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
    /// The rank cannot go on, perhaps because of the death of another one.
    Fails,
    /// Rank 0: the job runs, and would go on from this checkpoint.
    Covered(u64),
    /// The rank belongs to a standby world of this size, has initialised MPI and sleeps.
    Asleep {
        /// Number of ranks of the world.
        ranks: u32,
    },
    /// A rank that sleeps has mapped its image of this checkpoint.
    Mapped(u64),
}

/// Message of the keeper. The first two are answers to the first message of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToRank {
    /// The rank belongs to the incarnation that runs now.
    Welcome,
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
}

/// Sends one message.
pub fn send(mut stream: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}
