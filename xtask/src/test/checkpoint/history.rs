//! The history of a job (`events.jsonl`) and what is made of it: the report, metrics, lines in the log, the live view.

use crate::build::node_exporter;
use crate::docs::{self, json_page};
use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{signal, stasis};
use crate::test::bad_input::damaged_set::flip;
use crate::test::support::browser;
use crate::test::support::directives::Example;
use crate::test::support::held_job::{begin, bring_back, example, reach_cut, start_by, RANKS};
use crate::test::support::refusal::{refused, DIRECTORY, IMAGE};
use crate::test::{Case, Outcome};
use anyhow::{ensure, Context, Result};
use serde_json::Value;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const LIMIT: Duration = Duration::from_secs(60);

/// The cases.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in Mpi::ALL {
        let mut add = |name: &str, body: fn(&Path, Mpi) -> Result<()>| {
            let name = format!("history/{name}:{mpi}");
            cases.push(Case::new(name, move |_, dir| body(dir, mpi).into()));
        };
        add("report", report);
        add("metrics", metrics);
        add("gone", gone);
        add("refused", refused_restart);
        add("log", log);
        add("unwritable", unwritable);
        add("watch", watch);
        add("watch-to-the-end", watch_to_the_end);
        let name = format!("history/node-exporter:{mpi}");
        cases.push(Case::new(
            name,
            move |_, dir| match node_exporter::missing() {
                Some(why) => Outcome::Skipped(why),
                None => exported(dir, mpi).into(),
            },
        ));
    }
    cases
}

/// A program that waits at its cut for the file `go`, and then ends.
fn program() -> Result<Example> {
    example("probes", "probes/peers.p10_pending_irecv")
}

/// Starts a job that waits at its cut.
fn start(mut launch: Command, flags: &[&str], dir: &Path, mpi: Mpi) -> Result<Job> {
    launch.args(flags);
    start_by(launch, &program()?, dir, mpi)
}

fn take(ckpt: &Path, dir: &Path) -> Result<()> {
    stasis::take_checkpoint(ckpt, dir, "checkpoint", LIMIT)
}

/// The events so far, without those about lost connections, which depend on who dies first.
fn events(ckpt: &Path) -> Result<Vec<Value>> {
    let lines = fs::read_to_string(ckpt.join("events.jsonl"))?;
    let mut events = Vec::new();
    for line in lines.lines() {
        let event: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        docs::check_printed(json_page::HISTORY, &event)?;
        events.push(event);
    }
    events.retain(|event| event["event"] != "ranks_lost");
    Ok(events)
}

fn names(events: &[Value]) -> Vec<&str> {
    let names = events.iter().filter_map(|event| event["event"].as_str());
    names.collect()
}

