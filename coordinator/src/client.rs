//! The connection of a command to a running job.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use job_spec::shell;

use crate::job_file::{self, JobFile};
use crate::net::addresses;
use crate::net::frame::{self, MAX_FRAME};
use crate::net::socket::{self, Watched};
use crate::net::stream::Stream;
use crate::process_liveness::Stop;
use crate::protocol::messages::{
    Details, Hello, Progress, Report, Request, Status, ToClient, PROTOCOL,
};

/// Time after the end of the user's patience in which the job may still tell which rank has used it up.
const GRACE: Duration = Duration::from_secs(5);

/// Longest wait for the answer to a question. A job waits for less than that for the ranks that have to answer it.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Interval of the looks at the state of rank 0. The kernel tells a command nothing when that process is stopped.
const LOOK: Duration = Duration::from_secs(2);

/// Why rank 0 does not answer, and what helps.
fn silence(stopped: bool, pid: u32, directory: &Path) -> String {
    let directory = shell::word(directory);
    match stopped {
        true => format!(
            "is stopped (by SIGSTOP or a debugger): `kill -CONT {pid}` lets it go on, and `stasis stop {directory}` \
             ends the job"
        ),
        false => format!(
            "has not answered for {} s: is its machine down, or is it stuck in a call of the kernel? `stasis stop \
             {directory}` on its machine ends the job",
            ANSWER_LIMIT.as_secs()
        ),
    }
}

/// Reason why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No job answers.
    #[error(transparent)]
    Job(#[from] job_file::Error),
    /// The job rejected the client.
    #[error("the job refused: {0}")]
    Rejected(String),
    /// The checkpoint was abandoned.
    #[error("the checkpoint was given up and the job runs on: {0}")]
    Failed(String),
    /// The same, because it has waited for ranks in vain.
    #[error("the checkpoint was given up and the job runs on: {0}")]
    Late(String),
    /// No checkpoint was taken within the client's time limit.
    #[error(
        "no checkpoint was taken within {} s; the job runs on, and takes it as soon as it can (`stasis status` tells \
         what it waits for)", .0.as_secs()
    )]
    Impatient(Duration),
    /// Rank 0 is stopped, or has not answered within the time limit.
    #[error("rank 0 (process {pid} on {host}), which answers for the job, {}", silence(*stopped, *pid, directory))]
    Silent {
        /// Process id of rank 0.
        pid: u32,
        /// Host of rank 0.
        host: String,
        /// Whether it is stopped.
        stopped: bool,
        /// The checkpoint directory.
        directory: PathBuf,
    },
    /// The connection broke.
    #[error(
        "the job ended, or was killed, before it answered ({0}); `stasis list` shows which \
         checkpoints are whole"
    )]
    Lost(frame::Error),
    /// The connection broke, and the job is still running.
    #[error(
        "the job closed the connection before it answered ({why}), but it runs (process {pid} on {host}): ask \
         again. Has it reached a limit of memory or of open files, or does another process hold connections to it?"
    )]
    Closed {
        /// Error of the connection.
        why: frame::Error,
        /// Process id of rank 0.
        pid: u32,
        /// Host of rank 0.
        host: String,
    },
}

/// Messages from a job while a checkpoint is being taken.
#[derive(Clone, Debug)]
pub enum News {
    /// A text for the waiting user.
    Note(String),
    /// Progress of the checkpoint.
    Progress(Progress),
}

/// A running job.
pub struct Client {
    /// Content of the job file.
    pub job: JobFile,
    directory: PathBuf,
    stream: Stream,
    /// Patience of the user, and the end of the time for answers.
    patience: Option<(Duration, Instant)>,
}

impl Client {
    /// Finds the job of a checkpoint directory and connects to it.
    ///
    /// # Errors
    /// [`Error::Job`]: there is no job, it has ended, or its file cannot be used.
    pub fn connect(directory: &Path) -> Result<Client, Error> {
        let job = JobFile::read(directory)?;
        let stream = job.connect(directory)?;
        Ok(Client {
            job,
            directory: directory.to_owned(),
            stream,
            patience: None,
        })
    }

    /// Sets a time limit for the checkpoint, from now on; none means no limit. The job gets it as its patience with
    /// ranks that are stuck.
    pub fn patient(mut self, patience: Option<Duration>) -> Client {
        self.patience = patience.map(|patience| (patience, Instant::now() + patience + GRACE));
        self
    }

    fn patience(&self) -> Option<u64> {
        let (patience, _) = self.patience?;
        Some(patience.as_micros() as u64)
    }

