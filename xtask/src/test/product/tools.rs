//! The commands that inspect checkpoints, with checkpoints of a real job.

use crate::docs::{self, json_page};
use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{paths, stasis};
use crate::test::support::compile::command_line;
use crate::test::support::held_job::start_by;
use crate::test::support::held_job::{begin, example, start};
use crate::test::support::refusal::{refused, IMAGE, USAGE};
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use serde_json::Value;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    vec![
        Case::new("tools/list-inspect-diff", |_, dir| look(dir).into()),
        Case::new("tools/compress", |_, dir| compress(dir).into()),
        Case::new("tools/bars", |_, dir| bars(dir).into()),
        Case::new("tools/colours", |_, dir| colours(dir).into()),
        Case::new("tools/wrong-usage", |_, dir| wrong_usage(dir).into()),
        Case::new("tools/verbose", |_, dir| verbose(dir).into()),
        Case::new("tools/reader-goes-away", |_, dir| unread(dir).into()),
        Case::new("tools/resume", |_, dir| resume(dir).into()),
        Case::new("tools/verify-of-a-living-job", |_, dir| {
            verify_living(dir).into()
        }),
        Case::new("tools/one-write-a-line", |_, dir| one_write(dir).into()),
    ]
}

/// A job is restarted several times, with checkpoints compressed by its options.
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
        sizes.push(
            list["checkpoints"][0]["bytes"]
                .as_u64()
                .context("list tells no bytes")?,
        );
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

/// The reader of the output is gone, as with `| head`.
fn unread(dir: &Path) -> Result<()> {
    const NOBODY_READS: i32 = 128 + 13;
    let ckpt = dir.join("ck");
    let mut job = start(&example("p2p", "p2p/ring_loop")?, dir, &ckpt, Mpi::Mpich)?;
    let path = ckpt.to_string_lossy();
    job::run(stasis::checkpoint(&ckpt), dir, "checkpoint", LIMIT)?.expect_success("checkpoint")?;
    for words in [
        &["checkpoint", &path] as &[&str],
        &["status", &path],
        &["list", &path],
        &["inspect", &path],
        &["inspect", &path, "--json"],
        &["verify", &path],
        &["doctor"],
        &["man", "launch"],
        &["completions", "bash"],
    ] {
        let (reader, writer) = std::io::pipe()?;
        drop(reader);
        let ended = stasis::command(words).stdout(writer).output()?;
        let said = String::from_utf8_lossy(&ended.stderr);
        ensure!(
            ended.status.code() == Some(NOBODY_READS) && !said.contains("panicked"),
            "{words:?}: {}, {said}",
            ended.status
        );
    }
    job.kill()
}

/// Long operations draw a bar on a terminal, and print plain lines elsewhere.
fn bars(dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut job = start(&example("p2p", "p2p/ring_loop")?, dir, &ckpt, Mpi::Mpich)?;
    for (verb, shown) in [
        ("checkpoint", "/2 ranks"),
        ("verify", "ckpt-1, rank 1 of 2"),
    ] {
        draws(verb, &ckpt, shown, dir)?;
        let mut command = stasis::command([verb]);
        command.arg(&ckpt);
        let plain = job::run(command, dir, verb, LIMIT)?.expect_success(verb)?;
        let said = plain.stdout + &plain.stderr;
        let control = |c: char| c.is_control() && c != '\n';
        ensure!(!said.contains(control), "{verb} says {said:?}");
    }
    job.kill()?;
    // A single rank draws on the terminal.
    let (alone, ckpt) = (dir.join("alone"), dir.join("alone/ck"));
    fs::create_dir(&alone)?;
    let launch = stasis::launch(Mpi::Mpich, 1, &ckpt, &alone);
    let mut job = begin(
        launch,
        &example("p2p", "p2p/ring_loop")?,
        &alone,
        Mpi::Mpich,
    )?;
    stasis::until_reached(&mut job, &ckpt, "", Instant::now() + LIMIT)?;
    job::run(stasis::checkpoint(&ckpt), dir, "of-one", LIMIT)?.expect_success("checkpoint")?;
    job.kill()?;
    fs::write(alone.join("go"), "")?;
    draws("restart", &ckpt, "ckpt-1, rank 0 of 1", dir)
}

