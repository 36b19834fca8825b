//! Paper 000: Xu and Cooperman, collective clocks against two-phase commit.

use super::measure::{pattern, Lab, Program, Rounds, NATIVE, STASIS, TWO_PHASE};
use super::page::{Item, Outcome, Paper, Row};
use super::profiles;
use super::programs::{espresso, intel, lammps};
use super::rows_or_why;
use crate::harness::mpi::cores;
use anyhow::Result;

pub const PAPER: Paper = Paper {
    number: "000",
    title: "Collective Vector Clocks: Low-Overhead Transparent Checkpointing for MPI",
    setting: "Measured on Perlmutter (128 cores a node, Slingshot 11, Cray MPICH 8.1), with 512 to 2,048 ranks, 5 runs.",
    items: &[
        Item {
            name: "Figure 3",
            what: "The time of a collective operation with collective clocks (CC) and with a barrier before it (2PC, \
                   two-phase commit), compared with the native time.",
            theirs: "With 2PC blocking operations take up to more than twice as long, and with CC nearly as long as natively. \
                     Non-blocking ones take 0 to 10 % more with CC, and Ibcast up to 50 %. 2PC costs little for Alltoall.",
            differs: "`examples/papers/collectives.c` instead of the OSU micro-benchmarks, with their sizes, warm-up and \
                      averages, and five windows; ranks share one machine. *IMB*: the Intel MPI Benchmarks over Intel MPI",
            columns: ("native, µs", "Stasis, µs"),
            measure: operations,
        },
        Item {
            name: "Figure 4",
            what: "The percentage of a non-blocking operation's time that a computation hides.",
            theirs: "CC hides about as much as the native library.",
            differs: "the formula is OSU's, and for *IMB* that of the Intel MPI Benchmarks, over Intel MPI; neither library here has a thread that makes progress, so little is hidden \
                      natively",
            columns: ("", "overlap, %"),
            measure: overlap,
        },
        Item {
            name: "Figure 5",
            what: "The run time of five applications.",
            theirs: "VASP takes 1.052 of the native time with CC and 1.106 with 2PC; the others are within the spread. \
                     2PC cannot run the Poisson solver.",
            differs: "Quantum ESPRESSO instead of VASP (both are plane-wave codes), with eight atoms of silicon, \
                      which have little to compute between the calls of many ranks; SW4, CoMD and the Poisson solver are \
                      `examples/papers/patterns.c`, with their communication and memory, and other numerics; LAMMPS is \
                      Debian's, with the same liquid",
            columns: ("native, s", "Stasis, s"),
            measure: applications,
        },
        Item {
            name: "Table 1",
            what: "Calls a second of the same applications, in a rank.",
            theirs: "512 ranks on 4 nodes; the paper does not say whose calls are counted.",
            differs: "rank 0's calls; a step takes as long as the machine lets it; those of Debian's programs are counted by `stasis profile`, with their waits",
            columns: ("", "calls a second"),
            measure: rates,
        },
        Item {
            name: "Figure 6",
            what: "The overhead of VASP over the number of ranks.",
            theirs: "CC grows more slowly than 2PC from 128 to 512 ranks; both curves are in a picture without numbers.",
            differs: "Quantum ESPRESSO with eight atoms of silicon: with more ranks each has less to compute between its \
                      calls",
            columns: ("native, s", "Stasis, s"),
            measure: growth,
        },
    ],
};

const WAYS: [super::measure::Way; 3] = [NATIVE, STASIS, TWO_PHASE];
/// What the paper says of the program to which two-phase commit cannot be applied.
const NO_BARRIERS: &str = "cannot run it";
const OPERATIONS: [&str; 8] = [
    "bcast",
    "alltoall",
    "allgather",
    "allreduce",
    "ibcast",
    "ialltoall",
    "iallgather",
    "iallreduce",
];
const SIZES: [(&str, &str); 3] = [("4", "4 B"), ("1024", "1 KiB"), ("1048576", "1 MiB")];

fn collectives(lab: &Lab, ranks: usize) -> Result<Program> {
    let calls = match ranks > cores() {
        true => "100",
        false => lab.sized("2000", "20"),
    };
    Program::own(lab.mpi(), ranks, "collectives", &[calls])
}

fn operations(lab: &Lab) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for ranks in lab.scales() {
        let rounds = lab.compare(&collectives(lab, *ranks)?, &WAYS)?;
        for operation in OPERATIONS {
            for (bytes, size) in SIZES {
                let figure = format!("{operation}/{bytes}");
                let label = |way: &str| format!("{operation}, {size}, {way}, {ranks} ranks");
                rows.push(Row::ratio(
                    label("CC"),
                    "",
                    &rounds,
                    &figure,
                    (NATIVE, STASIS),
                )?);
                // A non-blocking operation has no barrier.
                if !operation.starts_with('i') {
                    rows.push(Row::ratio(
                        label("2PC"),
                        "",
                        &rounds,
                        &figure,
                        (NATIVE, TWO_PHASE),
                    )?);
                }
            }
        }
    }
    rows.extend(of_intel(
        lab,
        &INTEL[..4],
        "IMB-MPI1",
        |rounds, operation| {
            let row = |(bytes, size): (&str, &str)| {
                let (label, figure) = (
                    format!("IMB {operation}, {size}, CC, 2 ranks"),
                    format!("{operation}/{bytes}"),
                );
                Row::ratio(label, "", rounds, &figure, (NATIVE, STASIS))
            };
            SIZES.into_iter().map(row).collect()
        },
    ));
    Ok(rows)
}

