//! `stasis jobs`: the running jobs, of this machine or of directories.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use coordinator::client::{Client, Error};
use coordinator::job_file::{self, JobFile, JOB_FILE};
use coordinator::protocol::Status;
use serde_json::{json, Value};

use crate::args::Jobs;
use crate::running::rank_process::RankProcess;
use crate::ui::exit::{self, Code, WithCode};
use crate::ui::{json, text};

/// A job, and what it answers.
struct Found {
    directory: PathBuf,
    answer: Result<(JobFile, Status), Error>,
}

impl Found {
    fn ask(directory: PathBuf) -> Found {
        let ask = || {
            // A suspended job must not keep the others from being listed.
            let client = Client::connect(&directory)?.patient(Some(Duration::ZERO));
            let job = client.job.clone();
            Ok((job, client.status()?))
        };
        let answer = ask();
        Found { directory, answer }
    }

    /// Why it does not answer.
    fn why(&self) -> Option<String> {
        match self.answer.as_ref().err()? {
            Error::Job(job_file::Error::None(_)) => Some(
                "its ranks are at work before MPI_Init or after MPI_Finalize, where no command reaches them".to_owned(),
            ),
            Error::Impatient(_) => Some("it may be suspended (SIGSTOP)".to_owned()),
            other => Some(other.to_string()),
        }
    }

    /// Whether a job has left the directory in order.
    fn is_over(&self) -> bool {
        let over = |error: &job_file::Error| {
            matches!(
                error,
                job_file::Error::None(_)
                    | job_file::Error::Ended { .. }
                    | job_file::Error::Stopped { .. }
            )
        };
        matches!(&self.answer, Err(Error::Job(error)) if over(error))
    }

    fn to_json(&self) -> Value {
        let job = self.answer.as_ref().ok();
        json!({
            "directory": self.directory,
            "job": job.map(|(job, _)| &job.id),
            "program": job.map(|(job, _)| &job.program),
            "mpi": job.map(|(job, _)| &job.mpi),
            "host": job.map(|(job, _)| &job.host),
            "started": job.map(|(job, _)| job.started),
            "size": job.map(|(_, status)| status.size),
            "stage": job.map(|(_, status)| status.stage.to_string()),
            "committed": job.map(|(_, status)| status.committed),
            "why": self.why(),
        })
    }

    fn print(&self) {
        let directory = self.directory.display();
        match &self.answer {
            Ok((job, status)) => say!(
                "{directory}: {}; {} on {}, started {}; {}, checkpoints committed: {}",
                job.command(),
                text::ranks(status.size),
                job.host,
                text::when(job.started),
                status.stage,
                status.committed
            ),
            Err(_) => say!(
                "{directory}: {}: {}",
                text::bad("no answer"),
                self.why().unwrap_or_default()
            ),
        }
    }
}

/// Runs the command.
pub fn run(options: &Jobs) -> exit::Result<()> {
    let found: Vec<Found> = match options.directories[..] {
        [] => {
            let ranks = RankProcess::of_this_user();
            let directories: BTreeSet<PathBuf> = ranks.map(|rank| rank.directory).collect();
            directories.into_iter().map(Found::ask).collect()
        }
        _ => {
            let found = in_directories(&options.directories)?.into_iter();
            let found = found.map(Found::ask);
            found.filter(|found| !found.is_over()).collect()
        }
    };
    if options.json {
        let rows: Vec<_> = found.iter().map(Found::to_json).collect();
        json::print(json!({ "jobs": rows }));
        return Ok(());
    }
    if found.is_empty() {
        match options.directories.is_empty() {
            true => say!(
                "no job of yours has a rank on this machine; name directories to look for others"
            ),
            false => say!("no job runs there"),
        }
    }
    found.iter().for_each(Found::print);
    Ok(())
}

/// The directories themselves, if they have a job file, and those directly below them.
fn in_directories(given: &[PathBuf]) -> exit::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for directory in given {
        let entries = std::fs::read_dir(directory);
        let entries = entries.map_err(|why| anyhow!("cannot read {}: {why}", directory.display()));
        let below = entries.code(Code::Directory)?.flatten();
        let all = below.map(|entry| entry.path()).chain([directory.clone()]);
        found.extend(all.filter(|path| path.join(JOB_FILE).is_file()));
    }
    Ok(found)
}