/// The words for damage are red on a terminal. They have no colour in a pipe, or if the user wants none.
fn colours(dir: &Path) -> Result<()> {
    const RED: &str = "\u{1b}[31m";
    let set = dir.join("ck/ckpt-1");
    fs::create_dir_all(&set)?;
    fs::write(set.join("manifest.json"), "{")?;
    for (verb, word) in [("list", "unusable"), ("verify", "damaged")] {
        for (plain, expected) in [(None, true), (Some("1"), false)] {
            let mut terminal = stasis::shell(
                &format!("script --quiet --command 'stasis {verb} ck' /dev/null"),
                dir,
            );
            terminal.env("TERM", "xterm").env_remove("NO_COLOR");
            terminal.envs(plain.map(|plain| ("NO_COLOR", plain)));
            let said = job::run(terminal, dir, verb, LIMIT)?.stdout;
            ensure!(
                said.contains(word) && said.contains(RED) == expected,
                "with NO_COLOR={plain:?} {verb} says {said:?}"
            );
        }
        let mut piped = stasis::command([verb]);
        piped.arg(dir.join("ck"));
        let said = job::run(piped, dir, verb, LIMIT)?.stdout;
        ensure!(
            said.contains(word) && !said.contains('\u{1b}'),
            "in a pipe {verb} says {said:?}"
        );
    }
    Ok(())
}

/// A wrong command line that asks for JSON gets its message as an object, which names what is missing. So does a
/// restart that fails.
fn wrong_usage(dir: &Path) -> Result<()> {
    fs::create_dir(dir.join("empty"))?;
    let lines: [(&[&str], &str, i32); 4] = [
        (&["diff", "--json", "a"], "<DIR[/ckpt-N]>", USAGE),
        (&["no-such", "--json"], "no-such", USAGE),
        (&["list", "--json", "--no-such"], "--no-such", USAGE),
        (&["restart", "--json", "empty"], "empty", IMAGE),
    ];
    for (words, expected, code) in lines {
        let mut asked = stasis::command(words);
        asked.current_dir(dir);
        let finished = job::run(asked, dir, words[0], LIMIT)?;
        let told: Value = serde_json::from_str(&finished.stdout)
            .with_context(|| format!("{words:?} prints {:?}", finished.stdout))?;
        docs::check_printed(json_page::FAILURE, &told)?;
        let why = told["error"].as_str().unwrap_or_default();
        ensure!(
            why.contains(expected) && told["exit_code"] == code,
            "{words:?} prints {told:#}"
        );
        refused(&finished, code, &[&[expected]])?;
    }
    Ok(())
}

/// Commands report their steps with `--verbose`, and only then.
fn verbose(dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut launch = stasis::launch(Mpi::Mpich, 2, &ckpt, dir);
    launch.arg("--verbose");
    let mut job = start_by(launch, &example("p2p", "p2p/ring_loop")?, dir, Mpi::Mpich)?;
    let said = job::read_text(&job.stderr);
    let told = said.matches("the job runs over MPICH").count();
    ensure!(
        told == 1 && said.contains("built for mpich"),
        "launch says {said}"
    );
    for (verb, words) in [
        ("checkpoint", ": committed. The slowest ranks took "),
        ("verify", "ckpt-1/rank-1.img: sound"),
    ] {
        let flags = [&[][..], &["-v"]];
        for flags in flags {
            let mut command = stasis::command([verb]);
            command.args(flags).arg(&ckpt);
            let said = job::run(command, dir, verb, LIMIT)?
                .expect_success(verb)?
                .stderr;
            ensure!(
                said.contains(words) != flags.is_empty(),
                "{verb} {flags:?} says {said}"
            );
        }
    }
    job.kill()
}

