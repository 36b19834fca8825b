//! `stasis compare`: the first difference between two recorded runs.

use anyhow::bail;
use record::{files, Difference, Log};
use serde_json::json;

use crate::args::Compare;
use crate::ui::exit::{self, Code, WithCode};
use crate::ui::{functions, json, text};

/// Ranks whose difference is printed.
const RANKS: usize = 8;

/// Runs `stasis compare`.
pub fn run(options: &Compare) -> exit::Result<()> {
    let (ranks, found) = differences(options).code(Code::Image)?;
    let texts = found
        .iter()
        .map(|(rank, difference)| (rank, difference.call, difference.text(functions::name)));
    if options.json {
        let found: Vec<_> = texts
            .map(|(rank, call, text)| json!({ "rank": rank, "call": call, "what": text }))
            .collect();
        json::print(json!({ "ranks": ranks, "differences": found }));
        return Ok(());
    }
    if found.is_empty() {
        say!("the runs are equal in {}", text::counted(ranks, "rank"));
    }
    for (rank, _, text) in texts.take(RANKS) {
        say!("rank {rank}: {text}");
    }
    if found.len() > RANKS {
        say!("{} more ranks differ", found.len() - RANKS);
    }
    Ok(())
}

/// The number of ranks, and the first difference in each rank that has one.
fn differences(options: &Compare) -> anyhow::Result<(usize, Vec<(u32, Difference)>)> {
    let (first, second) = (files(&options.first)?, files(&options.second)?);
    let ranks = |files: &[(u32, _)]| files.iter().map(|(rank, _)| *rank).collect::<Vec<_>>();
    if ranks(&first) != ranks(&second) {
        bail!(
            "{} has the records of {} and {} those of {}: they are not of one job",
            options.first.display(),
            text::counted(first.len(), "rank"),
            options.second.display(),
            second.len()
        );
    }
    let mut found = Vec::new();
    for ((rank, a), (_, b)) in first.iter().zip(&second) {
        let (a, b) = (Log::open(a)?, Log::open(b)?);
        functions::check(&a)?;
        functions::check(&b)?;
        if let Some(difference) = record::compare(&a, &b) {
            found.push((*rank, difference));
        }
    }
    Ok((first.len(), found))
}
