//! The question to a running job.

use std::path::Path;
use std::time::Duration;

use coordinator::client::{Client, Error};
use coordinator::protocol::{Details, WantedStacks};

use super::job::Job;
use super::text;
use super::wait_graph::Verdict;

/// The answer for people about the job that runs with a directory.
pub fn lines(directory: &Path, limit: Option<Duration>) -> Result<Vec<String>, Error> {
    let (job, verdict) = ask(directory, limit)?;
    Ok(text::lines(&job, &verdict))
}

/// Looks at the job before it is said to move.
const LOOKS: usize = 4;

/// The job and its verdict. Ranks look at themselves at slightly different times: a deadlock is told only if two looks
/// find all of its ranks in the same places, so that they were there at once.
pub fn ask(directory: &Path, limit: Option<Duration>) -> Result<(Job, Verdict), Error> {
    let (mut job, mut verdict) = look(directory, limit)?;
    for _ in 1..LOOKS {
        let Verdict::Deadlock { stuck, .. } = &verdict else {
            return Ok((job, verdict));
        };
        let (next, again) = look(directory, limit)?;
        let stays =
            again == verdict && stuck.iter().all(|rank| job.place(rank) == next.place(rank));
        (job, verdict) = (next, again);
        if stays {
            return Ok((job, verdict));
        }
    }
    Ok((job, Verdict::Moving))
}

fn look(directory: &Path, limit: Option<Duration>) -> Result<(Job, Verdict), Error> {
    let details = Details {
        stacks: WantedStacks::All,
        waits: true,
        ..Details::default()
    };
    let client = Client::connect(directory)?.patient(limit);
    let job = Job::of(&client.details(details)?);
    let verdict = job.graph().verdict();
    Ok((job, verdict))
}
