//! `stasis explain`: what it says of planted deadlocks, before and after a restart under each library, and that a job
//! which is asked all the time goes on as without it.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::browser;
use crate::test::support::held_job::{bring_back, reach_cut_of};
use crate::test::support::helper_programs;
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use serde_json::{json, Value};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const RANKS: usize = 4;
/// Number of answers in a row. Each must be right.
const ANSWERS: usize = 10;

/// A planted deadlock, and what must be said of it: parts of the answer in JSON.
struct Planted {
    kind: &'static str,
    verdict: fn() -> Value,
    /// For some ranks, parts of the only call.
    calls: fn() -> Vec<(usize, Value)>,
}

const PLANTED: [Planted; 7] = [
    Planted {
        kind: "receives",
        verdict: || json!({ "ranks": [0, 1, 2, 3], "chain": [0, 1], "is_cycle": true }),
        calls: || {
            let waits = |from: u32| {
                json!({
                    "kind": "message",
                    "from": from,
                    "tag": 5,
                    "comm": "MPI_COMM_WORLD",
                    "room_bytes": 400,
                })
            };
            vec![
                (
                    0,
                    json!({ "function": "MPI_Recv", "waits_for": [waits(1)] }),
                ),
                (
                    1,
                    json!({ "function": "MPI_Recv", "waits_for": [waits(0)] }),
                ),
                (2, late("MPI_Barrier", "MPI_COMM_WORLD", &[0, 1])),
            ]
        },
    },
    Planted {
        kind: "wildcard",
        verdict: || json!({ "ranks": [0, 1, 2, 3], "is_cycle": true }),
        calls: || {
            let waits = json!({ "kind": "message", "from": "any", "tag": "any", "comm": "workers", "room_bytes": 400 });
            vec![
                (0, json!({ "function": "MPI_Recv", "waits_for": [waits] })),
                (3, late("MPI_Barrier", "MPI_COMM_WORLD", &[0])),
            ]
        },
    },
    Planted {
        kind: "sends",
        verdict: || json!({ "ranks": [0, 1, 2, 3], "chain": [0, 1], "is_cycle": true }),
        calls: || {
            let waits = |to: u32, tag: u32, bytes: u32| {
                json!({
                    "kind": "receiver",
                    "to": to,
                    "tag": tag,
                    "bytes": bytes,
                    "comm": "MPI_COMM_WORLD",
                })
            };
            vec![
                (
                    0,
                    json!({ "function": "MPI_Ssend", "waits_for": [waits(1, 5, 400)] }),
                ),
                (
                    3,
                    json!({ "function": "MPI_Send", "waits_for": [waits(2, 6, 4 << 20)] }),
                ),
            ]
        },
    },
    Planted {
        kind: "member",
        verdict: || json!({ "ranks": [0, 1, 2, 3], "chain": [0, 3], "is_cycle": true }),
        calls: || {
            let waits = json!({ "kind": "message", "from": 0, "tag": 3 });
            vec![
                (1, late("MPI_Allreduce", "MPI_COMM_WORLD", &[3])),
                (3, json!({ "function": "MPI_Recv", "waits_for": [waits] })),
            ]
        },
    },
    Planted {
        kind: "orders",
        verdict: || json!({ "ranks": [0, 1, 2, 3], "chain": [0, 2], "is_cycle": true, "is_mismatch": false }),
        calls: || {
            vec![
                (0, late("MPI_Barrier", "first", &[2, 3])),
                (3, late("MPI_Barrier", "second", &[0, 1])),
            ]
        },
    },
    Planted {
        kind: "mismatch",
        verdict: || json!({ "ranks": [0, 1, 2, 3], "chain": [0, 3], "is_cycle": true, "is_mismatch": true }),
        calls: || {
            let other = |rank: u32, function: &str| json!({ "rank": rank, "function": function });
            let elsewhere = json!({ "kind": "members", "elsewhere": [other(3, "MPI_Barrier")] });
            vec![(
                1,
                json!({ "function": "MPI_Allreduce", "waits_for": [elsewhere] }),
            )]
        },
    },
    Planted {
        kind: "finalize",
        verdict: || json!({ "ranks": [0, 1, 2, 3], "chain": [0, 1], "is_cycle": true }),
        calls: || vec![(1, late("MPI_Finalize", "MPI_COMM_WORLD", &[0]))],
    },
];

/// A collective operation to which members have not come.
fn late(function: &str, comm: &str, ranks: &[u32]) -> Value {
    json!({ "function": function, "waits_for": [{ "kind": "members", "comm": comm, "late": ranks }] })
}

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = vec![];
    for mpi in Mpi::ALL {
        cases.extend(PLANTED.iter().map(|planted| {
            let name = format!("explain/{}:{mpi}", planted.kind);
            Case::new(name, move |_, dir| deadlock(dir, mpi, planted).into())
        }));
        let name = format!("explain/picture:{mpi}");
        cases.push(Case::new(name, move |_, dir| picture(dir, mpi).into()));
        let name = format!("explain/held_up:{mpi}");
        cases.push(Case::new(name, move |_, dir| held_up(dir, mpi).into()));
        let name = format!("explain/job_goes_on:{mpi}");
        cases.push(Case::new(name, move |_, dir| job_goes_on(dir, mpi).into()));
    }
    cases
}

