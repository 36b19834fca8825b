//! Paper 001: Sultana's dissertation, how programs use MPI, and the recovery by MPI Stages.

use super::super::{compile, recovery};
use super::imports;
use super::measure::{Figures, Lab};
use super::page::{Item, Outcome, Paper, Row};
use super::profiles;
use crate::harness::job;
use crate::harness::{paths, stasis};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
const OURS: (&str, &str) = ("", "ours");
/// Columns of a recovery: CPR kills all ranks and starts the program anew.
const RECOVERY: (&str, &str) = ("CPR, ms", "recovery, ms");
const RECOVERY_DIFFERS: &str =
    "2 ranks on one machine; the time is from the death to the next call of the last rank, and includes the reading of \
     the program's files (for *image*: that of the image). CPR starts the program as soon as mpirun has ended. The \
     program is `examples/bench/reloads.c` in the place of the ring, LULESH and CoMD: its ranks meet in a barrier each \
     millisecond, and have 1 MiB each, or 15 MiB for LULESH. So Figures 6.2 and 6.9 have the same runs. Stages and \
     Reinit both start new MPI libraries in all ranks";

pub const PAPER: Paper = Paper {
    number: "001",
    title: "Toward a Transparent, Checkpointable Fault-Tolerant Message Passing Interface for HPC Systems",
    setting: "A dissertation. Chapter 3 was measured on Catalyst (LLNL, InfiniBand) with 256 ranks, chapter 6 on Quartz \
              and Catalyst (24 and 36 cores a node). The times are in pictures without numbers.",
    items: &[
        Item {
            name: "Figure 3.1",
            what: "The time that a profiler adds to a ping-pong.",
            theirs: "Almost 30 % for small messages, nothing for 256 KB.",
            differs: "`stasis profile` compared with Stasis without it, in `examples/bench/calls.c`",
            columns: ("Stasis, ns", "profiled, ns"),
            measure: profiles::ping_pong,
        },
        imported(
            "Table 3.1",
            "The applications and their languages, libraries and models.",
            "14 proxy applications: 43 % C, 29 % C++, 21 % Fortran.",
            |_| imports::languages(),
        ),
        imported(
            "Figure 3.2",
            "The shares of languages and models: the last row.",
            "43 % of the applications use OpenMP beside MPI.",
            |_| imports::languages(),
        ),
        imported(
            "Table 3.2",
            "The communication calls in the programs.",
            "Most have point-to-point and blocking collective calls, one has a non-blocking collective one.",
            |_| imports::functions(&["point-to-point", "collective"]),
        ),
        imported(
            "Table 3.3", "The calls that a run makes.", "Small subsets of MPI: 2 to 9 functions.", profiles::calls),
        imported(
            "Figures 3.3 to 3.9, calls",
            "Calls of point-to-point and collective operations, of the first and of the middle rank: Figures 3.3, 3.4, \
             3.5, 3.6, 3.7, 3.8 and 3.9.",
            "Most calls are point-to-point.",
            profiles::counts,
        ),
        imported(
            "Figures 3.3 to 3.9, time",
            "The share of the time in these calls.",
            "Most time is in collective operations, Allreduce above all.",
            profiles::times,
        ),
        imported(
            "Figure 3.10",
            "The sizes of messages.",
            "60 % of the sends have up to 1 KiB, 90 % of the collective operations less than 128 bytes.",
            profiles::sizes,
        ),
        imported("Table 3.4", "Derived datatypes.", "Six of 14 applications use some.", |_| imports::functions(&["datatypes"])),
        imported(
            "Table 3.5",
            "Communicators, groups and topologies.",
            "Five applications make communicators, three have a Cartesian topology.",
            |_| imports::functions(&["communicators and groups", "topologies"]),
        ),
        imported(
            "Figures 3.11 and 3.12",
            "The features of MPI that applications use: Figures 3.11 (the last row) and 3.12.",
            "All use collective operations, none more than five of eleven features.",
            |_| imports::features(),
        ),
        Item {
            name: "Figure 6.2",
            what: "Recovery of a ring after the death of one rank, with the reading of the checkpoint.",
            theirs: "Stages is at least 11 times as fast as CPR, and close to Reinit.",
            differs: RECOVERY_DIFFERS,
            columns: RECOVERY,
            measure: |lab| recoveries(lab, 1, "0.09 or less (11 times as fast)"),
        },
        Item {
            name: "Figure 6.4",
            what: "The same of LULESH, with a checkpoint of 15 MB.",
            theirs: "Stages is at least 13 times as fast as CPR, and nearly twice as fast as Reinit, without the reading.",
            differs: RECOVERY_DIFFERS,
            columns: RECOVERY,
            measure: |lab| recoveries(lab, 15, "0.08 or less (13 times)"),
        },
        Item {
            name: "Figure 6.5",
            what: "Recovery of LULESH with the epoch found by agreement, and by reading all epoch files in turn.",
            theirs: "The agreement reduces the time substantially.",
            differs: "nothing to compare",
            columns: OURS,
            measure: |_| {
                let why = "Stasis looks at the records of all ranks. Its time and those of the paper's two ways are simulated for up \
                           to 100,000 nodes: docs/measured.md, *Agreement on an epoch*";
                Ok(vec![Row::without("agreement against serial", "", why)])
            },
        },
        Item {
            name: "Figure 6.6",
            what: "Writing LULESH's checkpoint of 15 MB on several file systems.",
            theirs: "The home directory (NFS) is much slower than Lustre and /tmp.",
            differs: "`examples/papers/stages_times.c`; the local disk with fsync, and memory (/dev/shm)",
            columns: ("", "a write, ms"),
            measure: |lab| of_places(lab, &["app-write"]),
        },
        Item {
            name: "Figure 6.7",
            what: "Recovery compared with a checkpoint.",
            theirs: "The recovery is almost always shorter than the checkpoint.",
            differs: "as for Figure 6.6; the recovery is MPI_Init of the new rank and the reading, without the detection",
            columns: ("", "ms"),
            measure: |lab| of_places(lab, &["app-write", "MPIX_Checkpoint_write", "MPI_Init-relaunched", "app-read"]),
        },
        Item {
            name: "Figure 6.8",
            what: "The single functions of MPI Stages.",
            theirs: "The first MPI_Init takes longer than that of the new rank. MPIX_Checkpoint_read is the time in which \
                     live ranks wait.",
            differs: "as for Figure 6.6. MPI_Init starts a library in both cases, since Stasis does not restore one",
            columns: ("", "ms"),
            measure: |lab| {
                let names = ["MPI_Init-first", "MPI_Init-relaunched", "MPIX_Checkpoint_read", "MPIX_Checkpoint_write"];
                of_places(lab, &names)
            },
        },
        Item {
            name: "Figure 6.9",
            what: "Recovery of CoMD with 4,000 atoms a rank.",
            theirs: "Stages is at least 8 times as fast as CPR, and close to Reinit on 1 to 8 ranks. On 16 ranks, with a \
                     longer initialisation, it is 5 times as fast as Reinit.",
            differs: RECOVERY_DIFFERS,
            columns: RECOVERY,
            measure: |lab| recoveries(lab, 1, "0.125 or less (8 times)"),
        },
        Item {
            name: "Section 6.3.4",
            what: "A library for matrices with a communicator of its own, through a fault.",
            theirs: "It goes on.",
            differs: "nothing",
            columns: OURS,
            measure: |_| {
                let seen = Outcome::Seen("it goes on, whichever rank dies: test `stages/library`".into());
                Ok(vec![Row::new("matrix multiplication", "", seen)])
            },
        },
    ],
};

