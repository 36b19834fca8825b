//! `--profile`: the calls of a program and their bytes are known, and are counted exactly: plainly, with a checkpoint
//! in the middle, and over a restart, under each library and the other one.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::browser;
use crate::test::support::compile::command_line;
use crate::test::support::directives::Example;
use crate::test::support::held_job::{begin, bring_back, example, reach_cut, RANKS};
use crate::test::support::refusal::{refused, DIRECTORY};
use crate::test::Case;
use anyhow::{ensure, Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
/// Rounds of `profile/counted` before its cut.
const BEFORE: u64 = 6;
/// All of its rounds.
const ALL: u64 = 10;

/// The cases.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in Mpi::ALL {
        let mut add = |name: &str, body: fn(&Path, Mpi) -> Result<()>| {
            let name = format!("profile/counts/{name}:{mpi}");
            cases.push(Case::new(name, move |_, dir| body(dir, mpi).into()));
        };
        add("plain", plain);
        add("checkpoint", with_a_checkpoint);
        add("killed", |dir, mpi| over_a_restart(dir, mpi, mpi));
        add("migrated", |dir, mpi| over_a_restart(dir, mpi, mpi.other()));
        add("fortran", fortran);
        add("off", off);
        add("visible", visible);
        add("early", early);
    }
    let name = format!("profile/counts/repeated:{}", Mpi::Mpich);
    cases.push(Case::new(name, |_, dir| repeated(dir).into()));
    cases
}

fn counted() -> Result<Example> {
    example("profile", "profile/counted")
}

/// Starts a counted job.
fn launch(dir: &Path, mpi: Mpi, program: &Example, flags: &[&str]) -> Result<Job> {
    let mut launch = stasis::launch(mpi, RANKS, &dir.join("ck"), dir);
    launch.args(flags);
    begin(launch, program, dir, mpi)
}

/// Lets a job go on to its end. The result is what it says on standard error.
fn end(job: &mut Job, dir: &Path) -> Result<String> {
    fs::write(dir.join("go"), "")?;
    job.succeed(Instant::now() + LIMIT, dir)?;
    Ok(job::read_text(&job.stderr))
}

fn of(word: &str, dir: &Path) -> Command {
    let mut command = stasis::command([word]);
    command.arg(dir.join("ck"));
    command
}

fn profile(dir: &Path) -> Result<Value> {
    stasis::json(of("profile", dir), dir, "profile", LIMIT)
}

/// Calls and bytes by name.
fn table(rows: &Value, name: &str) -> Result<BTreeMap<String, (u64, u64)>> {
    let rows = rows.as_array().context("no rows")?.iter();
    let row = |row: &Value| {
        let number = |member: &str| row[member].as_u64();
        let numbers = number("calls").zip(number("bytes"))?;
        Some((row[name].as_str()?.to_owned(), numbers))
    };
    rows.map(|each| row(each).context("no numbers")).collect()
}

/// The calls of a rank of `profile/counted` at its beginning, in this number of rounds, and at its end.
fn expected(rank: u64, rounds: u64, ended: bool) -> BTreeMap<String, (u64, u64)> {
    let of_rank = |numbers: [u64; 2]| numbers[rank as usize];
    let each = [
        ("MPI_Send", 1, of_rank([4 * 8, 1500])),
        ("MPI_Recv", 4, of_rank([3000, 4 * 8]) + 3 * 7),
        ("MPI_Sendrecv", 1, 100),
        ("MPI_Send_init", 1, 0),
        ("MPI_Start", 3, 3 * 7),
        ("MPI_Wait", 4, 0),
        ("MPI_Request_free", 1, 0),
        ("MPI_Allgather", 1, 2 * 4),
        ("MPI_Alltoallv", 1, of_rank([3, 4]) * 4),
        ("MPI_Ireduce", 1, 2 * 4),
        ("MPI_Win_fence", 2, 0),
        ("MPI_Put", 1, 4),
        ("MPI_Comm_create_keyval", 1, 0),
        ("MPI_Comm_set_attr", 1, 0),
        ("MPI_Comm_delete_attr", 1, 0),
        ("MPI_Comm_free_keyval", 1, 0),
    ];
    let first = [
        "MPI_Init",
        "MPI_Comm_rank",
        "MPI_Initialized",
        "MPI_Comm_dup",
        "MPI_Comm_set_name",
        "MPI_Type_vector",
        "MPI_Type_commit",
        "MPI_Win_create",
    ];
    let last = [
        ("MPI_Win_free", 0),
        ("MPI_Type_free", 0),
        ("MPI_Comm_free", 0),
        ("MPI_Reduce", 8),
        ("MPI_Finalize", 0),
    ];
    let each = each.map(|(name, calls, bytes)| (name, (rounds * calls, rounds * bytes)));
    let first = first.map(|name| (name, (1, 0)));
    let last = last.map(|(name, bytes)| (name, (1, bytes)));
    let last = last.into_iter().filter(|_| ended);
    let all = each.into_iter().chain(first).chain(last);
    // Each round has one in a callback.
    let sizes = ("MPI_Comm_size", (1 + rounds, 0));
    all.chain([sizes])
        .map(|(name, numbers)| (name.to_owned(), numbers))
        .collect()
}

