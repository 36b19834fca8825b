//! The watch for a job without progress (`--hang`). The coordinator asks each rank for its activity, as for `stasis
//! status`: the MPI function that it is in, and since when neither that nor its messages and collective operations have
//! changed.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::time::{Duration, Instant};
use std::{io, thread};

use coordinator::client::Client;
use coordinator::job_file::JobFile;
use coordinator::protocol::{RankStatus, Stage, Status};

/// Activity of a rank that is in no MPI function.
const COMPUTES: &str = "computing";

/// A job that makes no progress.
pub struct Hang {
    /// Id of the job in its job file, which differs between incarnations.
    pub job: String,
    /// The activity of each rank, one line each.
    pub ranks: Vec<String>,
}

/// The watch.
pub struct Watch {
    /// Wakes the receiver.
    pub wake: UnixStream,
    /// Reports of the watching thread.
    pub found: Receiver<Hang>,
}

impl Watch {
    /// Starts a thread that looks at the job in `directory` again and again, and reports it when no rank has made
    /// progress for as long as `limit`. A job whose ranks all compute makes progress.
    ///
    /// # Errors
    /// No socket or no thread can be made.
    pub fn start(directory: PathBuf, limit: Duration) -> io::Result<Watch> {
        let (wake, waker) = UnixStream::pair()?;
        let (tell, found) = channel();
        let watcher = Watcher {
            directory,
            limit,
            tell,
            waker,
        };
        thread::Builder::new()
            .name("stasis-hang".into())
            .spawn(move || watcher.watch())?;
        wake.set_nonblocking(true)?;
        Ok(Watch { wake, found })
    }
}

struct Watcher {
    directory: PathBuf,
    limit: Duration,
    tell: Sender<Hang>,
    waker: UnixStream,
}

impl Watcher {
    fn watch(mut self) {
        let pause = (self.limit / 8).clamp(Duration::from_millis(50), Duration::from_secs(10));
        // The job that has answered last, and since when it does not.
        let mut answered: Option<String> = None;
        let mut silent: Option<Instant> = None;
        loop {
            thread::sleep(pause);
            let begun = Instant::now();
            let Ok(job) = JobFile::read(&self.directory) else {
                continue;
            };
            let client = Client::connect(&self.directory);
            // A job of an older incarnation is dead and cannot be connected to.
            let connected = client.is_ok();
            let status = client.and_then(|client| client.patient(Some(self.limit)).status());
            let ranks = match status {
                Ok(status) => {
                    (answered, silent) = (Some(job.id.clone()), None);
                    without_progress(&status, self.limit)
                }
                Err(why) if connected || answered.as_ref() == Some(&job.id) => {
                    let since = *silent.get_or_insert(begun);
                    let long = since.elapsed() >= self.limit;
                    long.then(|| vec![format!("rank 0 does not answer ({why})")])
                }
                // The job is being started.
                Err(_) => None,
            };
            let Some(ranks) = ranks else {
                continue;
            };
            let hang = Hang { job: job.id, ranks };
            if self.tell.send(hang).is_err() || self.waker.write_all(b"!").is_err() {
                return;
            }
            (answered, silent) = (None, None);
        }
    }
}

/// The activity of each rank, if no rank has made progress for as long as `limit`.
fn without_progress(status: &Status, limit: Duration) -> Option<Vec<String>> {
    let stands = |rank: &RankStatus| match &rank.doing {
        Some(doing) => doing.since >= limit.as_micros() as u64,
        None => true,
    };
    let computes = |rank: &RankStatus| {
        let doing = rank.doing.as_ref();
        doing.is_some_and(|doing| doing.what == COMPUTES)
    };
    // Ranks that have not connected are being started. While a checkpoint is being taken, all stand still for it.
    let runs = status.stage == Stage::Idle && status.ranks.iter().all(|rank| rank.pid != 0);
    let hangs = runs && status.ranks.iter().all(stands) && !status.ranks.iter().all(computes);
    hangs.then(|| status.ranks.iter().map(described).collect())
}

fn described(rank: &RankStatus) -> String {
    let who = format!("rank {} (process {} on {})", rank.rank, rank.pid, rank.host);
    match &rank.doing {
        Some(doing) => format!("{who}: {} for {} s", doing.what, doing.since / 1_000_000),
        None => format!("{who}: does not answer"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coordinator::protocol::{Doing, RankState};

    fn rank(rank: u32, doing: Option<(&str, u64)>) -> RankStatus {
        RankStatus {
            rank,
            host: "h".into(),
            pid: 7,
            state: RankState::Running,
            doing: doing.map(|(what, seconds)| Doing {
                what: what.into(),
                since: seconds * 1_000_000,
                ..Doing::default()
            }),
        }
    }

    fn hangs(ranks: [Option<(&str, u64)>; 2]) -> bool {
        let [first, second] = ranks;
        let status = Status {
            in_memory: None,
            size: 2,
            stage: Stage::Idle,
            waiting: None,
            committed: 0,
            last: None,
            failure: None,
            next: None,
            ranks: vec![rank(0, first), rank(1, second)],
        };
        without_progress(&status, Duration::from_secs(5)).is_some()
    }

    #[test]
    fn a_job_hangs_if_no_rank_makes_progress_and_one_does_not_compute() {
        assert!(hangs([Some(("in MPI_Recv", 6)), Some(("in MPI_Recv", 5))]));
        assert!(hangs([Some(("in MPI_Recv", 6)), Some(("computing", 5))]));
        assert!(hangs([Some(("computing", 6)), None]));
        assert!(!hangs([Some(("in MPI_Recv", 6)), Some(("in MPI_Recv", 4))]));
        assert!(!hangs([Some(("computing", 60)), Some(("computing", 60))]));
    }
}
