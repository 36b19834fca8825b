//! Debian's LAMMPS, Quantum ESPRESSO and CP2K.

use super::super::imb;
use super::measure::{Figures, Lab, Missing, Program};
use crate::build::pypi;
use crate::harness::mpi::Mpi;
use crate::harness::paths;
use anyhow::{Context, Result};
use std::path::Path;

/// Debian's LAMMPS with the Lennard-Jones liquid of its benchmarks.
pub fn lammps(lab: &Lab) -> Program {
    Program {
        name: "lammps".into(),
        mpi: Mpi::OpenMpi,
        ranks: lab.ranks(512),
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

/// A program of the Intel MPI Benchmarks with some of its operations, as PyPI has it with Intel MPI. Its figures are
/// the times in microseconds, as `Bcast/1024`, and the overlap, as `Ibcast/1024/overlap`.
pub fn intel(lab: &Lab, program: &str, operations: &[&str]) -> Result<Program> {
    let mpi = Mpi::Intel;
    if let Some(why) = pypi::missing(&[mpi], None) {
        return Err(Missing(why).into());
    }
    let bin = pypi::bin(mpi).context("Intel MPI has a folder")?;
    let seconds = lab.sized("0.3", "0.01");
    let flags = ["-npmin", "2", "-time", seconds, "-msglog", "2:20"];
    let words = operations.iter().chain(&flags);
    Ok(Program {
        name: format!("{program} {}", operations.join(" ")),
        mpi,
        ranks: 2,
        words: std::iter::once(bin.join(program).to_string_lossy().into_owned())
            .chain(words.map(|word| (*word).to_owned()))
            .collect(),
        environment: &[],
        package: None,
        is_slow: true,
        progress: None,
        read: |printed, _| {
            let name = |(operation, bytes): (String, u64)| format!("{operation}/{bytes}");
            let times = imb::parse(printed, imb::TIMES)?.into_iter();
            let mut figures: Figures = times.map(|(of, time)| (name(of), time)).collect();
            // Blocking operations have none.
            let overlap = imb::parse(printed, imb::OVERLAP).unwrap_or_default();
            figures.extend(
                overlap
                    .into_iter()
                    .map(|(of, part)| (name(of) + "/overlap", part)),
            );
            Ok(figures)
        },
    })
}

/// Debian's Quantum ESPRESSO with eight atoms of silicon, and enough plane waves for some seconds.
pub fn espresso(ranks: usize) -> Program {
    let read = |printed: &str, _: &Path| espresso_time(printed);
    let words = ["pw.x", "-in", "papers/silicon.in"];
    with_input("quantum-espresso", words, ranks, read)
}

/// Debian's CP2K with two molecules of water.
pub fn cp2k(ranks: usize) -> Program {
    let read = |printed: &str, _: &Path| cp2k_time(printed);
    let words = ["cp2k.psmp", "-i", "cp2k/water.inp"];
    Program {
        environment: &[("OMP_NUM_THREADS", "1")],
        ..with_input("cp2k", words, ranks, read)
    }
}

/// A program of a package of Debian's, with its flag for the input, and an input among the examples.
fn with_input(
    package: &'static str,
    [command, flag, input]: [&str; 3],
    ranks: usize,
    read: fn(&str, &Path) -> Result<Figures>,
) -> Program {
    let input = paths::examples().join(input);
    Program {
        name: format!("{package}-{ranks}"),
        mpi: Mpi::OpenMpi,
        ranks,
        words: [command, flag, &input.to_string_lossy()]
            .map(str::to_owned)
            .into(),
        environment: &[],
        package: Some(package),
        is_slow: true,
        progress: None,
        read,
    }
}

/// The longest total time of a rank in the line ` CP2K` of the table of times.
fn cp2k_time(printed: &str) -> Result<Figures> {
    let mut lines = printed.lines();
    let line = lines.find(|line| line.starts_with(" CP2K    "));
    let time = line.and_then(|line| line.split_ascii_whitespace().last());
    seconds(time.context("CP2K printed no time")?)
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

#[cfg(test)]
mod tests {
    use super::{cp2k_time, espresso_time};

    #[test]
    fn reads_the_time_of_cp2k() {
        let table =
            " CP2K                                 1  1.0    0.004    0.005    9.812    9.814\n";
        assert_eq!(cp2k_time(table).unwrap()["seconds"], 9.814);
        assert!(cp2k_time(" CP2K| version string").is_err());
    }

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
