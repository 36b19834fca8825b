//! `cargo xtask fuzz`: the targets of `ckpt-image/fuzz/`, one after the other on one processor, and their coverage as
//! Markdown. Installs the nightly toolchain and cargo-fuzz if they are missing.

use crate::build;
use crate::harness::{job, paths};
use anyhow::{bail, ensure, Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Targets of `ckpt-image/fuzz/src/lib.rs`, each with its share of the time.
const TARGETS: [(&str, u32); 5] = [
    ("image", 3),
    ("tables", 3),
    ("manifest", 1),
    ("process", 1),
    ("altered", 2),
];
/// Time limit for the build, and for an input that exceeds the time of its target.
const SLACK: Duration = Duration::from_secs(1800);

/// Options of `cargo xtask fuzz`.
#[derive(clap::Args)]
pub struct Options {
    /// Minutes in all
    #[arg(long, default_value_t = 60)]
    minutes: u32,
    /// Only the target of this name, with all the time
    #[arg(long)]
    only: Option<String>,
}

/// Runs the targets. Fails if one has found a crash, with the path of its input.
pub fn run(options: &Options) -> Result<()> {
    let chosen = |name: &str| options.only.as_deref().is_none_or(|only| only == name);
    let targets: Vec<_> = TARGETS.iter().filter(|(name, _)| chosen(name)).collect();
    ensure!(
        !targets.is_empty(),
        "there is no such target in ckpt-image/fuzz/"
    );
    install()?;
    let dir = paths::target().join("fuzz");
    fs::create_dir_all(&dir)?;
    let mut seeds = cargo(&["run", "--quiet", "--bin", "seeds", "--"]);
    seeds.arg(paths::root().join("ckpt-image/fuzz/corpus"));
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

/// Installs the tools that cargo itself lacks.
fn install() -> Result<()> {
    let there = |command: &mut Command| command.output().is_ok_and(|said| said.status.success());
    if !there(&mut cargo(&["--version"])) {
        eprintln!("To be installed with rustup: the nightly toolchain");
        let mut rustup = Command::new("rustup");
        build::succeed(rustup.args(["toolchain", "install", "nightly", "--profile", "minimal"]))?;
    }
    if !there(&mut cargo(&["fuzz", "--version"])) {
        eprintln!("To be installed with cargo: cargo-fuzz");
        build::succeed(&mut cargo(&["install", "cargo-fuzz", "--locked"]))?;
    }
    Ok(())
}

fn fuzz(name: &str, seconds: u32, dir: &Path) -> Result<()> {
    // Sets are written thousands of times per second.
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

/// Cargo of the nightly toolchain, in `ckpt-image/fuzz/`. rustup has set RUSTUP_TOOLCHAIN for this process.
fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.arg("+nightly").args(arguments);
    command.env_remove("RUSTUP_TOOLCHAIN");
    command.current_dir(paths::root().join("ckpt-image/fuzz"));
    command
}
