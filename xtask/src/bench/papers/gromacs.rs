//! Debian's GROMACS with a box of water, whose input is made here.

use super::measure::{not_here, Figures, Lab, Program, Progress};
use crate::harness::job::{self, read_text};
use crate::harness::mpi::Mpi;
use crate::harness::paths;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
const PACKAGE: &str = "gromacs";
/// Steps in `run.mdp`.
const STEPS: usize = 150;
/// Four of the boxes that GROMACS has in a row, in nm: 14,000 molecules, which take the paper's 30 MB a rank.
const EDGE: &str = "7.44824";

/// The program with these ranks.
pub fn program(lab: &Lab, ranks: usize) -> Result<Program> {
    // Its input takes some seconds.
    not_here(lab, Some(PACKAGE), true)?;
    let input = input(&lab.dir.join("gromacs"))?
        .to_string_lossy()
        .into_owned();
    let words = [
        "gmx_mpi", "mdrun", "-s", &input, "-g", "md.log", "-ntomp", "1", "-v", "-stepout", "5",
    ];
    Ok(Program {
        name: format!("gromacs-{ranks}"),
        mpi: Mpi::OpenMpi,
        ranks,
        words: words.map(str::to_owned).into(),
        environment: &[],
        package: Some(PACKAGE),
        is_slow: true,
        progress: Some(Progress { steps, all: STEPS }),
        read: |_, dir| time(&read_text(&dir.join("md.log"))),
    })
}

/// Makes the input, once.
fn input(dir: &Path) -> Result<PathBuf> {
    let input = dir.join("run.tpr");
    if input.exists() {
        return Ok(input);
    }
    fs::create_dir_all(dir)?;
    let from = paths::examples().join("papers/gromacs");
    for file in ["topol.top", "minimise.mdp", "run.mdp"] {
        fs::copy(from.join(file), dir.join(file)).with_context(|| file.to_owned())?;
    }
    let solvate =
        format!("solvate -cs spc216.gro -box {EDGE} {EDGE} {EDGE} -o water.gro -p topol.top");
    for line in [
        &solvate,
        "grompp -f minimise.mdp -c water.gro -p topol.top -o minimise.tpr -maxwarn 2",
        "mdrun -s minimise.tpr -c rest.gro -ntmpi 1 -ntomp 1",
        "grompp -f run.mdp -c rest.gro -p topol.top -o run.tpr -maxwarn 2",
    ] {
        let mut gmx = Command::new("gmx");
        gmx.args(line.split(' ')).current_dir(dir);
        job::run(gmx, dir, "gmx", LIMIT)?.expect_success(line)?;
    }
    Ok(input)
}

/// The last step that `mdrun -v` has told of.
fn steps(said: &str) -> usize {
    let last = said.rsplit("step ").find_map(|rest| {
        let digits = rest.trim_start();
        let end = digits.find(|c: char| !c.is_ascii_digit())?;
        digits[..end].parse().ok()
    });
    last.unwrap_or(0)
}

/// The wall time at the end of its log.
fn time(log: &str) -> Result<Figures> {
    let mut lines = log.lines().map(str::trim);
    let line = lines.find_map(|line| line.strip_prefix("Time:"));
    let line = line.context("GROMACS wrote no time")?;
    let wall = line
        .split_whitespace()
        .nth(1)
        .context("GROMACS wrote no wall time")?;
    Ok(Figures::from([("seconds".to_owned(), wall.parse()?)]))
}

#[cfg(test)]
mod tests {
    use super::{steps, time};

    #[test]
    fn reads_steps_and_time() {
        assert_eq!(
            steps("starting\rstep 0\rstep 15, remaining wall clock time: 3 s\rstep 2"),
            15
        );
        assert_eq!(steps("starting"), 0);
        let log = "   Core t (s)   Wall t (s)        (%)\n       Time:        4.238        2.119      200.0\n";
        assert_eq!(time(log).unwrap()["seconds"], 2.119);
        assert!(time("").is_err());
    }
}
