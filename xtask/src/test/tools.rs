//! The commands that look at checkpoints, on those of a real job.

use super::bad_input::{example, start};
use super::Case;
use crate::job::{self, Job};
use crate::mpi::Mpi;
use crate::stasis;
use anyhow::{ensure, Context, Result};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// The cases.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("tools/list-inspect-diff", |_, dir| look(dir).into()),
        Case::new("tools/compress", |_, dir| compress(dir).into()),
    ]
}

/// A job is restarted again and again, and its checkpoints compressed as it is told.
fn compress(dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut job = start(&example("p2p", "p2p/ring_loop")?, dir, &ckpt, Mpi::OpenMpi)?;
    let take = |name: &str| {
        job::run(stasis::checkpoint(&ckpt), dir, name, LIMIT)?.expect_success("checkpoint")
    };
    take("first")?;
    job.kill()?;
    let mut sizes = Vec::new();
    for flag in ["--no-compress", "--compress"] {
        let old = stasis::job_file(&ckpt);
        let mut command = stasis::restart(Mpi::OpenMpi, 2, &ckpt, dir);
        command.arg(flag).env("STASIS_TEST_GO", dir.join("go"));
        let mut job = Job::start(command, dir, flag)?;
        let back = stasis::until_reached(&mut job, &ckpt, &old, Instant::now() + LIMIT);
        job.explain(back, dir)?;
        take(flag)?;
        job.kill()?;
        let list = json(dir, &["list"], &[&ckpt])?;
        sizes.push(list[0]["bytes"].as_u64().context("list tells no bytes")?);
    }
    ensure!(
        sizes[1] < sizes[0],
        "--no-compress: {} bytes, --compress: {}",
        sizes[0],
        sizes[1]
    );
    stasis::verify(&ckpt, dir, LIMIT)?.expect_success("verify")?;
    Ok(())
}

/// Two checkpoints of a job that runs on between them.
fn look(dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut job = start(&example("p2p", "p2p/ring_loop")?, dir, &ckpt, Mpi::Mpich)?;
    for name in ["first", "second"] {
        job::run(stasis::checkpoint(&ckpt), dir, name, LIMIT)?.expect_success("checkpoint")?;
    }
    job.kill()?;
    let set = |number: u32| ckpt.join(format!("ckpt-{number}"));

    let list = json(dir, &["list"], &[&ckpt])?;
    let names: Vec<_> = list.as_array().into_iter().flatten().collect();
    let named = |i: usize| names.get(i).and_then(|set| set["name"].as_str());
    ensure!(
        (named(0), named(1)) == (Some("ckpt-2"), Some("ckpt-1")),
        "list says {list:#}"
    );

    let held = json(dir, &["inspect"], &[&set(1)])?;
    let number = |value: &Value| value.as_u64().context("is no number");
    let parts = held["parts"].as_object().context("no parts")?;
    let of_parts = parts
        .values()
        .map(|part| number(&part["memory_bytes"]))
        .sum::<Result<u64>>()?;
    let manifest = fs::read_to_string(set(1).join("manifest.json"))?;
    let manifest: Value = serde_json::from_str(&manifest)?;
    let of_ranks = manifest["ranks"].as_array().into_iter().flatten();
    let of_ranks = of_ranks
        .map(|rank| number(&rank["memory_bytes"]))
        .sum::<Result<u64>>()?;
    ensure!(
        of_ranks > 0 && of_parts >= of_ranks,
        "inspect finds {of_parts} bytes of memory where the ranks reported {of_ranks}"
    );
    ensure!(
        parts.contains_key("ring_loop") && parts.contains_key("libc.so.6"),
        "inspect does not name the program and its libraries: {held:#}"
    );

    let itself = json(dir, &["diff"], &[&set(1), &set(1)])?;
    ensure!(
        itself["all"]["changed_bytes"] == 0 && number(&itself["all"]["same_bytes"])? == of_parts,
        "a set differs from itself: {itself:#}"
    );
    let moved = json(dir, &["diff"], &[&set(1), &set(2)])?;
    let changed = number(&moved["all"]["changed_bytes"])?;
    ensure!(
        changed > 0 && changed < of_parts,
        "a job that has gone on differs by {changed} of {of_parts} bytes"
    );
    Ok(())
}

fn json(dir: &Path, words: &[&str], paths: &[&Path]) -> Result<Value> {
    let mut command = stasis::command(words);
    command.arg("--json").args(paths);
    let answer = job::run(command, dir, words[0], LIMIT)?.expect_success(words[0])?;
    serde_json::from_str(&answer.stdout).with_context(|| format!("{words:?} printed no JSON"))
}