/// Operations of the Intel MPI Benchmarks in the order of [`OPERATIONS`].
const INTEL: [&str; 8] = [
    "Bcast",
    "Alltoall",
    "Allgather",
    "Allreduce",
    "Ibcast",
    "Ialltoall",
    "Iallgather",
    "Iallreduce",
];

/// Rows of each operation of a program of the Intel MPI Benchmarks.
fn of_intel(
    lab: &Lab,
    operations: &[&str],
    program: &str,
    rows: impl Fn(&Rounds, &str) -> Result<Vec<Row>>,
) -> Vec<Row> {
    let all = intel(lab, program, operations).and_then(|program| {
        let rounds = lab.compare(&program, &[NATIVE, STASIS])?;
        let all: Result<Vec<Vec<Row>>> = operations
            .iter()
            .map(|operation| rows(&rounds, operation))
            .collect();
        Ok(all?.into_iter().flatten().collect())
    });
    rows_or_why(program, all)
}

fn overlap(lab: &Lab) -> Result<Vec<Row>> {
    let rounds = lab.compare(&collectives(lab, lab.ranks(16))?, &WAYS)?;
    let mut rows = Vec::new();
    for operation in &OPERATIONS[4..] {
        for (bytes, size) in SIZES {
            for way in [NATIVE, STASIS] {
                let label = format!("{operation}, {size}, {}", way.name);
                let figure = format!("{operation}/{bytes}/overlap");
                rows.push(Row::alone(label, "", &rounds, &figure, way)?);
            }
        }
    }
    rows.extend(of_intel(
        lab,
        &INTEL[4..],
        "IMB-NBC",
        |rounds, operation| {
            let mut rows = Vec::new();
            for (bytes, size) in SIZES {
                for way in [NATIVE, STASIS] {
                    let label = format!("IMB {operation}, {size}, {}, 2 ranks", way.name);
                    let figure = format!("{operation}/{bytes}/overlap");
                    rows.push(Row::alone(label, "", rounds, &figure, way)?);
                }
            }
            Ok(rows)
        },
    ));
    Ok(rows)
}

fn applications(lab: &Lab) -> Result<Vec<Row>> {
    let programs = [
        (
            "VASP: Quantum ESPRESSO",
            Ok(espresso(lab.ranks(512))),
            ["1.052", "1.106"],
        ),
        (
            "SW4",
            pattern(lab, "sw4", lab.ranks(512)),
            ["slightly faster than natively", "close to it"],
        ),
        ("CoMD", pattern(lab, "comd", lab.ranks(512)), ["low", "low"]),
        ("LAMMPS", Ok(lammps(lab)), ["low", "low"]),
        (
            "Poisson solver",
            pattern(lab, "poisson", lab.ranks(512)),
            ["close to it", NO_BARRIERS],
        ),
    ];
    let mut rows = Vec::new();
    for (label, program, [cc, two_phase]) in programs {
        let of_program = program.and_then(|program| {
            let rounds = lab.compare(&program, &WAYS)?;
            let row = |way: &str, paper, ways| {
                Row::ratio(format!("{label}, {way}"), paper, &rounds, "seconds", ways)
            };
            let with_barriers = match two_phase {
                NO_BARRIERS => {
                    let why = "its operations are non-blocking, before which no barrier is made";
                    Row::without(format!("{label}, 2PC"), two_phase, why)
                }
                _ => row("2PC", two_phase, (NATIVE, TWO_PHASE))?,
            };
            Ok(vec![row("CC", cc, (NATIVE, STASIS))?, with_barriers])
        });
        rows.extend(rows_or_why(label, of_program));
    }
    Ok(rows)
}

fn rates(lab: &Lab) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (label, name, collective, p2p) in [
        ("SW4", "sw4", "0.6", "157.9"),
        ("CoMD", "comd", "7.8", "414.2"),
        ("Poisson solver", "poisson", "21.3", "none"),
    ] {
        let rounds = lab.compare(&pattern(lab, name, lab.ranks(512))?, &WAYS)?;
        for (kind, figure, paper) in [
            ("collective", "collective", collective),
            ("point-to-point", "p2p", p2p),
        ] {
            rows.push(Row::alone(
                format!("{label}, {kind}"),
                paper,
                &rounds,
                figure,
                NATIVE,
            )?);
        }
    }
    let vasp = profiles::rates(
        lab,
        "VASP: Quantum ESPRESSO",
        &espresso(lab.ranks(512)),
        ["2489.2", "2568.9"],
    );
    rows.extend(vasp);
    rows.extend(profiles::rates(
        lab,
        "LAMMPS",
        &lammps(lab),
        ["6.3", "1707.5"],
    ));
    Ok(rows)
}

fn growth(lab: &Lab) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let more = lab.scales().iter().filter(|ranks| **ranks > 8);
    for ranks in lab.sized(&[1, 2, 4, 8][..], &[2]).iter().chain(more) {
        let label = match ranks {
            1 => "1 rank".to_owned(),
            _ => format!("{ranks} ranks"),
        };
        let of_size = lab.compare(&espresso(*ranks), &WAYS).and_then(|rounds| {
            let row = |way: &str, ways| {
                Row::ratio(format!("{label}, {way}"), "", &rounds, "seconds", ways)
            };
            Ok(vec![
                row("CC", (NATIVE, STASIS))?,
                row("2PC", (NATIVE, TWO_PHASE))?,
            ])
        });
        rows.extend(rows_or_why(&label, of_size));
    }
    rows.push(Row::new(
        "hangs of the published algorithm",
        "",
        Outcome::Seen(
            "two, shown by `cargo xtask test --filter coll/hole` (docs/protocol.md)".into(),
        ),
    ));
    Ok(rows)
}