fn deadline() -> Instant {
    Instant::now() + LIMIT
}

/// Starts a job, and waits until all its ranks are at their cut.
fn start(mut launch: Command, dir: &Path) -> Result<Job> {
    launch.env("STASIS_TEST_READY", dir.join("ready"));
    launch.env("STASIS_TEST_GO", dir.join("go"));
    let mut job = Job::start(launch, dir, "launch")?;
    let reached = reach_cut_of(RANKS, &mut job, dir);
    job.explain(reached, dir)?;
    Ok(job)
}

/// The deadlock is explained in the job that came into it, and after restarts under each library from a checkpoint
/// before it.
fn deadlock(dir: &Path, mpi: Mpi, planted: &'static Planted) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut job = start(launch(&ckpt, dir, mpi, planted)?, dir)?;
    job::run(stasis::checkpoint(&ckpt), dir, "checkpoint", LIMIT)?
        .expect_success("stasis checkpoint")?;
    fs::write(dir.join("go"), "")?;
    look(&mut job, &ckpt, dir, planted)?;
    for library in [mpi.other(), mpi] {
        let mut restart = stasis::restart(library, RANKS, &ckpt, dir);
        restart.env("STASIS_TEST_GO", dir.join("go"));
        bring_back(&mut job, restart, &ckpt, dir)?;
        look(&mut job, &ckpt, dir, planted)?;
    }
    job.kill()
}

/// The job with a planted deadlock.
fn launch(ckpt: &Path, dir: &Path, mpi: Mpi, planted: &Planted) -> Result<Command> {
    let program = helper_programs::planted(dir, &mpi.compiler("c"), "deadlocks.c", &[])?;
    let mut launch = stasis::launch(mpi, RANKS, ckpt, dir);
    launch.arg(program).arg(planted.kind);
    Ok(launch)
}

/// The picture of a deadlock: a node for each place, arrows between them in the colour of a deadlock, and the verdict.
/// A browser shows it.
fn picture(dir: &Path, mpi: Mpi) -> Result<()> {
    let planted = PLANTED.iter().find(|planted| planted.kind == "member");
    let planted = planted.context("no such deadlock is planted")?;
    let ckpt = dir.join("ck");
    let mut job = start(launch(&ckpt, dir, mpi, planted)?, dir)?;
    fs::write(dir.join("go"), "")?;
    look(&mut job, &ckpt, dir, planted)?;
    // No later answer knows less, however seldom a rank gets a processor.
    for _ in 0..ANSWERS {
        let answer = explain(&ckpt, dir);
        let answer = job.explain(answer, dir)?;
        ensure!(is_right(&answer, planted), "{answer:#}");
    }
    let file = dir.join("deadlock.svg");
    let mut explain = stasis::command(["explain", "--svg"]);
    explain.arg(&file).arg(&ckpt);
    let told = job::run(explain, dir, "svg", LIMIT)?.expect_success("stasis explain --svg")?;
    let svg = fs::read_to_string(&file)?;
    let parts = [
        ("<g>", 2),
        ("marker-end=\"url(#stuck)\"", 2),
        ("marker-end=\"url(#needs)\"", 0),
        (">ranks 0-2</text>", 1),
        (">MPI_Allreduce</text>", 1),
        (">rank 3</text>", 1),
        (">MPI_Recv</text>", 1),
    ];
    for (part, times) in parts {
        let found = svg.matches(part).count();
        ensure!(found == times, "{found} times {part}, not {times}:\n{svg}");
    }
    let verdict = told.stdout.lines();
    let verdict: Vec<&str> = verdict
        .skip_while(|line| !line.contains("deadlock"))
        .take(3)
        .collect();
    ensure!(verdict.len() == 3, "it tells no verdict: {}", told.stdout);
    let width = svg
        .split_once(" width=\"")
        .and_then(|(_, rest)| rest.split_once('"'));
    let width: usize = width.context("the picture has no width")?.0.parse()?;
    for line in verdict {
        let line = line.trim();
        ensure!(svg.contains(line), "the picture lacks: {line}\n{svg}");
        // Letters of 13 pixels are seven wide and more.
        let wide = 7 * line.len();
        ensure!(wide < width, "{width} pixels are too few for: {line}");
    }
    browser::shows(&file, dir, &[("node of a deadlock", [0xff, 0xee, 0xee])])?;
    job.kill()
}

/// Waits until the job is in its deadlock, and explained as it must be.
fn look(job: &mut Job, ckpt: &Path, dir: &Path, planted: &Planted) -> Result<()> {
    let mut told = None;
    let right = job.until("the deadlock is explained", deadline(), || {
        told = Some(explain(ckpt, dir));
        matches!(&told, Some(Ok(answer)) if is_right(answer, planted))
    });
    let told = told.context("the job was not asked")?;
    let right = right.with_context(|| match &told {
        Ok(answer) => format!("stasis explain told {answer:#}"),
        Err(why) => format!("stasis explain failed: {why:#}"),
    });
    job.explain(right, dir)
}