/// An item about Debian's programs.
const fn imported(
    name: &'static str,
    what: &'static str,
    theirs: &'static str,
    measure: fn(&Lab) -> Result<Vec<Row>>,
) -> Item {
    Item {
        name,
        what,
        theirs,
        differs: "Debian's programs and `patterns.c` instead of the ECP proxy applications, which Debian does not have; \
                  the imports of a program instead of its sources; runs with 2 ranks instead of 256, in which waits count \
                  as point-to-point",
        columns: OURS,
        measure,
    }
}

/// Recoveries, each way in turn within a round, compared with the start of the program anew.
fn recoveries(lab: &Lab, mib: usize, paper: &'static str) -> Result<Vec<Row>> {
    let mib = lab.sized(mib, 1);
    let ways = lab.sized(&["stages", "reinit", "cold", "hot"][..], &["stages", "hot"]);
    let key = format!("recovery with {mib} MiB: {}", ways.join(", "));
    let rounds = lab.remembered(key, 2, || {
        let all = [&["cpr"], ways].concat();
        lab.in_turn(&all, |how| {
            let time = recovery::once(lab.mpi(), 2, mib, how, &lab.dir)
                .with_context(|| how.to_string())?;
            Ok(Figures::from([("ms".to_owned(), time)]))
        })
    })?;
    let rows = ways.iter().map(|way| {
        let (label, paper) = match *way {
            "stages" => ("MPI Stages", paper),
            "reinit" => ("Reinit", ""),
            "cold" => ("image, read after the death", ""),
            _ => ("image, mapped before it (`--standby hot`)", ""),
        };
        let base = rounds.of("cpr", "ms")?;
        let outcome = Outcome::Measured {
            base,
            ours: rounds.of(way, "ms")?,
            ranks: 2,
        };
        Ok(Row::new(label, paper, outcome))
    });
    rows.collect()
}