/// A job of `stasis run` takes a checkpoint, loses a rank, goes on, takes another one and ends. Its page shows all that
/// in a browser, and the figures agree with the events.
fn report(dir: &Path, mpi: Mpi) -> Result<()> {
    let ckpt = dir.join("ck");
    let launch = stasis::launch(mpi, RANKS, &ckpt, dir);
    let mut job = begin(stasis::run(&[], &launch), &program()?, dir, mpi)?;
    reach_cut(&mut job, dir)?;
    take(&ckpt, dir)?;
    stasis::until_noted(&mut job, &ckpt, "checkpoint", 1, Instant::now() + LIMIT)?;
    let before = stasis::job_file(&ckpt);
    let killed = job.processes_of(1).last().copied();
    signal::kill_now(killed.context("rank 1 does not run")?);
    stasis::until_reached(&mut job, &ckpt, &before, Instant::now() + LIMIT)?;
    take(&ckpt, dir)?;
    fs::write(dir.join("go"), "")?;
    job.succeed(Instant::now() + LIMIT, dir)?;

    let events = events(&ckpt)?;
    let wanted = [
        "launch",
        "checkpoint",
        "failure",
        "restart",
        "checkpoint",
        "end",
    ];
    ensure!(names(&events) == wanted, "the events are {events:#?}");
    let [launch, first, failure, restart, ..] = &events[..] else {
        unreachable!();
    };
    ensure!(
        launch["ranks"] == RANKS && launch["run"] != restart["run"],
        "{launch} {restart}"
    );
    ensure!(
        first["asked_by"][0] == "command" && first["set"] == restart["from"],
        "{first} {restart}"
    );
    let cut = first["cut"].as_f64().zip(failure["time"].as_f64());
    let (cut, failed) = cut.context("no times")?;

    let listed = stasis::json(of("list", &ckpt), dir, "list", LIMIT)?;
    let of_manifest = &listed["checkpoints"][1];
    ensure!(
        of_manifest["pause_seconds"] == first["pause_seconds"]
            && of_manifest["total_seconds"].as_f64() > Some(0.0),
        "the manifest has {of_manifest}, the history {first}"
    );

    let told = stasis::json(of("report", &ckpt), dir, "report", LIMIT)?;
    let figures = &told["figures"];
    let lost = figures["lost_seconds"]
        .as_f64()
        .context("nothing is lost")?;
    ensure!(
        (lost - (failed - cut)).abs() < 0.002 && figures["restarts"] == 1,
        "lost from {cut} to {failed}, and the report says {told:#}"
    );
    // The colours of page.css.
    let marks = [
        ("run", [0x9e, 0xca, 0xe1]),
        ("checkpoint", [0x08, 0x51, 0x9c]),
        ("failure", [0xc6, 0x28, 0x28]),
        ("work at risk", [0xfd, 0xd0, 0xa2]),
    ];
    browser::shows(&ckpt.join("report.html"), dir, &marks)
}

fn of(word: &str, ckpt: &Path) -> Command {
    let mut command = stasis::command([word]);
    command.arg(ckpt);
    command
}

/// Counters of the metrics go on after a restart under the other library. The file is whole at any time.
fn metrics(dir: &Path, mpi: Mpi) -> Result<()> {
    let (ckpt, file) = (dir.join("ck"), dir.join("job.prom"));
    let path = file.display().to_string();
    let launch = stasis::launch(mpi, RANKS, &ckpt, dir);
    let mut job = start(launch, &["--metrics", &path], dir, mpi)?;
    take(&ckpt, dir)?;
    let value = |name: &str| {
        let text = job::read_text(&file);
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("{name}{{")));
        let value = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        value.filter(|_| text.ends_with("# EOF\n"))
    };
    let taken = "stasis_checkpoints_total";
    job.until("it is counted", Instant::now() + LIMIT, || {
        value(taken) == Some(1.0)
    })?;
    ensure!(
        value("stasis_up") == Some(1.0) && value("stasis_ranks") == Some(RANKS as f64),
        "the metrics are\n{}",
        job::read_text(&file)
    );
    let other = mpi.other();
    let mut restart = stasis::restart(other, RANKS, &ckpt, dir);
    restart.args(["--metrics", &path]);
    bring_back(&mut job, restart, &ckpt, dir)?;
    take(&ckpt, dir)?;
    job.until("it is counted", Instant::now() + LIMIT, || {
        value(taken) == Some(2.0)
    })?;
    ensure!(
        value("stasis_restarts_total") == Some(1.0)
            && value("stasis_checkpoint_last_size_bytes") > Some(0.0)
            && value("stasis_checkpoints_pause_seconds_total") > Some(0.0),
        "the metrics are\n{}",
        job::read_text(&file)
    );
    job.kill()
}

