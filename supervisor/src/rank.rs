//! A rank's side of the connection to its keeper.

use std::io::{self, BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::messages::{send, FromRank, ToRank};
use crate::run_file::{self, RunFile, RUN_FILE};

/// Reason why a rank must not run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The run file cannot be read.
    #[error(transparent)]
    File(#[from] run_file::Error),
    /// The job is over, or the rank is of an older incarnation.
    #[error(
        "this rank was started as incarnation {mine} of a job of `stasis run`, and {}: it does not run",
        match current { Some(current) => format!("incarnation {current} runs now"),
            None => format!("that job is over (its directory has no {RUN_FILE})") }
    )]
    Superseded {
        /// Incarnation of this rank.
        mine: u32,
        /// Incarnation that runs.
        current: Option<u32>,
    },
    /// The keeper does not answer.
    #[error("`stasis run`, which has started this rank, does not answer: {0}; start the job again with it")]
    Keeper(io::Error),
}

/// Connection of a rank to its keeper.
pub struct Link {
    stream: UnixStream,
    /// Process id of the rank. A child that it forks has a copy of the connection and must not use it.
    process: u32,
}

impl Link {
    /// Connects a rank of an incarnation to its keeper. On another machine than the keeper's there is no connection.
    /// `file` is the name of the run file, or of that of a standby world.
    pub fn connect(
        directory: &Path,
        file: &str,
        incarnation: u32,
        rank: Option<u32>,
    ) -> Result<Option<Link>, Error> {
        let file = RunFile::read(directory, file)?;
        let superseded = |current| Error::Superseded {
            mine: incarnation,
            current,
        };
        let file = match file {
            Some(file) if file.incarnation == incarnation => file,
            other => return Err(superseded(other.map(|file| file.incarnation))),
        };
        if !file.is_here() {
            return Ok(None);
        }
        let stream = file.connect().map_err(Error::Keeper)?;
        let hello = FromRank::Hello {
            token: file.token,
            incarnation,
            rank,
        };
        send(&stream, &hello).map_err(Error::Keeper)?;
        let mut answer = String::new();
        let mut reader = BufReader::new(&stream);
        reader.read_line(&mut answer).map_err(Error::Keeper)?;
        match serde_json::from_str(&answer).map_err(|why| Error::Keeper(why.into()))? {
            ToRank::Welcome => Ok(Some(Link {
                stream,
                process: std::process::id(),
            })),
            ToRank::Superseded { by } => Err(superseded(Some(by))),
            ToRank::Go | ToRank::Map(_) | ToRank::Leave => {
                let why = io::Error::new(io::ErrorKind::InvalidData, "it answers out of turn");
                Err(Error::Keeper(why))
            }
        }
    }

    /// Tells the keeper that the program ends by its own will. Nothing is said by a child of the rank.
    pub fn tell(&self, message: &FromRank) {
        if std::process::id() == self.process {
            // Without a keeper the launcher alone decides.
            let _ = send(&self.stream, message);
        }
    }

    /// Gives all that the keeper says to `treat`. Returns when the keeper is dead.
    pub fn listen(&self, mut treat: impl FnMut(ToRank)) {
        let lines = BufReader::new(&self.stream).lines();
        for line in lines.map_while(Result::ok) {
            if let Ok(message) = serde_json::from_str(&line) {
                treat(message);
            }
        }
    }
}
