//! `cargo xtask fuzz`: the targets of `fuzz/`, one after the other on one processor, and what they have
//! reached, as Markdown. Installs the nightly toolchain and cargo-fuzz where they are missing.

use crate::{job, paths, setup};
use anyhow::{bail, ensure, Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Those of `fuzz/src/lib.rs`, and their share of the time.
const TARGETS: [(&str, u32); 5] = [
    ("image", 3),
    ("tables", 3),
    ("manifest", 1),
    ("process", 1),
    ("altered", 2),
];
/// For building, and for what an input may take beyond the time.
const SLACK: Duration = Duration::from_secs(1800);

/// What `cargo xtask fuzz` takes.
#[derive(clap::Args)]
pub struct Options {
    /// Minutes in all
    #[arg(long, default_value_t = 60)]
    minutes: u32,
    /// Only the target of this name, with all the time
    #[arg(long)]
    only: Option<String>,
}

/// Runs the targets; fails when one has found something, and says where it is.
pub fn run(options: &Options) -> Result<()> {
    let chosen = |name: &str| options.only.as_deref().is_none_or(|only| only == name);
    let targets: Vec<_> = TARGETS.iter().filter(|(name, _)| chosen(name)).collect();
    ensure!(!targets.is_empty(), "there is no such target in fuzz/");
    install()?;
    let dir = paths::target().join("fuzz");
    fs::create_dir_all(&dir)?;
    let mut seeds = cargo(&["run", "--quiet", "--bin", "seeds", "--"]);
    seeds.arg(paths::root().join("fuzz/corpus"));
    job::run(seeds, &dir, "seeds", SLACK)?.expect_success("making the seeds")?;
    println!("| target | seconds | executions | a second | edges covered | inputs kept |");
    println!("|---|---|---|---|---|---|");
    let shares: u32 = targets.iter().map(|(_, share)| share).sum();
    let mut found = Vec::new();
    for (name, share) in targets {
        let seconds = options.minutes * 60 * share / shares;
        if let Err(error) = fuzz(name, seconds, &dir) {
            found.push(format!("{name}: {error:#}"));
        }
    }
    if !found.is_empty() {
        bail!("{}", found.join("\n"));
    }
    Ok(())
}

/// What cargo itself does not bring along.
fn install() -> Result<()> {
    let there = |command: &mut Command| command.output().is_ok_and(|said| said.status.success());
    if !there(&mut cargo(&["--version"])) {
        eprintln!("To be installed with rustup: the nightly toolchain");
        let mut rustup = Command::new("rustup");
        setup::succeed(rustup.args(["toolchain", "install", "nightly", "--profile", "minimal"]))?;
    }
    if !there(&mut cargo(&["fuzz", "--version"])) {
        eprintln!("To be installed with cargo: cargo-fuzz");
        setup::succeed(&mut cargo(&["install", "cargo-fuzz", "--locked"]))?;
    }
    Ok(())
}

fn fuzz(name: &str, seconds: u32, dir: &Path) -> Result<()> {
    // Sets are written many thousand times a second.
    let memory = paths::for_images(&dir.join(name));
    fs::create_dir_all(&memory).with_context(|| format!("making {}", memory.display()))?;
    let mut command = cargo(&["fuzz", "run", name, "--"]);
    command.args([&format!("-max_total_time={seconds}"), "-timeout=10"]);
    command.env("TMPDIR", &memory);
    let limit = SLACK + Duration::from_secs(seconds.into());
    let finished = job::run(command, dir, name, limit);
    fs::remove_dir_all(&memory)?;
    let finished = finished?.expect_success("cargo fuzz")?;
    let said = finished.stderr;
    // #123	DONE   cov: 45 ft: 67 corp: 8/9Kb ...
    let last = said.lines().rfind(|line| line.contains("\tDONE"));
    let words: Vec<&str> = last
        .context("it did not come to its end")?
        .split_whitespace()
        .collect();
    let after = |word: &str| {
        let at = words.iter().position(|other| *other == word);
        at.and_then(|at| words.get(at + 1)).copied().unwrap_or("?")
    };
    let executions: u64 = words[0].trim_start_matches('#').parse()?;
    println!(
        "| `{name}` | {seconds} | {executions} | {} | {} | {} |",
        executions / u64::from(seconds.max(1)),
        after("cov:"),
        after("corp:")
    );
    Ok(())
}

/// The nightly toolchain's, in `fuzz/`; this process's own has set the variable that chooses.
fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.arg("+nightly").args(arguments);
    command.env_remove("RUSTUP_TOOLCHAIN");
    command.current_dir(paths::root().join("fuzz"));
    command
}