/// A job that is killed whole was gone when it is started again, in another allocation; one that `stasis stop` ends was
/// stopped, which its metrics say; and a program that ends without MPI_Finalize has its exit code in the history.
fn gone(dir: &Path, mpi: Mpi) -> Result<()> {
    let (ckpt, file) = (dir.join("ck"), dir.join("job.prom"));
    let path = file.display().to_string();
    let mut launch = stasis::launch(mpi, RANKS, &ckpt, dir);
    launch.env("SLURM_JOB_ID", "100");
    let mut job = start(launch, &["--metrics", &path], dir, mpi)?;
    take(&ckpt, dir)?;
    stasis::until_noted(&mut job, &ckpt, "checkpoint", 1, Instant::now() + LIMIT)?;
    let mut restart = stasis::restart(mpi.other(), RANKS, &ckpt, dir);
    restart.args(["--metrics", &path]);
    restart.env("SLURM_JOB_ID", "101");
    // Kills all ranks first.
    bring_back(&mut job, restart, &ckpt, dir)?;
    let stop = job::run(of("stop", &ckpt), dir, "stop", LIMIT)?;
    stop.expect_success("stasis stop")?;
    let noted = events(&ckpt)?;
    let wanted = ["launch", "checkpoint", "gone", "restart", "stopped"];
    ensure!(names(&noted) == wanted, "the events are {noted:#?}");
    let allocations = [&noted[0], &noted[3]].map(|start| start["allocation"].as_str());
    ensure!(
        allocations == [Some("100"), Some("101")],
        "the allocations are {allocations:?}"
    );
    let text = job::read_text(&file);
    let down = |line: &str| line.starts_with("stasis_up{") && line.ends_with(" 0.0");
    ensure!(
        text.lines().any(down) && text.contains("stasis_seen_timestamp_seconds{"),
        "the metrics are\n{text}"
    );
    stasis::json(of("report", &ckpt), dir, "report", LIMIT)?;
    let page = fs::read_to_string(ckpt.join("report.html"))?;
    for words in ["killed", ">100<", ">101<", "ended by stasis stop"] {
        ensure!(page.contains(words), "the page lacks {words}");
    }
    let odd = [("the second allocation", [0xc7, 0xb8, 0xe0])];
    browser::shows(&ckpt.join("report.html"), dir, &odd)?;

    let (ckpt, nowhere) = (dir.join("ended"), dir.join("nosuch/job.prom"));
    let nowhere = nowhere.display().to_string();
    let mut launch = stasis::launch(mpi, 1, &ckpt, dir);
    launch.args(["--metrics", &nowhere, "/bin/sh", "-c", "exit 3"]);
    let ended = job::run(launch, dir, "ended", LIMIT)?;
    ensure!(
        ended.stderr.contains(&format!("cannot write {nowhere}")),
        "it says {}",
        ended.stderr
    );
    let last = events(&ckpt)?.pop().context("no event")?;
    ensure!(
        last["event"] == "end" && last["exit_code"] == 3,
        "the last event is {last}"
    );
    Ok(())
}

/// node_exporter passes the metrics of a running job on.
fn exported(dir: &Path, mpi: Mpi) -> Result<()> {
    const TOLD: &str = "\"Listening on\" address=";
    let (ckpt, folder) = (dir.join("ck"), dir.join("metrics"));
    fs::create_dir(&folder)?;
    let launch = stasis::launch(mpi, RANKS, &ckpt, dir);
    let file = folder.join("job.prom").display().to_string();
    let mut job = start(launch, &["--metrics", &file], dir, mpi)?;
    take(&ckpt, dir)?;
    stasis::until_noted(&mut job, &ckpt, "checkpoint", 1, Instant::now() + LIMIT)?;
    let mut exporter = Command::new(node_exporter::path());
    exporter.args(["--collector.disable-defaults", "--collector.textfile"]);
    exporter.arg(format!(
        "--collector.textfile.directory={}",
        folder.display()
    ));
    exporter.arg("--web.listen-address=127.0.0.1:0");
    let mut exporter = Job::start(exporter, dir, "exporter")?;
    exporter.until_said(TOLD, Instant::now() + LIMIT)?;
    let said = job::read_text(&exporter.stderr);
    let (_, address) = said.split_once(TOLD).context("no address")?;
    let address = address.lines().next().unwrap_or_default();
    let mut connection = TcpStream::connect(address).with_context(|| address.to_owned())?;
    connection.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut page = String::new();
    connection.read_to_string(&mut page)?;
    exporter.kill()?;
    job.kill()?;
    let has = |name: &str, value: &str| {
        let ends = format!(" {value}");
        let mut lines = page.lines();
        lines.any(|line| line.starts_with(name) && line.ends_with(&ends))
    };
    ensure!(
        has("node_textfile_scrape_error", "0")
            && has("stasis_up{", "1")
            && has("stasis_checkpoints_total{", "1"),
        "{page}"
    );
    Ok(())
}