/// Checks that this command draws a bar with these words on a terminal.
fn draws(verb: &str, ckpt: &Path, shown: &str, dir: &Path) -> Result<()> {
    let line = format!("{} {verb} {}", paths::stasis().display(), ckpt.display());
    let mut terminal = Command::new("script");
    terminal.args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    terminal.env("TERM", "xterm");
    let drawn = job::run(terminal, dir, "on-terminal", LIMIT)?.expect_success(verb)?;
    let drawn = drawn.stdout;
    ensure!(
        drawn.contains("\u{1b}[") && drawn.contains(shown),
        "{verb} draws no bar: {drawn:?}"
    );
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
    let names: Vec<_> = list["checkpoints"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
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

/// The line of a batch script, repeated, with all settings in the environment. It starts the program, then continues
/// it, and does neither if that would lose data.
fn resume(dir: &Path) -> Result<()> {
    const BAD_SET: i32 = 5;
    let ckpt = dir.join("ck");
    let submitted = |name: &str| -> Result<Command> {
        let mut command = Mpi::Mpich.mpirun(2, dir);
        let folder = name.split('/').next().unwrap_or_default();
        let program = command_line(&example(folder, name)?, Some(Mpi::Mpich))?;
        command
            .arg(paths::stasis())
            .arg("launch")
            .args(program)
            .env("STASIS_CKPT_DIR", &ckpt)
            .env("STASIS_RESUME", "1")
            .env("STASIS_TEST_READY", dir.join("ready"))
            .env("STASIS_TEST_GO", dir.join("go"))
            .current_dir(dir);
        Ok(command)
    };
    let mut before = String::new();
    for run in 1..=3 {
        let name = format!("run-{run}");
        let mut job = Job::start(submitted("p2p/ring_loop")?, dir, &name)?;
        let reached = stasis::until_reached(&mut job, &ckpt, &before, Instant::now() + LIMIT);
        before = job.explain(reached, dir)?;
        let said = job::read_text(&job.stderr);
        let continued = format!("from ckpt-{}", run - 1);
        ensure!(
            said.contains(&continued) == (run > 1),
            "run {run} says: {said}"
        );
        let mut command = stasis::command(["checkpoint"]);
        command.env("STASIS_CKPT_DIR", &ckpt);
        job::run(command, dir, "checkpoint", LIMIT)?.expect_success("checkpoint")?;
        job.kill()?;
    }
    let other = job::run(submitted("p2p/wildcards")?, dir, "other", LIMIT)?;
    refused(&other, BAD_SET, &[&["of another program"], &["--ckpt-dir"]])?;
    for set in fs::read_dir(&ckpt)? {
        let image = set?.path().join("rank-1.img");
        if image.exists() {
            fs::write(image, "short")?;
        }
    }
    let bad = job::run(submitted("p2p/ring_loop")?, dir, "bad", LIMIT)?;
    refused(&bad, BAD_SET, &[&["ckpt-3"], &["ckpt-2"]])?;
    ensure!(
        stasis::job_file(&ckpt) == before,
        "the program was started beside bad checkpoints"
    );
    Ok(())
}

/// A running job removes sets while they are verified. That is not reported as damage.
fn verify_living(dir: &Path) -> Result<()> {
    const ROUNDS: usize = 25;
    let ckpt = dir.join("ck");
    let mut command = stasis::launch(Mpi::Mpich, 2, &ckpt, dir);
    command.args(["--keep", "1"]);
    let mut job = start_by(command, &example("p2p", "p2p/ring_loop")?, dir, Mpi::Mpich)?;
    job::run(stasis::checkpoint(&ckpt), dir, "first", LIMIT)?.expect_success("checkpoint")?;
    for _ in 0..ROUNDS {
        let mut taking = Job::start(stasis::checkpoint(&ckpt), dir, "checkpoint")?;
        stasis::verify(&ckpt, dir, LIMIT)?.expect_success("verify")?;
        taking.succeed(Instant::now() + LIMIT, dir)?;
    }
    job.kill()
}

/// Each message on standard error is one write.
fn one_write(dir: &Path) -> Result<()> {
    let flags = ["--local-dir", "local", "--partner", "--ckpt-dir", "ck"];
    let launch = [&["launch"], &flags[..], &["/bin/true"]].concat();
    for (words, said) in [
        (
            &["list", "nowhere"][..],
            "cannot look at the checkpoint directory nowhere",
        ),
        (
            &["launch", "./nowhere"],
            "cannot find the program ./nowhere",
        ),
        (&launch, "no copies are kept"),
    ] {
        // Every write to it is a datagram.
        let (ours, theirs) = UnixDatagram::pair()?;
        let mut command = stasis::command(words);
        command
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        command.stderr(OwnedFd::from(theirs));
        let status = command.status()?;
        // The command held the other end, too.
        drop(command);
        let mut writes = Vec::new();
        let mut buffer = [0; 4096];
        ours.set_nonblocking(true)?;
        while let Ok(length) = ours.recv(&mut buffer) {
            if length == 0 {
                break;
            }
            writes.push(String::from_utf8_lossy(&buffer[..length]).into_owned());
        }
        ensure!(
            writes.iter().any(|text| text.contains(said)),
            "{words:?} ended with {status} and said {writes:?}"
        );
        let whole = |text: &String| text.starts_with("stasis: ") && text.ends_with('\n');
        ensure!(writes.iter().all(whole), "a message in pieces: {writes:?}");
    }
    Ok(())
}

fn json(dir: &Path, words: &[&str], paths: &[&Path]) -> Result<Value> {
    let mut command = stasis::command(words);
    command.args(paths);
    stasis::json(command, dir, words[0], LIMIT)
}
