//! Programs that see a lesser processor (`launch --for-cpu`): their checkpoints can be restarted where only the named
//! features are; those of other programs cannot. `examples/run/lesser_processor.c` tests the features that a program
//! sees.

use crate::build::setup;
use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::held_job::{example, start_by, take_checkpoint, RANKS};
use crate::test::support::refusal::{refused, IMAGE, USAGE};
use crate::test::{Case, Outcome};
use anyhow::{ensure, Context, Result};
use serde_json::json;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
/// Prefix of the features that the lesser machine lacks.
const LACKS: &str = "avx";

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in Mpi::ALL {
        let name = format!("for-cpu/lesser-machine:{mpi}>{}", mpi.other());
        let why = "needs root to show another /proc/cpuinfo";
        cases.push(Case::as_root(name, why, move |dir| {
            lesser_machine(mpi, dir)
        }));
    }
    cases.push(Case::new(
        "for-cpu/real-dispatch",
        |_, dir| match setup::missing(Some("openssl")) {
            Some(why) => Outcome::Skipped(why),
            None => real_dispatch(dir).into(),
        },
    ));
    cases.push(Case::new("for-cpu/pool", |_, dir| pool(dir).into()));
    cases
}

/// The command on a machine whose kernel names none of the features of AVX.
fn on_lesser_machine(job: &Command, dir: &Path) -> Result<Command> {
    let here = fs::read_to_string("/proc/cpuinfo")?;
    let lesser = here.lines().map(|line| match line.starts_with("flags") {
        true => {
            let kept = line.split(' ').filter(|word| !word.starts_with(LACKS));
            kept.collect::<Vec<_>>().join(" ")
        }
        false => line.to_owned(),
    });
    let shown = dir.join("cpuinfo");
    fs::write(&shown, lesser.collect::<Vec<_>>().join("\n"))?;
    let mut command = Command::new("unshare");
    let script = "mount --bind \"$0\" /proc/cpuinfo && exec \"$@\"";
    command.args(["--mount", "sh", "-c", script]).arg(shown);
    command.arg(job.get_program()).args(job.get_args());
    for (name, value) in job.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(dir);
    Ok(command)
}

/// A checkpoint for a level is restarted on a machine with no more than that; another one is refused there by name.
fn lesser_machine(mpi: Mpi, dir: &Path) -> Result<()> {
    for level in [Some("x86-64-v2"), None] {
        let dir = dir.join(level.unwrap_or("whole"));
        fs::create_dir(&dir)?;
        let ckpt = dir.join("ck");
        let mut launch = stasis::launch(mpi, RANKS, &ckpt, &dir);
        if let Some(level) = level {
            launch.args(["--for-cpu", level]);
        }
        let ring = example("p2p", "p2p/ring_loop")?;
        let mut job = start_by(launch, &ring, &dir, mpi)?;
        take_checkpoint(&mut job, &dir, &ckpt)?;
        let mut inspect = stasis::command(["inspect"]);
        inspect.arg(&ckpt);
        let told = stasis::json(inspect, &dir, "inspect", LIMIT)?;
        let name = told["for_cpu"]["name"].as_str();
        ensure!(name == level, "the checkpoint names {name:?}");
        fs::write(dir.join("go"), "")?;
        let restart = stasis::restart(mpi.other(), RANKS, &ckpt, &dir);
        let restart = on_lesser_machine(&restart, &dir)?;
        if level.is_some() {
            let mut job = Job::start(restart, &dir, "restart")?;
            job.succeed(Instant::now() + LIMIT, &dir)?;
            let printed = job::read_text(&job.stdout);
            ensure!(printed.contains("OK ring_loop"), "it prints {printed}");
        } else if std::arch::is_x86_feature_detected!("avx") {
            let finished = job::run(restart, &dir, "restart", LIMIT)?;
            refused(&finished, IMAGE, &[&["lacks instruction sets"], &["avx"]])?;
        }
    }
    Ok(())
}

/// OpenSSL prints by which features it selects its code: the first and the seventh leaf of `cpuid`.
fn real_dispatch(dir: &Path) -> Result<()> {
    const FMA: u64 = 1 << 44;
    const SSE4_2: u64 = 1 << 52;
    const AVX2_TO_BMI2: u64 = 0x128;
    let words = |name: &str, level: Option<&str>| -> Result<(u64, u64)> {
        let mut launch = stasis::command(["launch", "--ckpt-dir"]);
        launch.arg(dir.join(name));
        launch.args(
            level
                .map(|level| ["--for-cpu", level])
                .into_iter()
                .flatten(),
        );
        launch.args(["openssl", "info", "-cpusettings"]);
        let run = job::run(launch, dir, name, LIMIT)?.expect_success("openssl")?;
        let (_, shown) = run.stdout.split_once('=').context("it shows nothing")?;
        let number = |word: &str| u64::from_str_radix(word.trim().trim_start_matches("0x"), 16);
        let (first, seventh) = shown.split_once(':').context("it shows one word")?;
        Ok((number(first)?, number(seventh)?))
    };
    let whole = words("whole", None)?;
    let lesser = words("lesser", Some("x86-64-v2"))?;
    let left = (whole.0 & SSE4_2, 0, 0);
    let shown = (lesser.0 & SSE4_2, lesser.0 & FMA, lesser.1 & AVX2_TO_BMI2);
    ensure!(shown == left, "it sees {lesser:x?} of {whole:x?}");
    if std::arch::is_x86_feature_detected!("avx2") {
        ensure!(whole.1 & AVX2_TO_BMI2 != 0, "natively it sees {whole:x?}");
    }
    Ok(())
}

/// The machines of a pool, as a file: what all of them have counts. A file with other words is refused.
fn pool(dir: &Path) -> Result<()> {
    let file = dir.join("pool");
    let launch = |list: &str, ckpt: &Path| -> Result<Command> {
        fs::write(&file, list)?;
        let mut launch = stasis::command(["launch", "--ckpt-dir"]);
        launch.arg(ckpt).arg("--for-cpu").arg(&file).arg("cat");
        Ok(launch)
    };
    let ckpt = dir.join("ck");
    let mixed = "flags\t\t: fpu sse sse2 sse4_1 avx aes\nx86-64-v3\n";
    let mut job = Job::start(launch(mixed, &ckpt)?, dir, "launch")?;
    stasis::until_reached(&mut job, &ckpt, "", Instant::now() + LIMIT)?;
    take_checkpoint(&mut job, dir, &ckpt)?;
    let mut inspect = stasis::command(["inspect"]);
    inspect.arg(&ckpt);
    let told = stasis::json(inspect, dir, "inspect", LIMIT)?;
    let features = &told["for_cpu"]["features"];
    ensure!(
        *features == json!(["avx", "mmx", "sse", "sse2", "sse4_1"]),
        "all machines have {features}"
    );
    for (list, word) in [
        ("x86-64-v3 avx3\n", "avx3 is neither"),
        ("\n", "names no machine"),
    ] {
        let finished = job::run(launch(list, &ckpt)?, dir, "other", LIMIT)?;
        refused(&finished, USAGE, &[&[word]])?;
    }
    fs::remove_file(&file)?;
    let mut missing = stasis::command(["launch", "--for-cpu", "x86-64-v5", "true"]);
    missing.current_dir(dir);
    let finished = job::run(missing, dir, "missing", LIMIT)?;
    refused(&finished, USAGE, &[&["x86-64-v4"], &["No such file"]])
}