/// Compares the calls of each rank.
fn check(profile: &Value, rounds: u64, ended: bool) -> Result<()> {
    let ranks = profile["ranks"].as_array().context("no ranks")?;
    ensure!(
        ranks.len() == RANKS && profile["size"] == RANKS,
        "{profile:#}"
    );
    for (number, rank) in (0..).zip(ranks) {
        let counts = table(&rank["functions"], "function")?;
        let wanted = expected(number, rounds, ended);
        ensure!(
            counts == wanted,
            "rank {number} has {counts:#?} instead of {wanted:#?}"
        );
        // Numbers of JSON are exact up to 2^53 for most readers.
        let ids = rank["communicators"]
            .as_array()
            .context("no communicators")?;
        ensure!(ids.iter().all(|comm| comm["id"].is_string()), "{ids:#?}");
        ensure!(rank["rank"] == number && rank["threads"] == 1, "{rank:#}");
        let positive = |member: &str| rank[member].as_f64() > Some(0.0);
        ensure!(
            positive("elapsed_seconds") && positive("mpi_seconds"),
            "{rank:#}"
        );
    }
    Ok(())
}

/// Compares the sums at the end: sizes, communicators, datatypes.
fn check_sums(profile: &Value) -> Result<()> {
    let classes = profile["message_sizes"].as_array().context("no sizes")?;
    let class = |class: &Value| Some((class["from_bytes"].as_u64()?, class["calls"].as_u64()?));
    let sizes: Vec<_> = classes.iter().filter_map(class).collect();
    // Starts; gathers, exchanges of rank 0 and reductions; exchanges of rank 1; sends.
    let wanted = [(4, 60), (8, 52), (16, 10), (32, 10), (64, 20), (1024, 10)];
    ensure!(sizes == wanted, "the sizes are {sizes:?}");

    let datatypes = table(&profile["datatypes"], "datatype")?;
    let wanted = [
        ("MPI_CHAR", (160, 47_840)),
        ("MPI_INT", (80, 680)),
        ("MPI_Type_vector", (20, 640)),
        ("MPI_UINT64_T", (2, 16)),
    ];
    let wanted: BTreeMap<_, _> = wanted
        .map(|(name, numbers)| (name.to_owned(), numbers))
        .into();
    ensure!(datatypes == wanted, "the datatypes are {datatypes:?}");

    let comms = profile["communicators"]
        .as_array()
        .context("no communicators")?;
    let grid = comms.iter().find(|comm| comm["name"] == "grid");
    let grid = grid.context("the communicator's name is unknown")?;
    ensure!(
        grid["bytes"] == 48_920 && grid["processes"] == RANKS,
        "{grid}"
    );
    Ok(())
}

/// The messages of reduced operations are not counted, although profilers see them.
fn visible(dir: &Path, mpi: Mpi) -> Result<()> {
    let flags = ["--profile", "--reduce", "all", "--reduce-visible"];
    let mut job = launch(dir, mpi, &counted()?, &flags)?;
    end(&mut job, dir)?;
    let profile = profile(dir)?;
    check(&profile, ALL, true)?;
    check_sums(&profile)
}

