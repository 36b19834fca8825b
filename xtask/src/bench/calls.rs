//! The call benchmark: `examples/bench/calls.c` natively, with the writes of a crossing, under Stasis, and with
//! two-phase commit.

use super::paired::Paired;
use super::{compile, figures, in_turn, Figures, Way};
use crate::harness::mpi::Mpi;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;

/// Budget of a row of the call benchmark.
enum Budget {
    /// Ratio to the native time with the writes of a crossing, which no crossing between two C libraries goes below.
    Crossings(f64),
    /// Ratio to the native time.
    Ratio(f64),
    /// Nanoseconds more than the native time.
    More(f64),
}

/// Rows of the call benchmark: name in its output, label, budget.
const CALLS: &[(&str, &str, Budget)] = &[
    ("pingpong_8", "ping-pong 8 B", Budget::Crossings(1.05)),
    ("pingpong_4k", "ping-pong 4 KiB", Budget::Crossings(1.05)),
    ("pingpong_64k", "ping-pong 64 KiB", Budget::Crossings(1.05)),
    ("pingpong_1m", "ping-pong 1 MiB", Budget::Crossings(1.05)),
    ("allreduce_8", "Allreduce 8 B", Budget::Crossings(1.05)),
    ("allreduce_1k", "Allreduce 1 KiB", Budget::Crossings(1.05)),
    ("barrier", "Barrier", Budget::Crossings(1.05)),
    ("bcast_8", "Bcast 8 B", Budget::Crossings(1.05)),
    ("alltoall_8", "Alltoall 8 B", Budget::Crossings(1.05)),
    ("sendrecv_8", "Sendrecv 8 B", Budget::Crossings(1.05)),
    (
        "isend_irecv_waitall_8",
        "Isend+Irecv+Waitall 8 B",
        Budget::Ratio(1.15),
    ),
    (
        "isend_irecv_waitall_1k",
        "Isend+Irecv+Waitall 1 KiB",
        Budget::Ratio(1.15),
    ),
    (
        "many_8",
        "64 Isend, 64 Irecv, Waitall 8 B",
        Budget::Crossings(1.05),
    ),
    ("ibcast_wait_8", "Ibcast+Wait 8 B", Budget::Ratio(1.15)),
    ("ibcast_wait_1k", "Ibcast+Wait 1 KiB", Budget::Ratio(1.15)),
    (
        "test_nothing",
        "Test that finds nothing",
        Budget::Ratio(1.2),
    ),
    (
        "iprobe_nothing",
        "Iprobe that finds nothing",
        Budget::Crossings(1.05),
    ),
    ("put_flush_8", "Put+flush 8 B", Budget::Crossings(1.05)),
    ("get_fence_8", "Get+fence 8 B", Budget::Crossings(1.05)),
    (
        "lock_get_unlock_8",
        "lock+Get+unlock 8 B",
        Budget::Crossings(1.05),
    ),
    // Without writes of the thread pointer: the column of crossings is native again.
    (
        "threads_4",
        "exchange of 8 B, 4 threads, MPI_THREAD_MULTIPLE",
        Budget::Ratio(1.15),
    ),
    ("comm_rank", "Comm_rank", Budget::More(2.0)),
    ("type_size", "Type_size", Budget::More(2.0)),
    ("get_count", "Get_count", Budget::More(2.0)),
];

/// Runs the benchmark over one library and prints its table.
pub fn run(rounds: usize, mpi: Mpi, dir: &Path) -> Result<()> {
    let ways = [Way::Native, Way::Crossings, Way::Stasis, Way::TwoPhase];
    let (plain, crossing) = (
        compile(mpi, "bench/calls.c", "calls", &[])?,
        compile(mpi, "bench/calls.c", "crossings", &["-DCROSSINGS"])?,
    );
    let threads = compile(mpi, "bench/threads.c", "threads", &["-pthread"])?;
    let mut runs: BTreeMap<Way, Vec<Figures>> = BTreeMap::new();
    for round in 0..rounds {
        for way in in_turn(ways, round) {
            let program = if way == Way::Crossings {
                &crossing
            } else {
                &plain
            };
            let finished = way.run(mpi, dir, &format!("calls-{mpi}-{round}"), |command| {
                command.arg(program);
            })?;
            let mut all = figures(&finished.stdout)?;
            let name = format!("threads-{mpi}-{round}");
            let finished = way.run(mpi, dir, &name, |command| {
                command.arg(&threads);
            })?;
            all.extend(figures(&finished.stdout)?);
            runs.entry(way).or_default().push(all);
        }
    }
    println!("| {mpi}: {} rounds | native, ns | with crossings, ns | Stasis, ns | Stasis / native: medians | minima | crossings / native: medians | minima | two-phase / native: medians | budget | |", rounds);
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for (key, title, budget) in CALLS {
        let column = |way: Way, pick: fn(&(f64, f64)) -> f64| -> Result<Vec<f64>> {
            let figure = |run: &Figures| run.get(*key).map(pick);
            let figures: Option<Vec<f64>> = runs[&way].iter().map(figure).collect();
            figures.with_context(|| format!("no figure for {key}"))
        };
        let paired = |way: Way, pick: fn(&(f64, f64)) -> f64| -> Result<Paired> {
            Ok(Paired::new(column(Way::Native, pick)?, column(way, pick)?))
        };
        let ratio = |way, pick| Ok::<f64, anyhow::Error>(paired(way, pick)?.ratio());
        let time = |way| Ok::<f64, anyhow::Error>(paired(way, |f| f.1)?.ours());
        let of_medians = ratio(Way::Stasis, |f| f.1)?;
        let (limit, within) = match budget {
            Budget::Crossings(limit) => (
                format!("≤ {limit:.2} of crossings"),
                of_medians <= ratio(Way::Crossings, |f| f.1)? * (limit + 0.005),
            ),
            Budget::Ratio(limit) => (format!("≤ {limit:.2}"), of_medians <= limit + 0.005),
            Budget::More(limit) => (
                format!("≤ {limit} ns more"),
                time(Way::Stasis)? <= time(Way::Native)? + limit,
            ),
        };
        println!(
            "| {title} | {:.1} | {:.1} | {:.1} | {of_medians:.3} | {:.3} | {:.3} | {:.3} | {:.3} | {limit} | {} |",
            time(Way::Native)?,
            time(Way::Crossings)?,
            time(Way::Stasis)?,
            ratio(Way::Stasis, |f| f.0)?,
            ratio(Way::Crossings, |f| f.1)?,
            ratio(Way::Crossings, |f| f.0)?,
            ratio(Way::TwoPhase, |f| f.1)?,
            if within { "" } else { "**over**" }
        );
    }
    println!();
    Ok(())
}
