//! Paper 000: Xu and Cooperman, collective clocks against two-phase commit.

use super::measure::{pattern, Figures, Lab, Program, NATIVE, STASIS, TWO_PHASE};
use super::page::{Item, Outcome, Paper, Row};
use crate::harness::paths;
use anyhow::{Context, Result};

pub const PAPER: Paper = Paper {
    number: "000",
    title: "Collective Vector Clocks: Low-Overhead Transparent Checkpointing for MPI",
    setting: "Measured on Perlmutter (128 cores a node, Slingshot 11, Cray MPICH 8.1), with 512 to 2,048 ranks, 5 runs.",
    items: &[
        Item {
            name: "Figure 3",
            what: "The time of a collective operation with collective clocks (CC) and with a barrier before it (2PC, \
                   two-phase commit), compared with the native time.",
            theirs: "CC is near 1 everywhere, but for Ibcast (up to 1.5). 2PC more than doubles the time of a small \
                     Bcast. It costs little for Alltoall, and nothing for 1 MB.",
            differs: "`examples/papers/collectives.c` instead of the OSU micro-benchmarks, with their sizes, warm-up and \
                      averages, and five windows; ranks share one machine",
            columns: ("native, µs", "Stasis, µs"),
            measure: operations,
        },
        Item {
            name: "Figure 4",
            what: "The percentage of a non-blocking operation's time that a computation hides.",
            theirs: "CC hides about as much as the native library.",
            differs: "the formula is OSU's; neither library here has a thread that makes progress, so little is hidden \
                      natively",
            columns: ("", "overlap, %"),
            measure: overlap,
        },
        Item {
            name: "Figure 5",
            what: "The run time of five applications.",
            theirs: "VASP takes 1.052 of the native time with CC and 1.106 with 2PC; the others are within the spread. \
                     2PC cannot run the Poisson solver.",
            differs: "Quantum ESPRESSO instead of VASP (both are plane-wave codes); SW4, CoMD and the Poisson solver are \
                      `examples/papers/patterns.c`, with their communication and memory, and other numerics; LAMMPS is \
                      Debian's, with the same liquid",
            columns: ("native, s", "Stasis, s"),
            measure: applications,
        },
        Item {
            name: "Table 1",
            what: "Calls a second of the same applications, in a rank.",
            theirs: "512 ranks on 4 nodes; the paper does not say of which ranks the calls are counted.",
            differs: "rank 0's calls, natively; a step takes as long as the machine lets it",
            columns: ("", "calls a second"),
            measure: rates,
        },
        Item {
            name: "Figure 6",
            what: "The overhead of VASP over the number of ranks.",
            theirs: "CC grows more slowly than 2PC from 128 to 512 ranks; both curves are in a picture without numbers.",
            differs: "Quantum ESPRESSO",
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
    let calls = if ranks > 2 {
        "100"
    } else {
        lab.sized("2000", "20")
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
    Ok(rows)
}

fn overlap(lab: &Lab) -> Result<Vec<Row>> {
    let rounds = lab.compare(&collectives(lab, 2)?, &WAYS)?;
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
    Ok(rows)
}

/// Debian's LAMMPS with the Lennard-Jones liquid of its benchmarks.
pub fn lammps(lab: &Lab) -> Program {
    Program {
        name: "lammps".into(),
        mpi: crate::harness::mpi::Mpi::OpenMpi,
        ranks: 2,
        words: crate::demo::lammps_arguments(lab.sized(300, 5)),
        environment: &[],
        package: Some("lammps"),
        is_slow: false,
        progress: None,
        read: |printed, _| {
            let line = printed
                .lines()
                .find_map(|line| line.strip_prefix("Loop time of "));
            let time = line.and_then(|rest| rest.split(' ').next());
            seconds(time.context("LAMMPS printed no 'Loop time of'")?)
        },
    }
}

/// Debian's Quantum ESPRESSO with silicon.
pub fn espresso(ranks: usize) -> Program {
    let input = paths::examples().join("qe/si.in");
    Program {
        name: format!("quantum-espresso-{ranks}"),
        mpi: crate::harness::mpi::Mpi::OpenMpi,
        ranks,
        words: ["pw.x", "-in", &input.to_string_lossy()]
            .map(str::to_owned)
            .into(),
        environment: &[],
        package: Some("quantum-espresso"),
        is_slow: true,
        progress: None,
        read: |printed, _| espresso_time(printed),
    }
}

/// The wall time in a line such as `PWSCF : 0.62s CPU 0.69s WALL`.
fn espresso_time(printed: &str) -> Result<Figures> {
    let mut lines = printed.lines().map(str::trim);
    let line = lines.find(|line| line.starts_with("PWSCF  ") && line.ends_with("WALL"));
    let time = line.context("pw.x printed no time")?;
    let time = time.trim_end_matches("WALL").trim_end();
    let time = time
        .rsplit(' ')
        .next()
        .and_then(|time| time.strip_suffix('s'));
    let time = time.context("pw.x told no seconds")?;
    // Minutes, if there are any, are in front.
    let (minutes, rest) = time.split_once('m').unwrap_or(("0", time));
    let minutes: f64 = minutes.parse()?;
    let mut figures = seconds(rest)?;
    figures
        .values_mut()
        .for_each(|time| *time += 60.0 * minutes);
    Ok(figures)
}

fn seconds(text: &str) -> Result<Figures> {
    let seconds = text.parse().with_context(|| format!("no time: {text}"))?;
    Ok(Figures::from([("seconds".to_owned(), seconds)]))
}

fn applications(lab: &Lab) -> Result<Vec<Row>> {
    let programs = [
        (
            "VASP: Quantum ESPRESSO",
            Ok(espresso(2)),
            ["1.052", "1.106"],
        ),
        (
            "SW4",
            pattern(lab, "sw4", 2),
            ["slightly faster than natively", "close to it"],
        ),
        ("CoMD", pattern(lab, "comd", 2), ["low", "low"]),
        ("LAMMPS", Ok(lammps(lab)), ["low", "low"]),
        (
            "Poisson solver",
            pattern(lab, "poisson", 2),
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
        rows.extend(super::rows_or_why(label, of_program));
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
        let rounds = lab.compare(&pattern(lab, name, 2)?, &WAYS)?;
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
    for (label, paper) in [
        ("VASP, collective", "2489.2"),
        ("VASP, point-to-point", "2568.9"),
    ]
    .into_iter()
    .chain([
        ("LAMMPS, collective", "6.3"),
        ("LAMMPS, point-to-point", "1707.5"),
    ]) {
        rows.push(Row::pending(
            label,
            paper,
            "it needs `stasis profile`, which counts a program's calls",
        ));
    }
    Ok(rows)
}

fn growth(lab: &Lab) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for ranks in lab.sized(&[1, 2, 4, 8][..], &[2]) {
        let label = format!("{ranks} ranks");
        let of_size = lab.compare(&espresso(*ranks), &WAYS).and_then(|rounds| {
            let row = |way: &str, ways| {
                Row::ratio(format!("{label}, {way}"), "", &rounds, "seconds", ways)
            };
            Ok(vec![
                row("CC", (NATIVE, STASIS))?,
                row("2PC", (NATIVE, TWO_PHASE))?,
            ])
        });
        rows.extend(super::rows_or_why(&label, of_size));
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

#[cfg(test)]
mod tests {
    use super::espresso_time;

    #[test]
    fn reads_the_time_of_quantum_espresso() {
        let time =
            |line: &str| espresso_time(&format!("PWSCF v.6.7\n{line}\n")).unwrap()["seconds"];
        assert_eq!(
            time("     PWSCF        :      0.62s CPU      0.69s WALL"),
            0.69
        );
        assert_eq!(
            time("     PWSCF        :   1m 0.50s CPU   1m12.25s WALL"),
            72.25
        );
        assert!(espresso_time("PWSCF v.6.7").is_err());
    }
}
