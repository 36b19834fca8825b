//! What commands say to a running job.

use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

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

    /// Makes sure that no other job runs in `directory`. A job that is just being killed still takes
    /// connections but breaks them; one that is suspended keeps them and says nothing.
    pub fn check_free(directory: &Path) -> Result<(), job::Error> {
        const PATIENCE: Duration = Duration::from_secs(3);
        let client = match Self::connect(directory) {
            Ok(client) => client,
            Err(Error::Job(error @ job::Error::Io(..))) => return Err(error),
            // None, one that nobody answers for, or something that will be replaced.
            Err(_) => return Ok(()),
        };
        let job = client.job.clone();
        let _ = client.stream.set_read_timeout(Some(PATIENCE));
        match client.status() {
            Err(Error::Lost(why)) if !why.is_timeout() => Ok(()),
            _ => Err(job.taken(directory)),
        }
    }

    /// Takes a checkpoint; returns when it is committed. `note` is told what people who wait may
    /// like to know.
    pub fn checkpoint(mut self, stop: bool, mut note: impl FnMut(&str)) -> Result<Report, Error> {
        self.ask(Request::Checkpoint { stop, wait: true })?;
        loop {
            if let ToTool::Committed(report) = self.news(&mut note)? {
                return Ok(report);
            }
        }
    }

    /// Asks for a checkpoint; returns as soon as the job has noted that.
    pub fn request(mut self, stop: bool, mut note: impl FnMut(&str)) -> Result<(), Error> {
        self.ask(Request::Checkpoint { stop, wait: false })?;
        loop {
            if let ToTool::Noted | ToTool::Committed(_) = self.news(&mut note)? {
                return Ok(());
            }
        }
    }

    /// What the job says next of a checkpoint, but for notes; an error if there will be none.
    fn news(&mut self, note: &mut impl FnMut(&str)) -> Result<ToTool, Error> {
        loop {
            match self.answer()? {
                ToTool::Note(text) => note(&text),
                ToTool::Failed(reason) => return Err(Error::Failed(reason)),
                ToTool::Rejected(reason) => return Err(Error::Rejected(reason)),
                other => return Ok(other),
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
                ToTool::Note(_) | ToTool::Noted | ToTool::Committed(_) | ToTool::Failed(_) => {}
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{random_word, Address};
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn a_silent_job_keeps_its_directory_and_one_that_is_being_killed_does_not() {
        let dir = std::env::temp_dir().join(format!("stasis-client-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = Address {
            addresses: vec![Ipv4Addr::LOCALHOST.into()],
            port: listener.local_addr().unwrap().port(),
            token: random_word().unwrap(),
        };
        let job = JobFile::new(address, 2, vec!["./a".into()], "mpich".into());
        job.write(&dir).unwrap();
        let taken = Client::check_free(&dir);
        assert!(matches!(taken, Err(job::Error::Taken { .. })), "suspended");
        drop(listener.accept().unwrap());
        let dying = std::thread::spawn(move || drop(listener.accept()));
        Client::check_free(&dir).unwrap();
        dying.join().unwrap();
        Client::check_free(&dir).unwrap();
        std::fs::remove_dir_all(dir).unwrap();
    }
}
