//! Paper 001: Sultana's dissertation, how programs use MPI, and the recovery by MPI Stages.

use super::super::compile;
use super::super::recovery::{self, Steps};
use super::imports;
use super::measure::{in_turn, Figures, Lab};
use super::page::{Item, Outcome, Paper, Row};
use super::profiles;
use crate::build::setup::cargo_command;
use crate::harness::job;
use crate::harness::mpi::cores;
use crate::harness::{paths, stasis};
use anyhow::{ensure, Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);
/// For `cargo bench`, which may have to build.
const BUILD_LIMIT: Duration = Duration::from_secs(900);
const OURS: (&str, &str) = ("", "ours");
/// Columns of a recovery: CPR kills all ranks and starts the program anew.
const RECOVERY: (&str, &str) = ("compared with, ms", "recovery, ms");
const RECOVERY_DIFFERS: &str =
    "2 ranks on one machine, and 4; the time is from the death to the next call of the last rank, and includes the \
     reading of the program's files (for *image*: that of the image), also where the paper leaves it out. CPR starts the \
     program as soon as mpirun has ended. The program is `examples/bench/reloads.c`, whose ranks communicate each \
     millisecond as the paper's do: around a ring, or with their neighbours in three dimensions and by MPI_Allreduce; \
     it computes nothing else. Each rank has 1 MiB, or 15 MiB for LULESH. Stages and Reinit both start new MPI libraries \
     in all ranks, which is most of their time";

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
            "The applications: the language of their calls of MPI, their model, and the libraries that they load and that \
             call MPI.",
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
            "Table 3.3", "The calls that a run makes.", "Small subsets of MPI: 4 to 10 functions that communicate.", profiles::calls),
        imported(
            "Figure 3.3",
            "Calls of point-to-point and of collective operations, by the first and by the middle rank.",
            "Most calls are point-to-point.",
            profiles::counts,
        ),
        imported(
            "Figures 3.4 and 3.5",
            "The time in these calls and in the computation: Figures 3.4 (rank 0) and 3.5 (the middle rank).",
            "Most applications communicate for more than half of the time, most of it in collective operations.",
            profiles::times,
        ),
        imported(
            "Figures 3.6 and 3.7",
            "Calls of each point-to-point function, and the percentage of the run time: Figures 3.6 (rank 0) and 3.7 (the \
             middle rank).",
            "MPI_Irecv and MPI_Isend are called most. MPI_Waitall and MPI_Wait take most of the time.",
            |lab| profiles::functions(lab, "point-to-point"),
        ),
        imported(
            "Figures 3.8 and 3.9",
            "The same of collective functions: Figures 3.8 (rank 0) and 3.9 (the middle rank).",
            "MPI_Allreduce is called most, and takes most of the time.",
            |lab| profiles::functions(lab, "collective"),
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
            measure: |lab| recoveries(lab, &RING, ""),
        },
        Item {
            name: "Figure 6.4",
            what: "The same of LULESH, with a checkpoint of 15 MB.",
            theirs: "Stages is at least 13 times as fast as CPR, and nearly twice as fast as Reinit, without the reading.",
            differs: RECOVERY_DIFFERS,
            columns: RECOVERY,
            measure: |lab| recoveries(lab, &LULESH, ""),
        },
        Item {
            name: "Figure 6.5",
            what: "Recovery of LULESH with the epoch found by agreement, and by reading all epoch files in turn.",
            theirs: "The agreement reduces the time substantially.",
            differs: "only the time until all nodes know the epoch; messages are simulated and their cost is measured, as \
                      docs/measured.md says under *Agreement on an epoch*. Files in memory cost the serial way nothing, \
                      those of a file server a round trip each",
            columns: OURS,
            measure: agreement,
        },
        Item {
            name: "Figure 6.6",
            what: "Writing LULESH's checkpoint of 15 MB on several file systems.",
            theirs: "The home directory (NFS) is much slower than Lustre and /tmp.",
            differs: "`examples/papers/stages_times.c`; the local disk with fsync, and memory (/dev/shm)",
            columns: ("", "a write, ms"),
            measure: |lab| {
                let mut rows = of_places(lab, &["app-write"])?;
                rows.push(Row::without("app-write, NFS and Lustre", "", "this machine has neither"));
                Ok(rows)
            },
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
            what: "Recovery of CoMD with 4,000 atoms on 1 to 8 ranks, and with 64,000 on 16.",
            theirs: "Stages is at least 8 times as fast as CPR, and close to Reinit on 1 to 8 ranks. On 16 ranks, with a \
                     longer initialisation, it is 5 times as fast as Reinit.",
            differs: RECOVERY_DIFFERS,
            columns: RECOVERY,
            measure: |lab| {
                let mut rows = recoveries(lab, &COMD, "")?;
                if !lab.quick {
                    rows.extend(recoveries_of(lab, &COMD_INITIALISED, "initialisation of 1 s, ", 2)?);
                }
                Ok(rows)
            },
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

/// A program whose recovery is measured, and what the paper has of it.
struct Recovered {
    /// MiB of its checkpoint in each rank.
    mib: usize,
    steps: Steps,
    /// Time of MPI Stages, compared with CPR and with Reinit.
    paper: [&'static str; 2],
}

const RING: Recovered = Recovered {
    mib: 1,
    steps: Steps {
        step: "ring",
        initialisation: "0",
    },
    paper: ["0.09 or less (11 times as fast)", "close to 1"],
};
const LULESH: Recovered = Recovered {
    mib: 15,
    steps: Steps {
        step: "12168",
        initialisation: "0",
    },
    paper: ["0.08 or less (13 times)", "0.5 (nearly twice as fast)"],
};
const COMD: Recovered = Recovered {
    mib: 1,
    steps: Steps {
        step: "20000",
        initialisation: "0",
    },
    paper: ["0.125 or less (8 times)", "close to 1"],
};
/// A second for the initialisation of 64,000 atoms.
const COMD_INITIALISED: Recovered = Recovered {
    mib: 1,
    steps: Steps {
        step: "20000",
        initialisation: "1000",
    },
    paper: ["", "0.2 (5 times)"],
};

/// Recoveries of each way, which a figure of the paper has ten of.
const RECOVERIES: usize = 10;

/// The rows of a program's recoveries. CPR is what the other ways are compared with, and Stages is compared with Reinit
/// as well. The ways alternate within a round.
fn recoveries(lab: &Lab, of: &Recovered, label: &str) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let more = lab.sized(&[2, 4][..], &[2]);
    for ranks in more.iter().copied() {
        rows.extend(recoveries_of(lab, of, label, ranks)?);
    }
    Ok(rows)
}

fn recoveries_of(lab: &Lab, of: &Recovered, label: &str, ranks: usize) -> Result<Vec<Row>> {
    let mib = lab.sized(of.mib, 1);
    let ways = lab.sized(
        &["cpr", "reinit", "stages", "cold", "hot"][..],
        &["cpr", "stages"],
    );
    let Steps {
        step,
        initialisation,
    } = of.steps;
    let key = format!("recovery of {step}, {initialisation} ms, {mib} MiB, {ranks} ranks");
    let times = match ranks > cores() {
        true => 3,
        false => RECOVERIES,
    };
    let rounds = lab.remembered(key, ranks, || {
        in_turn(lab.sized(times, 1), ways, |how| {
            let time = recovery::once(lab.mpi(), (ranks, mib), of.steps, how, &lab.dir);
            let time = time.with_context(|| how.to_string())?;
            Ok(Figures::from([("ms".to_owned(), time)]))
        })
    })?;
    let [of_cpr, of_reinit] = of.paper;
    let all = [
        ("MPI Stages / CPR", of_cpr, ("cpr", "stages")),
        ("MPI Stages / Reinit", of_reinit, ("reinit", "stages")),
        ("Reinit / CPR", "", ("cpr", "reinit")),
        ("image, read after the death / CPR", "", ("cpr", "cold")),
        (
            "image, mapped before it (`--standby hot`) / CPR",
            "",
            ("cpr", "hot"),
        ),
    ];
    let was_run = |way: &str| ways.contains(&way);
    let all = all.into_iter();
    let all = all.filter(|(.., (base, ours))| was_run(base) && was_run(ours));
    let rows = all.map(|(name, paper, (base, ours))| {
        let outcome = Outcome::Measured {
            base: rounds.of(base, "ms")?,
            ours: rounds.of(ours, "ms")?,
            ranks,
        };
        Ok(Row::new(
            format!("{label}{ranks} ranks, {name}"),
            paper,
            outcome,
        ))
    });
    rows.collect()
}

/// The times that `cargo bench -p stasis-supervisor --bench agreement` prints, until all nodes know the epoch.
fn agreement(lab: &Lab) -> Result<Vec<Row>> {
    if lab.quick {
        let why = "a quick run leaves it out";
        return Ok(vec![Row::without("agreement against serial", "", why)]);
    }
    let arguments = ["bench", "-p", "stasis-supervisor", "--bench", "agreement"];
    let run = job::run(
        cargo_command(None, &arguments),
        &lab.dir,
        "agreement",
        BUILD_LIMIT,
    )?;
    let run = run.expect_success("cargo bench")?;
    let lines = run
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("| "));
    let rows = lines.filter_map(|line| {
        let cells: Vec<&str> = line.trim_end_matches(" |").split(" | ").collect();
        let [nodes, _, stasis, _, star, _, tree, _, serial] = cells[..] else {
            return None;
        };
        // Neither the head of the table nor the line below it.
        nodes
            .starts_with(|first: char| first.is_ascii_digit())
            .then(|| {
                let told = format!(
                    "agree/commit {star}, over a tree {tree}, serial {serial}; Stasis {stasis}"
                );
                Row::new(format!("{nodes} nodes"), "", Outcome::Seen(told))
            })
    });
    let rows: Vec<Row> = rows.collect();
    ensure!(!rows.is_empty(), "cargo bench printed no table");
    Ok(rows)
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
