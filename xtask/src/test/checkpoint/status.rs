//! `stasis status` of a running job, and of a job with a pending checkpoint.

use crate::docs::{self, json_page};
use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::held_job::{begin, example, reach_cut, start};
use crate::test::support::refusal::{refused, CHECKPOINT, DIRECTORY, NO_JOB};
use crate::test::support::NOBODY;
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use serde_json::Value;
use std::any::Any;
use std::fs::{self, Permissions};
use std::io;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// All cases of this file: in which call rank 0 of `p2p/blocked_in` is, by variant.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (variant, call) in [
        ("recv", "MPI_Recv"),
        ("probe", "MPI_Probe"),
        ("waitall", "MPI_Waitall"),
        ("barrier", "MPI_Barrier"),
        ("allreduce", "MPI_Allreduce"),
    ] {
        for mpi in Mpi::ALL {
            let name = format!("status/in-{variant}:{mpi}");
            cases.push(Case::new(name, move |_, dir| {
                in_call(dir, mpi, variant, call).into()
            }));
        }
    }
    for mpi in Mpi::ALL {
        let name = format!("status/through-relays:{mpi}");
        cases.push(Case::new(name, move |_, dir| relays(dir, mpi).into()));
        let name = format!("status/directory-renamed:{mpi}");
        cases.push(Case::new(name, move |_, dir| {
            directory_renamed(dir, mpi).into()
        }));
        let name = format!("status/jobs:{mpi}");
        cases.push(Case::new(name, move |_, dir| jobs(dir, mpi).into()));
        let name = format!("status/idle-connections:{mpi}");
        cases.push(Case::new(name, move |_, dir| {
            idle_connections(dir, mpi).into()
        }));
    }
    cases.push(Case::as_root(
        "status/another-user",
        "needs root to be another user",
        another_user,
    ));
    cases.push(Case::new("status/who-holds-it-up", |_, dir| {
        who_holds_it_up(dir).into()
    }));
    cases
}

/// Current call of a rank, and the time for which it has been observed.
fn doing(status: &Value, rank: usize) -> Result<(&str, f64)> {
    let rank = &status["ranks"][rank];
    let doing = rank["doing"].as_str().zip(rank["doing_seconds"].as_f64());
    doing.with_context(|| format!("status says of a rank: {rank}"))
}

/// A running job is listed for this machine and for the directory that holds its own; a killed one only there, with the
/// reason.
fn jobs(dir: &Path, mpi: Mpi) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut job = start(&example("p2p", "p2p/blocked_in.recv")?, dir, &ckpt, mpi)?;
    for directories in [&[][..], &[dir], &[ckpt.as_path()]] {
        let found = stasis::listed(directories, &ckpt, dir, LIMIT)?;
        let found = found.with_context(|| format!("{directories:?} do not have the job"))?;
        ensure!(
            found["size"] == 2 && found["stage"] == "idle" && found["why"].is_null(),
            "it is listed as {found}"
        );
    }
    job.kill()?;
    ensure!(
        stasis::listed(&[], &ckpt, dir, LIMIT)?.is_none(),
        "the killed job is listed"
    );
    let found =
        stasis::listed(&[dir], &ckpt, dir, LIMIT)?.context("the directory is not listed")?;
    let why = found["why"].as_str().unwrap_or_default();
    ensure!(why.contains("was probably killed"), "it says {found}");
    let mut asked = stasis::command(["status", "--json"]);
    asked.arg(&ckpt);
    let failed = job::run(asked, dir, "failed", LIMIT)?;
    let told: Value = serde_json::from_str(&failed.stdout)?;
    docs::check_printed(json_page::FAILURE, &told)?;
    ensure!(
        told["error"] == why && told["exit_code"] == NO_JOB,
        "the failure is {told}"
    );
    refused(&failed, NO_JOB, &[])
}

/// Rank 0 is blocked in a call, and rank 1 makes none.
fn in_call(dir: &Path, mpi: Mpi, variant: &str, call: &str) -> Result<()> {
    let ckpt = dir.join("ck");
    let blocked = example("p2p", &format!("p2p/blocked_in.{variant}"))?;
    let mut job = start(&blocked, dir, &ckpt, mpi)?;
    // Rank 0 has announced that it is about to make the call.
    let expected = format!("in {call}");
    let mut last = Value::Null;
    let come = job.until("status told of the call", Instant::now() + LIMIT, || {
        last = stasis::status(&ckpt, dir, LIMIT).unwrap_or_default();
        doing(&last, 0).is_ok_and(|(what, _)| what == expected)
    });
    job.explain(come, dir)
        .with_context(|| format!("status says: {last:#}"))?;
    let (before, then) = (last, stasis::status(&ckpt, dir, LIMIT)?);
    let since = |status: &Value| doing(status, 0).map(|(_, since)| since);
    ensure!(
        since(&then)? > since(&before)? && doing(&then, 1)?.0 == "computing",
        "status says: {before:#}, then: {then:#}"
    );
    job.kill()
}

