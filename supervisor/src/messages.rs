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
}

/// Answer of the keeper to the first message.
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
}

/// Sends one message.
pub fn send(mut stream: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)
}
