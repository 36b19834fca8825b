//! Paper 004: the poster of MPI Stages.

use super::super::compile;
use super::measure::Lab;
use super::page::{Item, Outcome, Paper, Row};
use crate::harness::{job, paths, stasis};
use anyhow::{Context, Result};
use std::fs;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const RANKS: usize = 3;
const DIFFERS: &str = "3 ranks; a rank kills itself (SIGKILL) under `stasis run --stages`. The program is \
                       `examples/tools/stages_ring.c`, and the tests `stages/ring-first` and `stages/ring-last` hold it";

pub const PAPER: Paper = Paper {
    number: "004",
    title: "MPI Stages (poster)",
    setting: "The poster has no measurements. Its figures are scenarios of a ring: rank 0 sends a number around, adds \
              one, and begins again.",
    items: &[
        Item {
            name: "Figure 2",
            what: "Rank 2 dies after its checkpoint of the second ring, which rank 0 does not have.",
            theirs: "The ring goes on by sending 1.",
            differs: DIFFERS,
            columns: ("", "ours"),
            measure: |lab| ring(lab, 2, 1, "goes on by sending 1"),
        },
        Item {
            name: "Figure 3",
            what: "Rank 0 dies after the second ring.",
            theirs: "The ring goes on by sending 2.",
            differs: DIFFERS,
            columns: ("", "ours"),
            measure: |lab| ring(lab, 0, 2, "goes on by sending 2"),
        },
    ],
};

/// What the program and `stasis run` say of the death of a rank in a ring.
fn ring(lab: &Lab, killed: usize, in_ring: usize, paper: &'static str) -> Result<Vec<Row>> {
    let include = format!("-I{}", paths::root().join("upper-half/include").display());
    let program = compile(lab.mpi(), "tools/stages_ring.c", "stages_ring", &[&include])?;
    let dir = lab.dir.join(format!("ring-{killed}"));
    fs::create_dir_all(&dir)?;
    let mut launch = stasis::launch(lab.mpi(), RANKS, &dir.join("ck"), &dir);
    launch.arg(program).arg(&dir);
    launch.args(["7", &killed.to_string(), &in_ring.to_string()]);
    let run = job::run(stasis::run(&["--stages"], &launch), &dir, "ring", LIMIT)?;
    let run = run.expect_success("the ring")?;
    let went_on = run.stdout.lines().find(|line| line.contains(paper));
    let went_on = went_on.with_context(|| format!("it does not say '{paper}':\n{}", run.stdout))?;
    let label = format!("rank {killed} dies in ring {in_ring}");
    Ok(vec![Row::new(
        label,
        paper,
        Outcome::Seen(went_on.to_owned()),
    )])
}
