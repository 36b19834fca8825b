//! What commands say to a running job.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::frame::{self, MAX_FRAME};
use crate::job::{self, JobFile};
use crate::protocol::{First, Progress, Report, Request, Status, ToTool, ENDING, PROTOCOL};
use crate::stream::Stream;

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
    /// There was none within the time that whoever asked had.
    #[error(
        "no checkpoint was taken within {} s; the job runs on, and takes it as soon as it can (`stasis status` tells \
         what it waits for)", .0.as_secs()
    )]
    Impatient(Duration),
    /// The connection broke.
    #[error(
        "the job ended, or was killed, before it answered ({0}); `stasis list` shows which \
         checkpoints are whole"
    )]
    Lost(frame::Error),
    /// The connection broke, and the job lives.
    #[error(
        "the job closed the connection before it answered ({why}), but it lives (process {pid} on {host}): ask \
         again. Has it reached a limit of memory or of open files, or does somebody else hold connections to it?"
    )]
    Closed {
        /// How it broke.
        why: frame::Error,
        /// Rank 0's process id.
        pid: u32,
        /// Rank 0's host.
        host: String,
    },
}

/// What a job says while a checkpoint is being taken.
#[derive(Clone, Debug)]
pub enum News {
    /// What people who wait may like to know.
    Note(String),
    /// How far it has come.
    Progress(Progress),
}

/// A running job.
pub struct Client {
    /// What its file says.
    pub job: JobFile,
    stream: Stream,
    /// How long answers may take, and until when.
    patience: Option<(Duration, Instant)>,
}

impl Client {
    /// Finds the job of a checkpoint directory and connects to it.
    pub fn connect(directory: &Path) -> Result<Client, Error> {
        let job = JobFile::read(directory)?;
        let stream = job.connect(directory)?;
        Ok(Client {
            job,
            stream,
            patience: None,
        })
    }

    /// Waits no longer than this from now, if that is a time.
    pub fn patient(mut self, patience: Option<Duration>) -> Client {
        self.patience = patience.map(|patience| (patience, Instant::now() + patience));
        self
    }

    /// Makes sure that no other job runs in `directory`. A job that is just being killed still takes
    /// connections but breaks them; one that ends with a checkpoint, which is waited for, breaks them
    /// when it has; one that is suspended keeps them and says nothing.
    pub fn check_free(directory: &Path) -> Result<(), job::Error> {
        const PATIENCE: Duration = Duration::from_secs(3);
        let mut client = match Self::connect(directory) {
            Ok(client) => client,
            Err(Error::Job(error @ job::Error::Io(..))) => return Err(error),
            // None, one that nobody answers for, or something that will be replaced.
            Err(_) => return Ok(()),
        };
        let job = client.job.clone();
        let _ = client.stream.set_read_timeout(Some(PATIENCE));
        let mut said = client.state();
        if said.as_ref().is_ok_and(|status| status.stage == ENDING) {
            said = client.next_state();
        }
        match said {
            Err(Error::Lost(why)) if !why.is_timeout() => Ok(()),
            _ => Err(job.taken(directory)),
        }
    }

    /// Leaves `job`'s file in the directory, unless another job that lives has its own there: of two that begin at
    /// the same time one has it.
    pub fn claim(job: &JobFile, directory: &Path) -> Result<(), job::Error> {
        loop {
            match job.write_new(directory) {
                Err(job::Error::Io(_, _, e)) if e.kind() == io::ErrorKind::AlreadyExists => {}
                done => return done,
            }
            let seen = JobFile::read(directory).ok();
            Self::check_free(directory)?;
            JobFile::clear(directory, seen.as_ref())?;
        }
    }

    /// Takes a checkpoint; returns when it is committed. `tell` is told what the job says meanwhile.
    pub fn checkpoint(mut self, stop: bool, mut tell: impl FnMut(News)) -> Result<Report, Error> {
        self.ask(Request::Checkpoint { stop, wait: true })?;
        loop {
            if let ToTool::Committed(report) = self.answer_to(&mut tell)? {
                return Ok(report);
            }
        }
    }

