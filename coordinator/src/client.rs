//! What commands say to a running job.

use std::net::TcpStream;
use std::path::Path;

use crate::frame::{self, MAX_FRAME};
use crate::job::{self, JobFile};
use crate::protocol::{First, Report, Request, Status, ToTool, PROTOCOL};

/// Why a request was not fulfilled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no job to talk to.
    #[error(transparent)]
    Job(#[from] job::Error),
    /// The job does not talk to us.
    #[error("the job refused: {0}")]
    Rejected(String),
    /// The checkpoint was given up.
    #[error("the checkpoint was given up and the job runs on: {0}")]
    Failed(String),
    /// The connection broke.
    #[error(
        "the job ended, or was killed, before it answered ({0}); `stasis list` shows which \
         checkpoints are whole"
    )]
    Lost(frame::Error),
}

/// A running job.
pub struct Client {
    /// What its file says.
    pub job: JobFile,
    stream: TcpStream,
}

impl Client {
    /// Finds the job of a checkpoint directory and connects to it.
    pub fn connect(directory: &Path) -> Result<Client, Error> {
        let job = JobFile::read(directory)?;
        let stream = job.connect(directory)?;
        Ok(Client { job, stream })
    }

    /// Takes a checkpoint; returns when it is committed. `note` is told what people who wait may
    /// like to know.
    pub fn checkpoint(mut self, stop: bool, mut note: impl FnMut(&str)) -> Result<Report, Error> {
        self.ask(Request::Checkpoint { stop })?;
        loop {
            match self.answer()? {
                ToTool::Note(text) => note(&text),
                ToTool::Committed(report) => return Ok(report),
                ToTool::Failed(reason) => return Err(Error::Failed(reason)),
                ToTool::Rejected(reason) => return Err(Error::Rejected(reason)),
                ToTool::Status(_) => {}
            }
        }
    }

    /// How the job stands.
    pub fn status(mut self) -> Result<Status, Error> {
        self.ask(Request::Status)?;
        loop {
            match self.answer()? {
                ToTool::Status(status) => return Ok(status),
                ToTool::Rejected(reason) => return Err(Error::Rejected(reason)),
                ToTool::Note(_) | ToTool::Committed(_) | ToTool::Failed(_) => {}
            }
        }
    }

    fn ask(&mut self, request: Request) -> Result<(), Error> {
        let token = self.job.address.token.clone();
        let first = First::Tool {
            protocol: PROTOCOL,
            token,
            request,
        };
        frame::send(&mut self.stream, &first).map_err(Error::Lost)
    }

    fn answer(&mut self) -> Result<ToTool, Error> {
        frame::receive(&mut self.stream, MAX_FRAME).map_err(Error::Lost)
    }
}
