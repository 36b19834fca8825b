//! Paper 002: Hursey, Mattox and Lumsdaine, checkpoints in Open MPI over any network.

use super::gromacs;
use super::measure::{pattern, Figures, Lab, Program, Rounds, Way, NATIVE, STASIS};
use super::page::{Item, Outcome, Paper, Row};
use super::rows_or_why;
use crate::harness::job::read_text;
use crate::harness::mpi::{cores, Mpi};
use anyhow::{Context, Result};
use std::path::Path;

/// A table with the phases of a checkpoint.
const fn phased(
    name: &'static str,
    theirs: &'static str,
    measure: fn(&Lab) -> Result<Vec<Row>>,
) -> Item {
    Item {
        name,
        what: "The parts of a checkpoint's time.",
        theirs,
        differs: "fewer ranks, mean of four checkpoints to the disk, by copy on write unless the row says *stop*. Stasis \
                  closes no network: *approach* is the \
                  time in which ranks run to the cut, *drain* until no message is in flight, *copy* the fork, and *save* \
                  writes the image while the program computes on. *pause* is all that the program waits. The second \
                  to the fourth checkpoint have only the memory that has changed; the image is the first. The paper's \
                  figures are over NFS, and Ethernet; InfiniBand; Myrinet, each with shared memory",
        columns: ("", "Stasis, ms or MB"),
        measure,
    }
}

pub const PAPER: Paper = Paper {
    number: "002",
    title: "Interconnect Agnostic Checkpoint/Restart in Open MPI",
    setting: "Measured on Odin (Indiana University: 4 cores a node, Ethernet and InfiniBand) and a Myrinet cluster, with \
              2 to 36 ranks; checkpoints to NFS and to local disks.",
    items: &[
        Item {
            name: "Figure 2",
            what: "The time of a lap of 8 KB around a ring, which migrates through eleven layouts and networks.",
            theirs: "Each network has its own level again after each migration.",
            differs: "ten layouts, with two MPI libraries, UCX and OFI instead of InfiniBand and Myrinet",
            columns: ("", "Stasis"),
            measure: |_| {
                let page = "on a page of its own: [migration.md](migration.md), by `cargo xtask bench migration`";
                Ok(vec![Row::new("ring", "", Outcome::Seen(page.into()))])
            },
        },
        Item {
            name: "Table 1",
            what: "NetPIPE's latency of one byte and its bandwidth, without and with Stasis.",
            theirs: "The latency grows by 0.09 to 0.58 µs, and the bandwidth changes by 0.2 % at most.",
            differs: "TCP goes over the loopback of one machine, and UCX stands for a network with a library of its own; \
                      the bandwidth is that of 1 MiB, not the highest",
            columns: ("native", "Stasis"),
            measure: netpipe,
        },
        Item {
            name: "Figure 3",
            what: "The run time of NAS parallel benchmarks with 0 to 4 checkpoints, to the disk and to memory.",
            theirs: "With 1 checkpoint to NFS 1.17 to 1.18 of the time, with 4 of them 1.69 to 1.84; to local disks 1.03, \
                     and 1.06 to 1.08. EP hardly changes.",
            differs: "`examples/papers/patterns.c` has the benchmarks' communication and their memory a rank, and runs for \
                      seconds instead of minutes, so that each checkpoint weighs more; the disk is local. *stop* is the \
                      paper's way, in which the program waits for the images (`--pause stop`)",
            columns: ("compared with, s", "ours, s"),
            measure: checkpoints,
        },
        phased("Table 2", "LU, class C, 32 ranks of 32 MB, Ethernet: protocol 0.01 s, suspend 0.02 s, checkpoint 17.00 s, \
                     rebuild 0 s.", |lab| phases(lab, "lu")),
        phased("Table 3", "EP, class D, 32 ranks of 3.2 MB, Ethernet: protocol 0.10 s, suspend 0.02 s, checkpoint 1.02 s, \
                     rebuild 0 s.", |lab| phases(lab, "ep")),
        phased("Table 4", "BT, class C, 36 ranks of 120 MB, Ethernet: protocol 0.04 s, suspend 0.02 s, checkpoint 67.71 s, \
                     rebuild 0 s.", |lab| phases(lab, "bt")),
        phased("Table 5", "SP, class C, 36 ranks of 54 MB, Ethernet: protocol 0.02 s, suspend 0.02 s, checkpoint 29.76 s, \
                     rebuild 0 s.", |lab| phases(lab, "sp")),
        Item {
            name: "Figure 4",
            what: "The run time of GROMACS (DPPC) with 0 to 4 checkpoints.",
            theirs: "8 and 16 ranks with 30 to 33 MB each; at most 1 s more without a checkpoint, and little for each.",
            differs: "water instead of DPPC, which Debian does not have, with the same methods; 14,000 molecules, and where \
                      there are fewer than 16 processors 2 and 4 ranks instead of 8 and 16; seconds instead of minutes",
            columns: ("compared with, s", "ours, s"),
            measure: water,
        },
        phased("Table 6", "GROMACS, 8 ranks of 33 MB, Ethernet: protocol 0.01 s, suspend 0.01 s, checkpoint 4.76 s, rebuild 0 s.", |lab| water_phases(lab, &WATER[0])),
        phased("Table 7", "GROMACS, 16 ranks of 30 MB, Ethernet: protocol 0.01 s, suspend 0.03 s, checkpoint 8.07 s, rebuild 0 s.", |lab| water_phases(lab, &WATER[1])),
    ],
};

