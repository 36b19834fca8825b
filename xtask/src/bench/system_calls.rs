//! `cargo xtask bench system-calls`: system calls of a program, natively, under Stasis with every call trapped, and
//! under Stasis as it is (`loader/src/interpose/sites/`); and short programs that make many.

use super::{figures, in_turn, median, prepare, Figures, LIMIT};
use crate::harness::{job, paths};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Options of `cargo xtask bench system-calls`.
#[derive(clap::Args)]
pub struct Options {
    /// Runs of each way
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Use target/stasis as it is
    #[arg(long)]
    no_setup: bool,
}

/// Rows: name in the benchmark's output, label, and budget as a ratio to the native time and as nanoseconds more.
const CALLS: &[(&str, &str, f64, f64)] = &[
    ("getppid", "getppid", 1.0, 60.0),
    ("pread_4k", "pread 4 KiB", 1.25, 0.0),
    ("pwrite_4k", "pwrite 4 KiB", 1.25, 0.0),
    // A process with several threads counts the references to each open file, and locks its position.
    ("read_0", "read 0 B", 1.0, 150.0),
    ("open_close", "open + close", 1.5, 0.0),
    ("stat", "stat", 1.25, 0.0),
    ("mmap_munmap", "mmap + munmap", 1.5, 0.0),
];

/// Programs: label, and words.
const PROGRAMS: &[(&str, &[&str])] = &[
    (
        "python3, imports",
        &[
            "/usr/bin/python3",
            "-c",
            "import asyncio, http.client, sqlite3, unittest",
        ],
    ),
    ("git status", &["git", "status", "--short"]),
    ("ls -lR /usr/include", &["ls", "-lR", "/usr/include"]),
];

/// Ways of running a program.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Native,
    Trapped,
    Patched,
}

impl Way {
    const ALL: [Way; 3] = [Way::Native, Way::Trapped, Way::Patched];

    fn command(self, dir: &Path, words: &[&str]) -> Command {
        let mut command = match self {
            Way::Native => Command::new(words[0]),
            Way::Trapped | Way::Patched => {
                let mut command = Command::new(paths::stasis());
                command.args(["launch", "--ckpt-dir"]).arg(dir.join("ck"));
                command.arg(words[0]);
                command
            }
        };
        if self == Way::Trapped {
            command.env("STASIS_SYSCALL_SITES", "off");
        }
        command.args(&words[1..]).current_dir(paths::root());
        command
    }
}

/// Both tables.
pub fn run(options: &Options) -> Result<()> {
    let dir = prepare(options.no_setup)?;
    calls(options, &dir)?;
    programs(options, &dir)
}

fn calls(options: &Options, dir: &Path) -> Result<()> {
    let binary = dir.join("system_calls");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-o"]).arg(&binary);
    compiler.arg(paths::examples().join("bench/system_calls.c"));
    job::run(compiler, dir, "compile", LIMIT)?.expect_success("compiling the benchmark")?;
    let file = dir.join("file");
    let words = [binary.to_str(), file.to_str()].map(Option::unwrap_or_default);
    let mut runs: BTreeMap<Way, Vec<Figures>> = BTreeMap::new();
    for round in 0..options.rounds {
        for way in in_turn(Way::ALL, round) {
            let finished = job::run(way.command(dir, &words), dir, "calls", LIMIT)?;
            let finished = finished.expect_success("calls")?;
            runs.entry(way)
                .or_default()
                .push(figures(&finished.stdout)?);
        }
    }
    println!(
        "| {} rounds | native, ns | trapped, ns | patched, ns | patched / native | budget | |",
        options.rounds
    );
    println!("|---|---|---|---|---|---|---|");
    for (key, title, ratio, more) in CALLS {
        let time = |way: Way| -> Result<f64> {
            let figures: Option<Vec<f64>> = runs[&way]
                .iter()
                .map(|run| Some(run.get(*key)?.1))
                .collect();
            Ok(median(
                figures.with_context(|| format!("no figure for {key}"))?,
            ))
        };
        let [native, trapped, patched] =
            [time(Way::Native)?, time(Way::Trapped)?, time(Way::Patched)?];
        let budget = native * ratio + more;
        println!(
            "| {title} | {native:.0} | {trapped:.0} | {patched:.0} | {:.2} | ≤ {budget:.0} ns | {} |",
            patched / native,
            if patched <= budget { "" } else { "**over**" }
        );
    }
    println!();
    Ok(())
}

/// Whole programs, with the start of Stasis, which a program without calls shows.
fn programs(options: &Options, dir: &Path) -> Result<()> {
    println!(
        "| {} rounds | native, ms | trapped, ms | patched, ms | patched / native |",
        options.rounds
    );
    println!("|---|---|---|---|---|");
    let start: &[(&str, &[&str])] = &[("true (the start alone)", &["true"])];
    for (title, words) in start.iter().chain(PROGRAMS) {
        let mut runs: BTreeMap<Way, Vec<f64>> = BTreeMap::new();
        for round in 0..options.rounds {
            for way in in_turn(Way::ALL, round) {
                let begun = Instant::now();
                job::run(way.command(dir, words), dir, "program", LIMIT)?.expect_success(title)?;
                runs.entry(way)
                    .or_default()
                    .push(begun.elapsed().as_secs_f64() * 1e3);
            }
        }
        let [native, trapped, patched] = Way::ALL.map(|way| median(runs[&way].clone()));
        println!(
            "| {title} | {native:.1} | {trapped:.1} | {patched:.1} | {:.2} |",
            patched / native
        );
    }
    println!();
    Ok(())
}