fn explain(ckpt: &Path, dir: &Path) -> Result<Value> {
    let mut command = stasis::command(["explain"]);
    command.arg(ckpt);
    stasis::json(command, dir, "explain", LIMIT)
}

fn is_right(answer: &Value, planted: &Planted) -> bool {
    let calls = (planted.calls)();
    let right = |(rank, wanted): &(usize, Value)| {
        let calls = &answer["ranks"][rank]["calls"];
        calls.as_array().is_some_and(|calls| calls.len() == 1) && holds(&calls[0], wanted)
    };
    let unasked = json!({ "rank": 1, "from": 0, "tag": 7, "bytes": 8, "comm": "MPI_COMM_WORLD", "not_received": 3 });
    let messages = &answer["unasked_messages"];
    let has_message = messages
        .as_array()
        .is_some_and(|messages| messages.iter().any(|message| holds(message, &unasked)));
    answer["verdict"]["kind"] == "deadlock"
        && holds(&answer["verdict"], &(planted.verdict)())
        && calls.iter().all(right)
        && has_message == (planted.kind == "receives")
}

/// Whether a value has all parts of another one.
fn holds(value: &Value, parts: &Value) -> bool {
    match (value, parts) {
        (Value::Object(value), Value::Object(parts)) => parts
            .iter()
            .all(|(name, part)| value.get(name).is_some_and(|value| holds(value, part))),
        (Value::Array(values), Value::Array(parts)) => {
            values.len() == parts.len()
                && values
                    .iter()
                    .zip(parts)
                    .all(|(value, part)| holds(value, part))
        }
        _ => value == parts,
    }
}

/// A job that is asked all the time ends with what it prints without Stasis.
fn job_goes_on(dir: &Path, mpi: Mpi) -> Result<()> {
    let program = helper_programs::planted(dir, &mpi.compiler("c"), "moving.c", &[])?;
    let mut native = mpi.mpirun(RANKS, dir);
    native.arg(&program);
    let native = job::run(native, dir, "native", LIMIT)?.expect_success("the native run")?;
    let ckpt = dir.join("ck");
    let mut launch = stasis::launch(mpi, RANKS, &ckpt, dir);
    launch.arg(program);
    let mut job = start(launch, dir)?;
    for _ in 0..4 {
        let answer = explain(&ckpt, dir);
        let answer = job.explain(answer, dir)?;
        ensure!(answer["verdict"]["kind"] != "deadlock", "{answer:#}");
    }
    fs::write(dir.join("go"), "")?;
    job.succeed(deadline(), dir)?;
    let output = job::read_text(&job.stdout);
    ensure!(
        output == native.stdout,
        "{output}\nnatively: {}",
        native.stdout
    );
    Ok(())
}

/// A rank that computes is named, with those that wait for it, and is no deadlock.
fn held_up(dir: &Path, mpi: Mpi) -> Result<()> {
    let program = helper_programs::compile(dir, &mpi.compiler("c"), "held_up.c", &[])?;
    let ckpt = dir.join("ck");
    let mut launch = stasis::launch(mpi, RANKS, &ckpt, dir);
    launch.arg(program);
    let mut job = start(launch, dir)?;
    let waits = json!({ "kind": "message", "from": 2, "tag": 4, "comm": "MPI_COMM_WORLD" });
    let wanted = json!({ "kind": "held_up", "by": [{ "rank": 2, "waiting": [0, 1, 3] }] });
    let calls = [
        (0, late("MPI_Barrier", "MPI_COMM_WORLD", &[2, 3])),
        (3, json!({ "function": "MPI_Recv", "waits_for": [waits] })),
    ];
    let is_told = |answer: &Value| {
        let right =
            |(rank, wanted): &(usize, Value)| holds(&answer["ranks"][rank]["calls"][0], wanted);
        holds(&answer["verdict"], &wanted) && calls.iter().all(right)
    };
    let mut told = None;
    let right = job.until("the others wait for rank 2", deadline(), || {
        told = Some(explain(&ckpt, dir));
        matches!(&told, Some(Ok(answer)) if is_told(answer))
    });
    let right = right.with_context(|| format!("stasis explain told {told:#?}"));
    job.explain(right, dir)?;
    let mut command = stasis::command(["explain"]);
    command.arg(&ckpt);
    let text = job::run(command, dir, "text", LIMIT)?.expect_success("stasis explain")?;
    let statement = "ranks 0-1, 3 wait for rank 2, which is in no call of MPI";
    ensure!(
        text.stdout.lines().any(|line| line.trim() == statement)
            && !text.stdout.contains("deadlock"),
        "{}",
        text.stdout
    );
    fs::write(dir.join("go"), "")?;
    job.succeed(deadline(), dir)
}