/// A network of Table 1: name, environment, and the paper's ratios of latency and bandwidth.
type Network = (
    &'static str,
    &'static [(&'static str, &'static str)],
    [&'static str; 2],
);

const NETWORKS: [Network; 3] = [
    (
        "TCP",
        &[("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "self,tcp")],
        ["1.002 (49.92 → 50.01 µs)", "1.000 (738 Mbps)"],
    ),
    (
        "UCX for InfiniBand and MX",
        &[
            ("OMPI_MCA_pml", "ucx"),
            ("OMPI_MCA_opal_common_ucx_tls", "any"),
            ("OMPI_MCA_opal_common_ucx_devices", "any"),
        ],
        [
            "1.064 (InfiniBand), 1.137 (MX)",
            "1.000 (4703 Mbps), 0.998 (8000 → 7985 Mbps)",
        ],
    ),
    (
        "shared memory",
        &[("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "self,vader")],
        ["1.168 (1.84 → 2.15 µs)", "0.998 (5266 → 5258 Mbps)"],
    ),
];

fn netpipe(lab: &Lab) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (network, environment, [latency, bandwidth]) in lab.sized(&NETWORKS[..], &NETWORKS[2..]) {
        let of_size = |bytes: &str| {
            let words = [
                "NPopenmpi",
                "-o",
                "np.out",
                "-p",
                "0",
                "-l",
                bytes,
                "-u",
                bytes,
            ];
            let quick = lab.sized(&[][..], &["-n", "5"]);
            let program = Program {
                name: format!("netpipe-{network}-{bytes}"),
                mpi: Mpi::OpenMpi,
                ranks: 2,
                words: words
                    .iter()
                    .chain(quick)
                    .map(|word| (*word).to_owned())
                    .collect(),
                environment,
                package: Some("netpipe-openmpi"),
                is_slow: false,
                progress: None,
                read: netpipe_table,
            };
            lab.compare(&program, &[NATIVE, STASIS])
        };
        let of_network = of_size("1").and_then(|small| {
            let large = of_size("1048576")?;
            let ways = (NATIVE, STASIS);
            Ok(vec![
                Row::ratio(format!("{network}, 1 B, µs"), latency, &small, "us", ways)?,
                Row::ratio(
                    format!("{network}, 1 MiB, Mbps"),
                    bandwidth,
                    &large,
                    "mbps",
                    ways,
                )?,
            ])
        });
        rows.extend(rows_or_why(network, of_network));
    }
    Ok(rows)
}

/// The first line of NetPIPE's table: bytes, Mbps, seconds.
fn netpipe_table(_: &str, dir: &Path) -> Result<Figures> {
    let table = read_text(&dir.join("np.out"));
    let line = table.lines().next().context("NetPIPE wrote no table")?;
    let numbers: Vec<f64> = line
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [_, mbps, seconds] = numbers[..] else {
        anyhow::bail!("a line of NetPIPE's table: {line}");
    };
    Ok(Figures::from([
        ("mbps".to_owned(), mbps),
        ("us".to_owned(), seconds * 1e6),
    ]))
}

const ONE: Way = STASIS.with_checkpoints("1 to disk", 1, true);
const FOUR: Way = STASIS.with_checkpoints("4 to disk", 4, true);
const STOPPED: Way =
    Way::with_flags("", &["--pause", "stop"]).with_checkpoints("4 to disk, stop", 4, true);
const FOUR_TO_MEMORY: Way = STASIS.with_checkpoints("4 to memory", 4, false);
const ONE_TO_MEMORY: Way = STASIS.with_checkpoints("1 to memory", 1, false);

/// A benchmark with the paper's figures.
struct Benchmark {
    name: &'static str,
    /// Ratios with 1 and 4 checkpoints.
    one: &'static str,
    four: &'static str,
    phases: Phases,
}

/// Milliseconds of the paper's phases over Ethernet, InfiniBand and Myrinet.
struct Phases {
    protocol: &'static str,
    suspend: &'static str,
    checkpoint: &'static str,
    rebuild: &'static str,
    total: &'static str,
    /// MB a rank.
    size: &'static str,
}

const BENCHMARKS: [Benchmark; 4] = [
    Benchmark {
        name: "lu",
        one: "1.03 (NFS 1.17)",
        four: "1.06 (NFS 1.84)",
        phases: Phases {
            protocol: "10; 20; 20",
            suspend: "20; 40; 20",
            checkpoint: "17,000; 18,430; 16,810",
            rebuild: "0; 80; 100",
            total: "17,030; 18,570; 16,950",
            size: "32",
        },
    },
    Benchmark {
        name: "ep",
        one: "near 1",
        four: "near 1",
        phases: Phases {
            protocol: "100; 90; 90",
            suspend: "20; 30; 30",
            checkpoint: "1,020; 2,040; 1,030",
            rebuild: "0; 520; 530",
            total: "1,140; 2,680; 1,680",
            size: "3.2",
        },
    },
    Benchmark {
        name: "bt",
        one: "1.03 (NFS 1.18)",
        four: "1.08 (NFS 1.74)",
        phases: Phases {
            protocol: "40; 70; 60",
            suspend: "20; 80; 30",
            checkpoint: "67,710; 68,390; 69,280",
            rebuild: "0; 110; 120",
            total: "67,760; 68,650; 69,490",
            size: "120",
        },
    },
    Benchmark {
        name: "sp",
        one: "1.03 (NFS 1.17)",
        four: "1.06 (NFS 1.69)",
        phases: Phases {
            protocol: "20; 30; 120",
            suspend: "20; 80; 30",
            checkpoint: "29,760; 33,020; 32,190",
            rebuild: "0; 90; 120",
            total: "29,800; 33,210; 32,450",
            size: "54",
        },
    },
];

/// Ways in which a benchmark is run.
fn ways(lab: &Lab) -> &'static [Way] {
    lab.sized(
        &[NATIVE, STASIS, ONE, FOUR, STOPPED, FOUR_TO_MEMORY],
        &[NATIVE, STASIS, ONE_TO_MEMORY],
    )
}

fn checkpoints(lab: &Lab) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for benchmark in lab.sized(&BENCHMARKS[..], &BENCHMARKS[1..2]) {
        let rounds = lab.compare(&pattern(lab, benchmark.name, lab.ranks(32))?, ways(lab))?;
        rows.extend(run_times(
            &benchmark.name.to_uppercase(),
            benchmark,
            &rounds,
            ways(lab),
        )?);
    }
    Ok(rows)
}

/// The run times with checkpoints, behind that of Stasis without one.
fn run_times(
    label: &str,
    benchmark: &Benchmark,
    rounds: &Rounds,
    ways: &[Way],
) -> Result<Vec<Row>> {
    let row = |label, paper, ways| Row::ratio(label, paper, rounds, "seconds", ways);
    let none = format!("{label}, no checkpoint / native");
    let mut rows = vec![row(none, "", (NATIVE, STASIS))?];
    for way in &ways[2..] {
        let paper = match way.name {
            name if name == ONE.name => benchmark.one,
            name if name == FOUR.name || name == STOPPED.name => benchmark.four,
            _ => "",
        };
        rows.push(row(
            format!("{label}, {} / no checkpoint", way.name),
            paper,
            (STASIS, *way),
        )?);
    }
    Ok(rows)
}

fn phases(lab: &Lab, name: &str) -> Result<Vec<Row>> {
    if lab.quick && name != "ep" {
        let why = "a quick run leaves it out";
        return Ok(vec![Row::without(name.to_uppercase(), "", why)]);
    }
    let mut benchmarks = BENCHMARKS.iter();
    let benchmark = benchmarks.find(|benchmark| benchmark.name == name);
    let rounds = lab.compare(&pattern(lab, name, lab.ranks(32))?, ways(lab))?;
    let shown = lab.sized(&[FOUR, STOPPED][..], &[ONE_TO_MEMORY]);
    phases_of(benchmark.context("a benchmark of these")?, &rounds, shown)
}

fn phases_of(benchmark: &Benchmark, rounds: &Rounds, ways: &[Way]) -> Result<Vec<Row>> {
    let theirs = &benchmark.phases;
    let figures = [
        ("approach", ""),
        ("drain", theirs.protocol),
        ("copy", ""),
        ("save", theirs.checkpoint),
        ("pause", ""),
        ("total", theirs.total),
    ];
    let mut rows = Vec::new();
    for way in ways {
        let mut row = |label: &str, paper, figure, unit: f64| -> Result<()> {
            let figures = rounds.of(way.name, figure)?.into_iter();
            let outcome = Outcome::Measured {
                base: vec![],
                ours: figures.map(|figure| figure / unit).collect(),
                ranks: rounds.ranks,
            };
            rows.push(Row::new(format!("{label}, {}", way.name), paper, outcome));
            Ok(())
        };
        for (figure, paper) in figures {
            row(figure, paper, figure, 1e-3)?;
        }
        row(
            "image of a rank, MB",
            theirs.size,
            "bytes",
            1e6 * rounds.ranks as f64,
        )?;
    }
    for (label, paper) in [
        ("suspend BTLs", theirs.suspend),
        ("rebuild PML", theirs.rebuild),
    ] {
        let none = Outcome::Seen("none: no network is closed".to_owned());
        rows.push(Row::new(label, paper, none));
    }
    Ok(rows)
}

/// GROMACS, by the paper's number of ranks.
const WATER: [(usize, Benchmark); 2] = [
    (
        8,
        Benchmark {
            name: "the paper's 8",
            one: "",
            four: "",
            phases: Phases {
                protocol: "10; 20; 40",
                suspend: "10; 10; 10",
                checkpoint: "4,760; 5,240; 4,950",
                rebuild: "0; 50; 60",
                total: "4,780; 5,320; 5,060",
                size: "33",
            },
        },
    ),
    (
        16,
        Benchmark {
            name: "the paper's 16",
            one: "",
            four: "",
            phases: Phases {
                protocol: "10; 20; 20",
                suspend: "30; 40; 20",
                checkpoint: "8,070; 7,880; 7,480",
                rebuild: "0; 70; 120",
                total: "8,110; 8,010; 7,640",
                size: "30",
            },
        },
    ),
];
const WATER_WAYS: [Way; 4] = [NATIVE, STASIS, ONE, FOUR];

fn water(lab: &Lab) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (theirs, benchmark) in &WATER {
        let ranks = water_ranks(*theirs);
        let label = format!("{ranks} ranks, for {}", benchmark.name);
        let measured = gromacs::program(lab, ranks)
            .and_then(|program| lab.compare(&program, &WATER_WAYS))
            .and_then(|rounds| run_times(&label, benchmark, &rounds, &WATER_WAYS));
        rows.extend(rows_or_why(&label, measured));
    }
    Ok(rows)
}

/// The paper's ranks where there are processors for its 16, else a quarter of them.
fn water_ranks(theirs: usize) -> usize {
    match cores() >= 16 {
        true => theirs,
        false => theirs / 4,
    }
}

fn water_phases(lab: &Lab, (theirs, benchmark): &(usize, Benchmark)) -> Result<Vec<Row>> {
    let rounds = lab.compare(&gromacs::program(lab, water_ranks(*theirs))?, &WATER_WAYS)?;
    phases_of(benchmark, &rounds, &[FOUR])
}