/// Eight ranks in a tree of fan-out two: rank 0 has connections to itself and two others, and every rank reports.
fn relays(dir: &Path, mpi: Mpi) -> Result<()> {
    const RANKS: usize = 8;
    let ckpt = dir.join("ck");
    let ring = example("p2p", "p2p/ring.relays")?;
    let mut launch = stasis::launch(mpi, RANKS, &ckpt, dir);
    launch.env("STASIS_FAN_OUT", "2");
    let mut job = begin(launch, &ring, dir, mpi)?;
    let mut last = Value::Null;
    let come = job.until("every rank told", Instant::now() + LIMIT, || {
        last = stasis::status(&ckpt, dir, LIMIT).unwrap_or_default();
        (0..RANKS).all(|rank| doing(&last, rank).is_ok())
    });
    job.explain(come, dir)
        .with_context(|| format!("status says: {last:#}"))?;
    let socket = socket(&ckpt)?;
    let mut connected = Ok(0);
    // The coordinator may not have detected yet that the command has ended.
    job.until(
        "the ranks alone were connected",
        Instant::now() + LIMIT,
        || {
            connected = connections(&socket);
            !matches!(connected, Ok(4..))
        },
    )?;
    let connected = connected?;
    ensure!(connected == 3, "{connected} connections to the coordinator");
    job.kill()
}

/// Address of the coordinator of a job on this machine.
fn socket(ckpt: &Path) -> Result<PathBuf> {
    let job: Value = serde_json::from_str(&stasis::job_file(ckpt))?;
    let socket = job["socket"].as_str();
    Ok(socket.context("the job file names no socket")?.into())
}

/// Number of accepted connections of a socket on this machine.
fn connections(socket: &Path) -> Result<usize> {
    const CONNECTED: &str = "03";
    let socket = socket.to_string_lossy();
    let sockets = fs::read_to_string("/proc/net/unix")?;
    let to_it = |line: &&str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        matches!(fields[..], [_, _, _, _, _, CONNECTED, _, path] if path == socket)
    };
    Ok(sockets.lines().filter(to_it).count())
}

/// Silent connections do not block others.
fn idle_connections(dir: &Path, mpi: Mpi) -> Result<()> {
    let ckpt = dir.join("ck");
    let ring = example("p2p", "p2p/ring_loop")?;
    let mut job = begin(stasis::launch(mpi, 2, &ckpt, dir), &ring, dir, mpi)?;
    // Before the ranks are connected, or soon after.
    stasis::until_reached(&mut job, &ckpt, "", Instant::now() + LIMIT)?;
    let file: Value = serde_json::from_str(&stasis::job_file(&ckpt))?;
    let idle = || -> io::Result<Box<dyn Any>> {
        Ok(match (file["socket"].as_str(), file["port"].as_u64()) {
            (Some(socket), _) => Box::new(UnixStream::connect(socket)?),
            (None, port) => Box::new(TcpStream::connect(("127.0.0.1", port.unwrap_or(0) as u16))?),
        })
    };
    let idle: Vec<_> = (0..200).map(|_| idle()).collect::<io::Result<_>>()?;
    reach_cut(&mut job, dir)?;
    for _ in 0..3 {
        let status = stasis::status(&ckpt, dir, LIMIT)?;
        ensure!(
            status["ranks"][1]["state"] == "running",
            "status says: {status:#}"
        );
    }
    let asked = job::run(stasis::checkpoint(&ckpt), dir, "checkpoint", LIMIT)?;
    asked.expect_success("stasis checkpoint")?;
    drop(idle);
    job.kill()
}