    /// Takes a checkpoint and returns when it is committed. `tell` receives the job's messages meanwhile.
    ///
    /// # Errors
    /// [`Error::Rejected`], and [`Error::Failed`] or [`Error::Late`] if the checkpoint was given up, with the job's
    /// reason; [`Error::Impatient`] after the time limit; without one, [`Error::Silent`] if rank 0 is stopped;
    /// [`Error::Lost`] and [`Error::Closed`] if the connection ends.
    pub fn checkpoint(mut self, stop: bool, mut tell: impl FnMut(News)) -> Result<Report, Error> {
        self.ask(Request::Checkpoint {
            stop,
            wait: true,
            patience: self.patience(),
        })?;
        loop {
            if let ToClient::Committed(report) = self.answer_to(None, &mut tell)? {
                return Ok(report);
            }
        }
    }

    /// Requests a checkpoint and returns as soon as the job has noted the request.
    ///
    /// # Errors
    /// As for [`Client::checkpoint`], and [`Error::Silent`] if rank 0 does not answer.
    pub fn request(mut self, stop: bool, mut tell: impl FnMut(News)) -> Result<(), Error> {
        self.ask(Request::Checkpoint {
            stop,
            wait: false,
            patience: self.patience(),
        })?;
        loop {
            let answer = self.answer_to(Some(ANSWER_LIMIT), &mut tell)?;
            if let ToClient::Noted | ToClient::Committed(_) = answer {
                return Ok(());
            }
        }
    }

    /// The job's answer to the request for a checkpoint; an error if none will be taken.
    fn answer_to(
        &mut self,
        limit: Option<Duration>,
        tell: &mut impl FnMut(News),
    ) -> Result<ToClient, Error> {
        loop {
            match self.answer(limit)? {
                ToClient::Note(text) => tell(News::Note(text)),
                ToClient::Progress(progress) => tell(News::Progress(progress)),
                ToClient::Failed(reason) => return Err(Error::Failed(reason)),
                ToClient::Late(reason) => return Err(Error::Late(reason)),
                ToClient::Rejected(reason) => return Err(Error::Rejected(reason)),
                other => return Ok(other),
            }
        }
    }

    /// The status of the job.
    ///
    /// # Errors
    /// As for [`Client::details`].
    pub fn status(self) -> Result<Status, Error> {
        self.details(Details::default())
    }

    /// The status of the job, with these details of each rank.
    ///
    /// # Errors
    /// [`Error::Rejected`] with the job's reason, [`Error::Silent`] if rank 0 does not answer, [`Error::Lost`] and
    /// [`Error::Closed`] if the connection ends.
    pub fn details(mut self, details: Details) -> Result<Status, Error> {
        self.ask(Request::Status { details })?;
        loop {
            match self.answer(Some(ANSWER_LIMIT))? {
                ToClient::Status(status) => return Ok(status),
                ToClient::Rejected(reason) => return Err(Error::Rejected(reason)),
                ToClient::Note(_)
                | ToClient::Progress(_)
                | ToClient::Noted
                | ToClient::Committed(_)
                | ToClient::Failed(_)
                | ToClient::Late(_) => {}
            }
        }
    }

    fn ask(&mut self, request: Request) -> Result<(), Error> {
        let token = self.job.address.token.clone();
        let first = Hello::Client {
            protocol: PROTOCOL,
            token,
            request,
        };
        frame::send(&mut &self.stream, &first).map_err(|why| self.lost(why))
    }

    /// The next message of the job. Without the user's patience, `limit` bounds the wait for it.
    fn answer(&mut self, limit: Option<Duration>) -> Result<ToClient, Error> {
        let Some((patience, end)) = self.patience else {
            self.await_word(limit)?;
            return frame::receive(&mut &self.stream, MAX_FRAME).map_err(|why| self.lost(why));
        };
        let left = end.saturating_duration_since(Instant::now());
        // A timeout of zero would mean no timeout.
        let set = self
            .stream
            .set_read_timeout(Some(left.max(Duration::from_millis(1))));
        set.map_err(|why| Error::Lost(why.into()))?;
        frame::receive(&mut &self.stream, MAX_FRAME).map_err(|why| match why.is_timeout() {
            true => Error::Impatient(patience),
            false => self.lost(why),
        })
    }

    /// Waits until the job says something. Fails if rank 0 is stopped, or says nothing within the limit.
    fn await_word(&self, limit: Option<Duration>) -> Result<(), Error> {
        let begun = Instant::now();
        let is_here = self.job.host == addresses::host();
        let mut before = None;
        loop {
            if socket::wait(vec![Watched::new(&self.stream)], Some(LOOK)).contains(&true) {
                return Ok(());
            }
            let stop = is_here.then(|| Stop::of(self.job.pid)).flatten();
            let stopped = stop.is_some() && stop == before;
            before = stop;
            if stopped || limit.is_some_and(|limit| begun.elapsed() >= limit) {
                return Err(Error::Silent {
                    pid: self.job.pid,
                    host: self.job.host.clone(),
                    stopped,
                    directory: self.directory.clone(),
                });
            }
        }
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