/// The sum is printed at the end, shown as a table, as JSON, and as a page in a browser.
fn plain(dir: &Path, mpi: Mpi) -> Result<()> {
    let mut job = launch(dir, mpi, &counted()?, &["--profile"])?;
    let said = end(&mut job, dir)?;
    let profile = profile(dir)?;
    check(&profile, ALL, true)?;
    check_sums(&profile)?;
    // Which functions are shown depends on their time.
    let words = [
        "profile of 2 ranks, ",
        "1.0 KiB to 2.0 KiB ",
        "grid ",
        "MPI_UINT64_T ",
    ];
    for words in words {
        ensure!(said.matches(words).count() == 1, "{words} in: {said}");
    }
    let shown = job::run(of("profile", dir), dir, "shown", LIMIT)?;
    let shown = shown.expect_success("stasis profile")?.stdout;
    ensure!(said.contains(&shown), "{shown} instead of {said}");

    let page = dir.join("page.html");
    let mut write = of("profile", dir);
    write.arg("--html").arg(&page);
    job::run(write, dir, "page", LIMIT)?.expect_success("stasis profile --html")?;
    browser::shows(&page, dir, &[("bar", [0x08, 0x51, 0x9c])])
}

/// A checkpoint changes no number. While the job runs, its profile and its status have them.
fn with_a_checkpoint(dir: &Path, mpi: Mpi) -> Result<()> {
    let mut job = launch(dir, mpi, &counted()?, &["--profile"])?;
    reach_cut(&mut job, dir)?;
    check(&profile(dir)?, BEFORE, false)?;
    let mut status = of("status", dir);
    status.arg("--profile");
    let status = stasis::json(status, dir, "status", LIMIT)?;
    check(&status["profile"], BEFORE, false)?;
    stasis::take_checkpoint(&dir.join("ck"), dir, "checkpoint", LIMIT)?;
    end(&mut job, dir)?;
    let profile = profile(dir)?;
    check(&profile, ALL, true)?;
    check_sums(&profile)
}

/// A restarted job goes on counting, under any library.
fn over_a_restart(dir: &Path, mpi: Mpi, lower: Mpi) -> Result<()> {
    let ckpt = dir.join("ck");
    let mut job = launch(dir, mpi, &counted()?, &["--profile"])?;
    reach_cut(&mut job, dir)?;
    stasis::take_checkpoint(&ckpt, dir, "checkpoint", LIMIT)?;
    let restart = stasis::restart(lower, RANKS, &ckpt, dir);
    bring_back(&mut job, restart, &ckpt, dir)?;
    let said = end(&mut job, dir)?;
    ensure!(said.contains("profile of 2 ranks, "), "{said}");
    let profile = profile(dir)?;
    check(&profile, ALL, true)?;
    check_sums(&profile)
}

/// The calls of a program that ends without MPI_Finalize are known, and rank 0 says where. If a signal kills it, the
/// command says that nobody has written them.
fn early(dir: &Path, mpi: Mpi) -> Result<()> {
    let program = example("tools", "tools/early_end")?;
    for way in ["exit", "abort", "signal"] {
        let dir = dir.join(way);
        fs::create_dir(&dir)?;
        let mut launch = stasis::launch(mpi, RANKS, &dir.join("ck"), &dir);
        launch.arg("--profile");
        launch.args(command_line(&program, Some(mpi))?).arg(way);
        let said = job::run(launch, &dir, "launch", LIMIT)?.stderr;
        if way == "signal" {
            let none = job::run(of("profile", &dir), &dir, "none", LIMIT)?;
            refused(&none, DIRECTORY, &[&["no rank has written"]])?;
            continue;
        }
        let profile = profile(&dir)?;
        let counts = table(&profile["ranks"][0]["functions"], "function")?;
        ensure!(
            profile["ranks"][0]["rank"] == 0 && counts.get("MPI_Barrier") == Some(&(10, 0)),
            "after {way} the profile is {profile:#}"
        );
        ensure!(
            said.contains("without MPI_Finalize") && said.contains("stasis profile "),
            "after {way} it says {said}"
        );
    }
    Ok(())
}