/// Means over the ranks of these figures of `stages_times.c`, with its checkpoints on the disk and in memory.
fn of_places(lab: &Lab, names: &[&str]) -> Result<Vec<Row>> {
    const PLACES: [&str; 2] = ["disk", "memory"];
    let rounds = lab.remembered("functions of MPI Stages".into(), 2, || {
        let program = compile(lab.mpi(), "papers/stages_times.c", "stages_times", &[])?;
        lab.in_turn(&PLACES, |place| {
            let folder = match place {
                "disk" => lab.dir.join("stages"),
                _ => paths::for_images(&lab.dir),
            };
            let figures = stages(lab, &program, &folder);
            fs::remove_dir_all(&folder)?;
            figures
        })
    })?;
    let mut rows = Vec::new();
    for place in PLACES {
        for name in names {
            let ours = rounds
                .of(place, name)?
                .into_iter()
                .map(|seconds| seconds * 1e3)
                .collect();
            let outcome = Outcome::Measured {
                base: vec![],
                ours,
                ranks: 2,
            };
            rows.push(Row::new(format!("{name}, {place}"), "", outcome));
        }
    }
    Ok(rows)
}

fn stages(lab: &Lab, program: &Path, folder: &Path) -> Result<Figures> {
    fs::create_dir_all(folder)?;
    let mut launch = stasis::launch(lab.mpi(), 2, &folder.join("ck"), &lab.dir);
    launch.arg(program).arg(folder).arg("15");
    let run = stasis::run(&["--stages"], &launch);
    let run = job::run(run, &lab.dir, "stages", LIMIT)?.expect_success("stages_times")?;
    let mut all: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let pairs = run.stdout.lines().filter_map(|line| line.split_once(' '));
    for (name, seconds) in pairs {
        // The launcher tells of the death on the same output.
        if let Ok(seconds) = seconds.parse() {
            all.entry(name).or_default().push(seconds);
        }
    }
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
    Ok(all
        .iter()
        .map(|(name, times)| ((*name).to_owned(), mean(times)))
        .collect())
}