/// A restart that is refused, by the launch of all ranks or by one of them, is in the history with its reason. It is no
/// sign of life of the run before, and the job goes on when the cause is gone.
fn refused_restart(dir: &Path, mpi: Mpi) -> Result<()> {
    let ckpt = dir.join("ck");
    let set = ckpt.join("ckpt-1");
    let launch = stasis::launch(mpi, RANKS, &ckpt, dir);
    let mut job = start(launch, &[], dir, mpi)?;
    take(&ckpt, dir)?;
    stasis::until_noted(&mut job, &ckpt, "checkpoint", 1, Instant::now() + LIMIT)?;
    job.kill()?;
    let killed = history_now();
    let few = job::run(stasis::restart(mpi, 1, &ckpt, dir), dir, "few", LIMIT)?;
    refused(&few, IMAGE, &[&["ranks"]])?;
    flip(&set, 0.5)?;
    let damaged = job::run(
        stasis::restart(mpi, RANKS, &set, dir),
        dir,
        "damaged",
        LIMIT,
    )?;
    refused(&damaged, IMAGE, &[&["rank-1.img"]])?;
    flip(&set, 0.5)?;
    // A directory without a history gets none.
    fs::create_dir(dir.join("empty"))?;
    let empty = stasis::restart(mpi, RANKS, &dir.join("empty"), dir);
    refused(&job::run(empty, dir, "empty", LIMIT)?, IMAGE, &[&["empty"]])?;
    ensure!(!dir.join("empty/events.jsonl").exists(), "it has a history");

    bring_back(
        &mut job,
        stasis::restart(mpi.other(), RANKS, &ckpt, dir),
        &ckpt,
        dir,
    )?;
    fs::write(dir.join("go"), "")?;
    job.succeed(Instant::now() + LIMIT, dir)?;
    let noted = events(&ckpt)?;
    let wanted = [
        "launch",
        "checkpoint",
        "restart_refused",
        "restart_refused",
        "gone",
        "restart",
        "end",
    ];
    ensure!(names(&noted) == wanted, "the events are {noted:#?}");
    let why = |at: usize| noted[at]["why"].as_str().unwrap_or_default();
    ensure!(
        noted[2]["rank"].is_null() && why(2).contains("was taken with 2 ranks"),
        "{}",
        noted[2]
    );
    ensure!(
        noted[3]["rank"] == 1 && why(3).contains("rank-1.img"),
        "{}",
        noted[3]
    );
    ensure!(
        noted[4]["time"].as_f64() < Some(killed),
        "the run was gone at {}, and killed before {killed}",
        noted[4]["time"]
    );
    stasis::json(of("report", &ckpt), dir, "report", LIMIT)?;
    let page = fs::read_to_string(ckpt.join("report.html"))?;
    ensure!(
        page.matches("A restart was refused: ").count() == 2,
        "the page does not tell of the refusals"
    );
    Ok(())
}

/// The present time in seconds since 1970.
fn history_now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

/// A committed checkpoint has a line with its time in the log, and none with --quiet.
fn log(dir: &Path, mpi: Mpi) -> Result<()> {
    for (name, flags) in [("told", &[][..]), ("quiet", &["-q"])] {
        let dir = dir.join(name);
        fs::create_dir(&dir)?;
        let ckpt = dir.join("ck");
        let launch = stasis::launch(mpi, RANKS, &ckpt, &dir);
        let mut job = start(launch, flags, &dir, mpi)?;
        take(&ckpt, &dir)?;
        // The launcher may pass the line on later, and has passed on all lines when it has ended.
        fs::write(dir.join("go"), "")?;
        job.succeed(Instant::now() + LIMIT, &dir)?;
        let said = job::read_text(&job.stderr);
        let lines: Vec<&str> = said
            .lines()
            .filter(|line| line.contains(" committed: "))
            .collect();
        let is_timed = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            words[0] == "stasis:"
                && words[1].len() == 25
                && words[1].contains('T')
                && words[2] == "ckpt-1"
        };
        match lines[..] {
            [line] => ensure!(flags.is_empty() && is_timed(line), "{flags:?}: {line}"),
            _ => ensure!(lines.is_empty() && !flags.is_empty(), "{flags:?}: {said}"),
        }
    }
    Ok(())
}