/// Each start of a persistent collective or a partitioned message counts with its bytes, over a restart, too. Debian's
/// Open MPI has neither.
fn repeated(dir: &Path) -> Result<()> {
    let (mpi, ckpt) = (Mpi::Mpich, dir.join("ck"));
    let program = example("profile", "profile/repeated")?;
    let mut job = launch(dir, mpi, &program, &["--profile"])?;
    reach_cut(&mut job, dir)?;
    stasis::take_checkpoint(&ckpt, dir, "checkpoint", LIMIT)?;
    let restart = stasis::restart(mpi.other(), RANKS, &ckpt, dir);
    bring_back(&mut job, restart, &ckpt, dir)?;
    end(&mut job, dir)?;
    let profile = profile(dir)?;
    for (rank, side) in ["MPI_Psend_init", "MPI_Precv_init"].into_iter().enumerate() {
        let counts = table(&profile["ranks"][rank]["functions"], "function")?;
        let wanted = [
            ("MPI_Bcast_c", (1, 2 * 4)),
            ("MPI_Bcast_init", (1, 0)),
            ("MPI_Barrier_init", (1, 0)),
            (side, (1, 0)),
            ("MPI_Startall", (ALL, ALL * 3 * 4)),
            ("MPI_Start", (ALL, ALL * 4 * 4)),
        ];
        for (name, numbers) in wanted {
            let is = counts.get(name);
            ensure!(is == Some(&numbers), "{name} of rank {rank}: {is:?}");
        }
    }
    let datatypes = table(&profile["datatypes"], "datatype")?;
    let ints = datatypes.get("MPI_INT");
    let moved = 2 * (ALL * (3 * 4 + 4 * 4) + 2 * 4);
    ensure!(ints == Some(&(4 * ALL + 2, moved)), "MPI_INT: {ints:?}");
    let comms = profile["communicators"].as_array();
    let world = comms.and_then(|comms| comms.iter().find(|comm| comm["name"] == "MPI_COMM_WORLD"));
    let world = world.context("the communicator's name is unknown")?;
    // The sum of the results, at the end, is of 8 bytes.
    ensure!(world["bytes"] == moved + 2 * 8, "{world}");
    Ok(())
}

/// A Fortran program's calls count once, though they call C functions.
fn fortran(dir: &Path, mpi: Mpi) -> Result<()> {
    let program = example("profile", "profile/fortran")?;
    let mut job = launch(dir, mpi, &program, &["--profile"])?;
    end(&mut job, dir)?;
    let profile = profile(dir)?;
    let counts = table(&profile["ranks"][1]["functions"], "function")?;
    let wanted = [
        ("MPI_Allreduce", (10, 40)),
        ("MPI_Barrier", (10, 0)),
        ("MPI_Comm_rank", (1, 0)),
        ("MPI_Comm_size", (1, 0)),
        ("MPI_Finalize", (1, 0)),
        ("MPI_Init", (1, 0)),
    ];
    let wanted: BTreeMap<_, _> = wanted
        .map(|(name, numbers)| (name.to_owned(), numbers))
        .into();
    ensure!(counts == wanted, "rank 1 has {counts:?}");
    Ok(())
}

/// Without the flag nothing is counted, printed or written.
fn off(dir: &Path, mpi: Mpi) -> Result<()> {
    let mut job = launch(dir, mpi, &counted()?, &[])?;
    reach_cut(&mut job, dir)?;
    let mut status = of("status", dir);
    status.arg("--profile");
    let status = stasis::json(status, dir, "status", LIMIT)?;
    ensure!(status["profile"].is_null(), "{status:#}");
    stasis::take_checkpoint(&dir.join("ck"), dir, "checkpoint", LIMIT)?;
    let said = end(&mut job, dir)?;
    ensure!(!said.contains("profile of"), "{said}");
    ensure!(!dir.join("ck/profile").exists(), "there is a profile");
    let none = job::run(of("profile", dir), dir, "none", LIMIT)?;
    refused(
        &none,
        DIRECTORY,
        &[&["started without `stasis launch --profile`"]],
    )?;
    let mut elsewhere = stasis::command(["profile"]);
    elsewhere.arg(dir.join("nosuch"));
    let none = job::run(elsewhere, dir, "elsewhere", LIMIT)?;
    refused(
        &none,
        DIRECTORY,
        &[&["nosuch", "No such file or directory"]],
    )
}