/// A directory that is renamed while the job runs is created again, and the next checkpoint is written there.
fn directory_renamed(dir: &Path, mpi: Mpi) -> Result<()> {
    let (ckpt, renamed) = (dir.join("ck"), dir.join("renamed"));
    let ring = example("p2p", "p2p/ring_loop")?;
    let mut job = start(&ring, dir, &ckpt, mpi)?;
    fs::rename(&ckpt, &renamed)?;
    // The command finds the job by the job file in the renamed directory.
    let asked = job::run(stasis::checkpoint(&renamed), dir, "checkpoint", LIMIT)?;
    let asked = asked.expect_success("stasis checkpoint");
    job.explain(asked, dir)?;
    stasis::verify(&ckpt, dir, LIMIT)?.expect_success("verify")?;
    stasis::status(&ckpt, dir, LIMIT)?;
    ensure!(
        !renamed.join("job.json").exists(),
        "the job is found in both"
    );
    fs::remove_dir_all(&ckpt)?;
    job.until(
        "the job could be reached again",
        Instant::now() + LIMIT,
        || !stasis::job_file(&ckpt).is_empty(),
    )?;
    let asked = job::run(stasis::checkpoint(&ckpt), dir, "again", LIMIT)?;
    asked.expect_success("the next checkpoint")?;
    job.until_said("was removed while the job runs", Instant::now() + LIMIT)?;
    job.kill()
}

/// Connects to a job, and prints what becomes of the connection.
const ASKS_ANYWAY: &str = "\
import socket, sys
job = socket.socket(socket.AF_UNIX)
job.connect(sys.argv[1])
print('answers' if job.recv(1) else 'closed')";

/// The job's socket rejects another user, even one with access to the files and the token.
fn another_user(dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let blocked = example("p2p", "p2p/blocked_in.recv")?;
    let mut job = start(&blocked, dir, &ckpt, Mpi::OpenMpi)?;
    let allow = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
    let socket = socket(&ckpt)?;
    let mode = fs::metadata(&socket)?.permissions().mode() & 0o777;
    ensure!(mode == 0o700, "the socket has mode {mode:o}");
    allow(&ckpt, 0o755)?;
    allow(&socket, 0o777)?;
    allow(&ckpt.join("job.json"), 0o644)?;
    let mut ask = stasis::command(["status"]);
    ask.arg(&ckpt).uid(NOBODY).gid(NOBODY).current_dir("/");
    let asked = job::run(ask, dir, "status", LIMIT)?;
    refused(&asked, DIRECTORY, &[&["belongs to root"]])?;
    // A program that does not care gets as far as the job, which hears nothing of it.
    let mut ask = Command::new("python3");
    ask.args(["-c", ASKS_ANYWAY]).arg(&socket);
    ask.uid(NOBODY).gid(NOBODY).current_dir("/");
    let asked = job::run(ask, dir, "anyway", LIMIT)?;
    ensure!(
        asked.status.success() && asked.stdout.trim() == "closed",
        "the job answered another user: {}{}",
        asked.stdout,
        asked.stderr
    );
    allow(&ckpt, 0o700)?;
    stasis::status(&ckpt, dir, LIMIT)?;
    job.kill()
}

/// A checkpoint that can only be taken when rank 1 has reached the operation in which rank 0 waits.
fn who_holds_it_up(dir: &Path) -> Result<()> {
    let ckpt = dir.join("ck");
    let blocked = example("p2p", "p2p/blocked_in.own_operation")?;
    let job = start(&blocked, dir, &ckpt, Mpi::OpenMpi)?;
    let mut impatient = stasis::checkpoint(&ckpt);
    impatient.args(["--patience", "2"]);
    let finished = job::run(impatient, dir, "impatient", LIMIT)?;
    let words: &[&[&str]] = &[
        &["no checkpoint was taken within 2 s; the job runs on"],
        &["the job's threads are here:"],
        &["main (blocked_in)"],
        &["the job's ranks wait like this:"],
        &["waits for rank 1, which is in no call of MPI"],
    ];
    refused(&finished, CHECKPOINT, words)?;
    let mut request = Job::start(stasis::checkpoint(&ckpt), dir, "checkpoint")?;
    let mut last = Value::Null;
    let told = request.until("status told", Instant::now() + LIMIT, || {
        last = stasis::status(&ckpt, dir, LIMIT).unwrap_or_default();
        let waiting = last["waiting"].as_str().unwrap_or_default();
        waiting.contains("rank 0 is in a collective") || waiting.contains("rank 1 computes")
    });
    job.explain(told, dir)
        .with_context(|| format!("status says: {last:#}"))?;
    fs::write(dir.join("go"), "")?;
    let answer = request.wait(Instant::now() + LIMIT)?;
    ensure!(
        answer.is_some_and(|status| status.success()),
        "the checkpoint: {}",
        job::read_text(&request.stderr)
    );
    Ok(())
}