/// A history that cannot be written is told once, and harms no checkpoint. Without one there is no report.
fn unwritable(dir: &Path, mpi: Mpi) -> Result<()> {
    let ckpt = dir.join("ck");
    fs::create_dir_all(ckpt.join("events.jsonl"))?;
    let launch = stasis::launch(mpi, RANKS, &ckpt, dir);
    let mut job = start(launch, &[], dir, mpi)?;
    take(&ckpt, dir)?;
    take(&ckpt, dir)?;
    job.kill()?;
    let said = job::read_text(&job.stderr);
    let words = "events.jsonl: Is a directory (os error 21); the job runs on";
    ensure!(said.matches(words).count() == 1, "the job says {said}");
    fs::remove_dir(ckpt.join("events.jsonl"))?;
    let none = job::run(of("report", &ckpt), dir, "report", LIMIT)?;
    refused(&none, DIRECTORY, &[&["has no history"]])?;
    let none = job::run(of("report", &dir.join("nosuch")), dir, "elsewhere", LIMIT)?;
    refused(
        &none,
        DIRECTORY,
        &[&["nosuch", "No such file or directory"]],
    )
}

/// The live view ends when the job has ended, and says so. No line is too long for a terminal.
fn watch_to_the_end(dir: &Path, mpi: Mpi) -> Result<()> {
    let ended = dir.join("ended");
    let launch = stasis::launch(mpi, RANKS, &ended, dir);
    let mut job = start(launch, &[], dir, mpi)?;
    let mut command = stasis::command(["status", "--watch=0.1", "ended"]);
    command.current_dir(dir);
    let mut view = Job::start(command, dir, "watch-ended")?;
    let deadline = Instant::now() + LIMIT;
    view.until_seen("the state is shown", deadline, |view| {
        job::read_text(&view.stdout).contains("checkpoints committed: 0")
    })?;
    fs::write(dir.join("go"), "")?;
    job.succeed(deadline, dir)?;
    view.succeed(deadline, dir)?;
    let shown = job::read_text(&view.stdout);
    ensure!(
        shown.ends_with("the job in ended has ended\n"),
        "it ends with {:?}",
        shown.lines().last()
    );
    // Two columns for ages of three digits.
    let long = shown.lines().find(|line| {
        !line.contains("job ") && !line.contains("rank ") && line.chars().count() > 78
    });
    ensure!(long.is_none(), "a line is cut off: {long:?}");
    Ok(())
}

/// The live view shows the state again and again, and ends when the job was killed.
fn watch(dir: &Path, mpi: Mpi) -> Result<()> {
    let ckpt = dir.join("ck");
    let launch = stasis::launch(mpi, RANKS, &ckpt, dir);
    let mut job = start(launch, &[], dir, mpi)?;
    let mut command = stasis::command(["status", "--watch=0.1"]);
    command.arg(&ckpt);
    let mut view = Job::start(command, dir, "watch")?;
    let deadline = Instant::now() + LIMIT;
    let shows = |view: &Job, words: &str| job::read_text(&view.stdout).matches(words).count();
    view.until_seen("the state is shown twice", deadline, |view| {
        shows(view, "checkpoints committed: 0") > 1
    })?;
    take(&ckpt, dir)?;
    view.until_seen("the checkpoint is shown", deadline, |view| {
        shows(view, "last: ckpt-1") > 0
    })?;
    job.kill()?;
    view.succeed(deadline, dir)?;
    ensure!(
        shows(&view, "does not answer any more") == 1,
        "it does not say why it ends"
    );
    Ok(())
}
