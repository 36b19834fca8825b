//! `cargo xtask bench applications`: Debian's HPCC and NWChem, natively and under Stasis over Open MPI, without a
//! checkpoint. HPCC's MPIRandomAccess makes the most MPI calls a second of all programs here, and NWChem's Global
//! Arrays lock a window at each access.

use super::paired::Paired;
use super::{in_turn, prepare, Way};
use crate::build::setup;
use crate::harness::job::read_text;
use crate::harness::mpi::Mpi;
use crate::harness::paths;
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

/// Debian's input for HPCC. It asks for four ranks in two rows and columns.
const HPCC_INPUT: &str = "/usr/share/doc/hpcc/examples/_hpccinf.txt";
const FOUR_RANKS: (&str, &str) = ("2            Ps", "1            Ps");

/// Figures of HPCC: key in its output, and label.
const HPCC: [(&str, &str); 6] = [
    ("MPIRandomAccess_time", "MPIRandomAccess, s"),
    ("MPIRandomAccess_LCG_time", "MPIRandomAccess LCG, s"),
    ("HPL_time", "HPL, s"),
    ("PTRANS_time", "PTRANS, s"),
    ("MPIFFT_time3", "FFT, s"),
    ("RandomlyOrderedRingLatency_usec", "ring latency, µs"),
];

/// Options of `cargo xtask bench applications`.
#[derive(clap::Args)]
pub struct Options {
    /// Pairs of runs (native, Stasis)
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Use target/stasis as it is
    #[arg(long)]
    no_setup: bool,
}

/// Seconds and other figures by label.
type Figures = BTreeMap<&'static str, f64>;

/// Runs the programs and prints a table.
pub fn run(options: &Options) -> Result<()> {
    let dir = prepare(options.no_setup)?;
    setup::require("hpcc")?;
    setup::require("nwchem-openmpi")?;
    let mut runs: BTreeMap<Way, Vec<Figures>> = BTreeMap::new();
    for round in 0..options.rounds {
        for way in in_turn([Way::Native, Way::Stasis], round) {
            let mut figures = hpcc(way, &dir, round)?;
            figures.insert("NWChem, vibrations of water, s", nwchem(way, &dir, round)?);
            runs.entry(way).or_default().push(figures);
        }
    }
    println!(
        "| over Open MPI, {} rounds | native | Stasis | Stasis / native |",
        options.rounds
    );
    println!("|---|---|---|---|");
    let (native, stasis) = (&runs[&Way::Native], &runs[&Way::Stasis]);
    for label in native.first().into_iter().flat_map(Figures::keys) {
        let of = |runs: &[Figures]| runs.iter().map(|run| run[label]).collect::<Vec<f64>>();
        let paired = Paired::new(of(native), of(stasis));
        println!(
            "| {label} | {:.2} | {:.2} | {:.3} |",
            paired.base(),
            paired.ours(),
            paired.ratio()
        );
    }
    Ok(())
}

fn hpcc(way: Way, dir: &Path, round: usize) -> Result<Figures> {
    let input = fs::read_to_string(HPCC_INPUT).with_context(|| HPCC_INPUT.to_owned())?;
    let (output, name) = (dir.join("hpccoutf.txt"), format!("hpcc-{round}"));
    fs::write(
        dir.join("hpccinf.txt"),
        input.replace(FOUR_RANKS.0, FOUR_RANKS.1),
    )?;
    if output.exists() {
        fs::remove_file(&output)?;
    }
    way.run(Mpi::OpenMpi, dir, &name, |command| {
        command.arg("hpcc");
    })?;
    let printed = read_text(&output);
    let figure = |key: &str| {
        let line = printed
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        let value = line.with_context(|| format!("HPCC printed no {key}"))?;
        value
            .parse::<f64>()
            .with_context(|| format!("{key}={value}"))
    };
    HPCC.iter()
        .map(|(key, label)| Ok((*label, figure(key)?)))
        .collect()
}

fn nwchem(way: Way, dir: &Path, round: usize) -> Result<f64> {
    let input = paths::examples().join("nwchem/water.nw");
    let begun = Instant::now();
    way.run(Mpi::OpenMpi, dir, &format!("nwchem-{round}"), |command| {
        command.arg("nwchem.openmpi").arg(input);
    })?;
    Ok(begun.elapsed().as_secs_f64())
}
