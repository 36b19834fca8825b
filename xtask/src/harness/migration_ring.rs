//! A ring of ranks (`examples/bench/latency_ring.c`) that migrates from one MPI library and network to the next.
//!
//! It is launched on the first leg, checkpointed and killed, restarted on the second, and so on.

use crate::bench;
use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::nodes::{Nodes, Placement};
use crate::harness::{paths, stasis};
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);

/// Place of the ring during a part of the journey.
pub struct Leg {
    /// Readable name.
    pub name: &'static str,
    /// MPI library of the lower half.
    pub mpi: Mpi,
    /// Nodes and the network between them.
    pub placement: Placement,
}

/// Measurements of a leg.
pub struct Travelled {
    /// Steps, in order. The checkpoint that ended the leg was taken during or after the last of them.
    pub steps: Vec<Step>,
    /// Bytes through the switch.
    pub carried: u64,
}

/// Report of the ring about a step.
#[derive(Clone, Copy)]
pub struct Step {
    /// Number of the step.
    pub number: usize,
    /// End of the step, in seconds since 1970.
    pub end: f64,
    /// Microseconds per lap.
    pub lap: f64,
}

/// Runs the ring, a program built for `front`, along all legs, with `steps` steps of `laps` laps on each. Its files are
/// in `dir`.
pub fn travel(
    front: Mpi,
    legs: &[Leg],
    steps: usize,
    laps: usize,
    nodes: &Nodes,
    dir: &Path,
) -> Result<Vec<Travelled>> {
    let program = bench::compile(front, "bench/latency_ring.c", "latency_ring", &[])?;
    let (ckpt, go) = (dir.join("ck"), dir.join("go"));
    let mut way: Vec<Travelled> = Vec::new();
    for (number, leg) in legs.iter().enumerate() {
        let name = format!("leg-{number}");
        let mut command = nodes.mpirun(leg.mpi, &leg.placement, &name)?;
        command.arg(paths::stasis()).env("STASIS_TEST_GO", &go);
        match number {
            0 => command
                .args(["launch", "--ckpt-dir"])
                .arg(&ckpt)
                .arg(&program)
                .arg(laps.to_string()),
            _ => command.arg("restart").arg(&ckpt),
        };
        let before = nodes.carried()?;
        let mut job = Job::start(nodes.on_first(&command), dir, &name)?;
        let output = job.stdout.clone();
        let come = job.until("its steps were done", Instant::now() + LIMIT, || {
            told(&output).len() >= steps
        });
        job.explain(come, dir).with_context(|| leg.name)?;
        if number + 1 < legs.len() {
            let checkpoint = nodes.on_first(&stasis::checkpoint(&ckpt));
            job::run(checkpoint, dir, "checkpoint", LIMIT)?.expect_success("the checkpoint")?;
            job.kill()?;
        } else {
            fs::write(&go, "")?;
            job.succeed(Instant::now() + LIMIT, dir)?;
        }
        way.push(Travelled {
            steps: told(&output),
            carried: nodes.carried()? - before,
        });
    }
    // Steps after a checkpoint are repeated on the next leg.
    for number in 1..way.len() {
        let first = way[number].steps[0].number;
        way[number - 1].steps.retain(|step| step.number < first);
    }
    Ok(way)
}

/// The steps in the ring's output.
fn told(output: &Path) -> Vec<Step> {
    let step = |line: &str| {
        let mut words = line.strip_prefix("step ")?.split(' ');
        Some(Step {
            number: words.next()?.parse().ok()?,
            end: words.next()?.parse().ok()?,
            lap: words.next()?.parse().ok()?,
        })
    };
    job::read_text(output).lines().filter_map(step).collect()
}