    /// Asks for a checkpoint; returns as soon as the job has noted that.
    pub fn request(mut self, stop: bool, mut tell: impl FnMut(News)) -> Result<(), Error> {
        self.ask(Request::Checkpoint { stop, wait: false })?;
        loop {
            if let ToTool::Noted | ToTool::Committed(_) = self.answer_to(&mut tell)? {
                return Ok(());
            }
        }
    }

    /// What the job answers to the request for a checkpoint; an error if there will be none.
    fn answer_to(&mut self, tell: &mut impl FnMut(News)) -> Result<ToTool, Error> {
        loop {
            match self.answer()? {
                ToTool::Note(text) => tell(News::Note(text)),
                ToTool::Progress(progress) => tell(News::Progress(progress)),
                ToTool::Failed(reason) => return Err(Error::Failed(reason)),
                ToTool::Rejected(reason) => return Err(Error::Rejected(reason)),
                other => return Ok(other),
            }
        }
    }

    /// How the job stands.
    pub fn status(mut self) -> Result<Status, Error> {
        self.state()
    }

    fn state(&mut self) -> Result<Status, Error> {
        self.ask(Request::Status)?;
        self.next_state()
    }

    fn next_state(&mut self) -> Result<Status, Error> {
        loop {
            match self.answer()? {
                ToTool::Status(status) => return Ok(status),
                ToTool::Rejected(reason) => return Err(Error::Rejected(reason)),
                ToTool::Note(_)
                | ToTool::Progress(_)
                | ToTool::Noted
                | ToTool::Committed(_)
                | ToTool::Failed(_) => {}
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
        frame::send(&mut &self.stream, &first).map_err(|why| self.lost(why))
    }

    fn answer(&mut self) -> Result<ToTool, Error> {
        let Some((patience, end)) = self.patience else {
            return frame::receive(&mut &self.stream, MAX_FRAME).map_err(|why| self.lost(why));
        };
        let left = end.saturating_duration_since(Instant::now());
        // No time at all would mean without end.
        let set = self
            .stream
            .set_read_timeout(Some(left.max(Duration::from_millis(1))));
        set.map_err(|why| Error::Lost(why.into()))?;
        frame::receive(&mut &self.stream, MAX_FRAME).map_err(|why| match why.is_timeout() {
            true => Error::Impatient(patience),
            false => self.lost(why),
        })
    }

    fn lost(&self, why: frame::Error) -> Error {
        match !why.is_timeout() && self.job.lives() {
            true => Error::Closed {
                why,
                pid: self.job.pid,
                host: self.job.host.clone(),
            },
            false => Error::Lost(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{random_word, Address};
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn a_silent_job_keeps_its_directory_and_one_that_is_killed_or_ends_does_not() {
        let dir = std::env::temp_dir().join(format!("stasis-client-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = Address {
            addresses: vec![Ipv4Addr::LOCALHOST.into()],
            port: listener.local_addr().unwrap().port(),
            socket: None,
            token: random_word().unwrap(),
        };
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let mut job = JobFile::new(address, 2, vec!["./a".into()], "mpich".into());
        job.pid = ended.id();
        job.write(&dir).unwrap();
        let taken = Client::check_free(&dir);
        assert!(matches!(taken, Err(job::Error::Taken { .. })), "suspended");
        drop(listener.accept().unwrap());
        let dying = std::thread::spawn(move || {
            drop(listener.accept());
            listener
        });
        Client::check_free(&dir).unwrap();
        let listener = dying.join().unwrap();
        let ending = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let _: First = frame::receive(&mut stream, MAX_FRAME).unwrap();
            let status = Status {
                size: 2,
                stage: ENDING.into(),
                waiting: None,
                committed: 1,
                last: None,
                failure: None,
                next: None,
                ranks: vec![],
            };
            frame::send(&mut stream, &ToTool::Status(status)).unwrap();
        });
        Client::check_free(&dir).unwrap();
        ending.join().unwrap();
        Client::check_free(&dir).unwrap();
        std::fs::remove_dir_all(dir).unwrap();
    }
}
