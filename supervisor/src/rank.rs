//! A rank's side of the connection to its keeper.

use std::io::{self, BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::messages::{send, FromRank, NoSurvivor, ToRank};
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
    pub fn connect(
        directory: &Path,
        incarnation: u32,
        rank: Option<u32>,
    ) -> Result<Option<Link>, Error> {
        let file = RunFile::read(directory)?;
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
            ToRank::Survive => Err(Error::Keeper(io::ErrorKind::InvalidData.into())),
        }
    }

    /// Tells the keeper that the program ends by its own will. Nothing is said by a child of the rank.
    pub fn tell(&self, message: &FromRank) {
        if std::process::id() == self.process {
            // Without a keeper the launcher alone decides.
            let _ = send(&self.stream, message);
        }
    }

    /// Returns when the keeper is dead. Calls `survive` when it wants the rank's memory to go on.
    pub fn wait_for_end(&self, survive: impl Fn() -> Result<(), NoSurvivor>) {
        let mut reader = BufReader::new(&self.stream);
        let mut line = String::new();
        loop {
            match reader.read_line(&mut line) {
                Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
                Ok(1..) => {}
                Ok(_) | Err(_) => return,
            }
            if matches!(serde_json::from_str(&line), Ok(ToRank::Survive)) {
                self.tell(&FromRank::Survives(survive()));
            }
            line.clear();
        }
    }
}
