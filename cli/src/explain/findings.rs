//! All that can be told of a running job that makes no progress: where its threads are, and what its ranks wait for.

use std::path::Path;
use std::time::Duration;

use coordinator::protocol::WantedStacks;

use super::{ask, stacks};

/// Longest time for each of the two. A rank that has stopped does not answer in this time.
const LIMIT: Duration = Duration::from_secs(6);

/// The findings, each with a heading. A job that does not answer at all has none.
pub fn findings(directory: &Path) -> Vec<String> {
    let threads = stacks::ask(directory, Some(LIMIT), WantedStacks::All);
    let threads = threads.map(|(tree, silent)| stacks::lines(&tree, &silent));
    let waits = ask::lines(directory, Some(LIMIT));
    [
        ("the job's threads are here:", threads),
        ("the job's ranks wait like this:", waits),
    ]
    .into_iter()
    .filter_map(|(heading, found)| {
        let lines = found.ok().filter(|lines| !lines.is_empty())?;
        Some(format!("{heading}\n{}", lines.join("\n")))
    })
    .collect()
}
