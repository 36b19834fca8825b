//! The stacks of a job's threads. Those with the same outer frames share them in one tree, as in the Stack Trace
//! Analysis Tool (Arnold et al., Stack Trace Analysis for Large Scale Debugging, IPDPS 2007).

use std::path::Path;
use std::time::Duration;

use coordinator::client::{Client, Error};
use coordinator::protocol::rank_set::RankSet;
use coordinator::protocol::{Details, RankState, Status, WantedStacks};
use serde_json::{json, Value};

/// The tree, a line for each frame, and the ranks that tell none.
pub fn lines(tree: &Calls, silent: &RankSet) -> Vec<String> {
    let mut lines = vec![];
    if tree.threads > 0 {
        tree.lines(None, 0, &mut lines);
    }
    if !silent.is_empty() {
        let why = "they have not called MPI_Init, or do not answer";
        lines.push(format!("no stack of ranks {silent}: {why}"));
    }
    lines
}

/// The tree of the job that runs with a directory, and the ranks that tell none.
pub fn ask(
    directory: &Path,
    limit: Option<Duration>,
    stacks: WantedStacks,
) -> Result<(Calls, RankSet), Error> {
    let details = Details {
        stacks,
        ..Details::default()
    };
    let client = Client::connect(directory)?.patient(limit);
    Ok(of_job(&client.details(details)?))
}

/// The tree of all threads, and the ranks that tell none.
fn of_job(status: &Status) -> (Calls, RankSet) {
    let (mut tree, mut silent) = (Calls::default(), RankSet::default());
    for rank in &status.ranks {
        let threads = rank.doing.iter().flat_map(|doing| &doing.threads);
        let before = tree.threads;
        for stack in threads {
            tree.add(rank.rank, &stack.frames);
        }
        if tree.threads == before && rank.state != RankState::Finished {
            silent.add(rank.rank);
        }
    }
    (tree, silent)
}

/// Threads with the same outer frames.
#[derive(Default)]
pub struct Calls {
    ranks: RankSet,
    threads: usize,
    /// The threads by their next frame, in the order in which they were found.
    inner: Vec<(String, Calls)>,
}

impl Calls {
    /// Adds a thread with these further frames, outermost first.
    fn add(&mut self, rank: u32, frames: &[String]) {
        self.ranks.add(rank);
        self.threads += 1;
        let Some((next, rest)) = frames.split_first() else {
            return;
        };
        let known = self.inner.iter().position(|(frame, _)| frame == next);
        let at = known.unwrap_or_else(|| {
            self.inner.push((next.clone(), Calls::default()));
            self.inner.len() - 1
        });
        if let Some((_, calls)) = self.inner.get_mut(at) {
            calls.add(rank, rest);
        }
    }

    /// `ranks 0-2`, `3 threads of rank 1`.
    fn whose(&self) -> String {
        let count = self.ranks.iter().count();
        let ranks = match count {
            1 => format!("rank {}", self.ranks),
            _ => format!("ranks {}", self.ranks),
        };
        match self.threads == count {
            true => ranks,
            false => format!("{} threads of {ranks}", self.threads),
        }
    }

    /// A line for each frame below the outer frame `frame`, with a heading wherever the threads part.
    fn lines(&self, frame: Option<&str>, depth: usize, lines: &mut Vec<String>) {
        lines.push(format!("{:1$}{2}:", "", 2 * depth, self.whose()));
        let mut calls = self;
        let mut frame = frame;
        loop {
            lines.extend(frame.map(|frame| format!("{:1$}{frame}", "", 2 * depth + 4)));
            match calls.inner.as_slice() {
                [(next, inner)] if inner.threads == calls.threads => {
                    (frame, calls) = (Some(next.as_str()), inner);
                }
                _ => break,
            }
        }
        for (next, inner) in &calls.inner {
            inner.lines(Some(next), depth + 1, lines);
        }
    }

    /// The tree as `stasis stacks --json` has it.
    pub fn to_json(&self) -> Value {
        let inner = self.inner.iter().map(|(frame, calls)| {
            let mut value = calls.to_json();
            value["frame"] = json!(frame);
            value
        });
        json!({
            "ranks": self.ranks.iter().collect::<Vec<_>>(),
            "threads": self.threads,
            "inner": inner.collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_share_their_outer_frames() {
        let mut tree = Calls::default();
        let mut add = |rank, frames: &[&str]| {
            let frames: Vec<String> = frames.iter().map(ToString::to_string).collect();
            tree.add(rank, &frames);
        };
        for rank in 0..3 {
            add(rank, &["main", "solve", "MPI_Allreduce"]);
        }
        add(3, &["main", "read_input", "fread"]);
        add(3, &["main", "read_input"]);
        let mut lines = vec![];
        tree.lines(None, 0, &mut lines);
        let wanted = [
            "5 threads of ranks 0-3:",
            "    main",
            "  ranks 0-2:",
            "      solve",
            "      MPI_Allreduce",
            "  2 threads of rank 3:",
            "      read_input",
            "    rank 3:",
            "        fread",
        ];
        assert_eq!(lines, wanted);
    }
}
