//! `cargo xtask bench recovery`: the time from a rank's death to the next MPI call of all ranks, by its phases.
//!
//! | phase | ends when |
//! |---|---|
//! | detect | `stasis run` knows of the death |
//! | fence | every process of the incarnation is dead |
//! | start | all ranks begin the restart: the launcher was started, or the standby world was let go |
//! | read | all ranks have verified their image |
//! | map | the memory and the files of all ranks are there; without a standby world this includes MPI_Init |
//! | go | all ranks have made their next MPI call |
//!
//! *Memory* is a cold recovery from a checkpoint in memory, whose images are written when the rank has died. *By hand*
//! is a job that is killed whole, and started again with `stasis restart` as soon as it is dead. *Native* is the start
//! of the program without Stasis, to its first call, with nothing to read.
//!
//! The other rows are of a program that writes its memory to files of its own, and reads them after a death: by
//! *Stages* and *Reinit* under `stasis run --stages`, and *CPR* without Stasis, where the program is started anew as
//! soon as mpirun has ended.

use super::{compile, median, prepare, RANKS};
use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{paths, signal, stasis};
use anyhow::{ensure, Context, Result};
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const LIMIT: Duration = Duration::from_secs(120);
const DAY: f64 = 86_400.0;

/// Options of `cargo xtask bench recovery`.
#[derive(clap::Args)]
pub struct Options {
    /// Recoveries of each kind
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// Memory of each rank in MiB
    #[arg(long, value_delimiter = ',', default_value = "64,512")]
    mib: Vec<usize>,
    /// Use target/stasis as it is
    #[arg(long)]
    no_setup: bool,
}

/// Names of the phases.
const PHASES: [&str; 6] = ["detect", "fence", "start", "read", "map", "go"];

/// Seconds of the phases of one recovery.
type Times = [f64; PHASES.len()];

/// Runs the measurement and prints it.
pub fn run(options: &Options) -> Result<()> {
    let dir = prepare(options.no_setup)?;
    println!("Milliseconds, medians of {} each.\n", options.rounds);
    println!("| library | MiB a rank | | {} | all |", PHASES.join(" | "));
    println!("|---|---|---|{}---|", "---|".repeat(PHASES.len()));
    for mpi in Mpi::ALL {
        let program = compile(mpi, "bench/beats.c", "beats", &[])?;
        for mib in &options.mib {
            let subject = Subject {
                mpi,
                ranks: RANKS,
                program: &program,
                mib: *mib,
                steps: None,
                dir: &dir,
            };
            for way in Way::ALL {
                print(&subject, way, &subject.recoveries(way, options.rounds)?);
            }
            let whole = |name: &str, time: f64| {
                println!("| {mpi} | {mib} | {name} |{} {time:.0} |", " |".repeat(6));
            };
            whole("by hand", subject.by_hand(options.rounds)?);
            whole("native", subject.native(options.rounds)?);
            let program = compile_reloads(mpi)?;
            let reloads = Subject {
                program: &program,
                steps: Some(Steps::BARRIERS),
                ..subject
            };
            whole("Stages", reloads.reloads("stages", options.rounds)?);
            whole("Reinit", reloads.reloads("reinit", options.rounds)?);
            whole("CPR", reloads.starts_anew(options.rounds)?);
        }
    }
    Ok(())
}

/// What `reloads.c` does in each step, and before the first.
#[derive(Clone, Copy)]
pub struct Steps {
    /// `barrier`, `ring`, or the bytes of a face.
    pub step: &'static str,
    /// Milliseconds of the initialisation.
    pub initialisation: &'static str,
}

impl Steps {
    const BARRIERS: Steps = Steps {
        step: "barrier",
        initialisation: "0",
    };
}

/// Milliseconds of one recovery of `reloads.c` with this memory a rank: by an image, which is read after the death
/// (`cold`) or is mapped before it (`hot`), or from files of its own (`stages`, `reinit`, `cpr`).
pub fn once(
    mpi: Mpi,
    (ranks, mib): (usize, usize),
    steps: Steps,
    how: &str,
    dir: &Path,
) -> Result<f64> {
    let program = compile_reloads(mpi)?;
    let subject = Subject {
        mpi,
        ranks,
        program: &program,
        mib,
        steps: Some(steps),
        dir,
    };
    match Way::ALL.into_iter().find(|way| way.name() == how) {
        Some(way) => {
            let phases = subject.recoveries(way, 1)?;
            Ok(phases.iter().flatten().sum::<f64>() * 1e3)
        }
        None if how == "cpr" => subject.starts_anew(1),
        None => subject.reloads(how, 1),
    }
}

fn compile_reloads(mpi: Mpi) -> Result<PathBuf> {
    let include = paths::root().join("upper-half/include");
    let include = format!("-I{}", include.display());
    compile(mpi, "bench/reloads.c", "reloads", &[&include])
}

/// How a job under `stasis run` is started again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Cold,
    Warm,
    Hot,
    Memory,
}

impl Way {
    const ALL: [Way; 4] = [Way::Cold, Way::Warm, Way::Hot, Way::Memory];

    fn name(self) -> &'static str {
        match self {
            Way::Cold => "cold",
            Way::Warm => "warm",
            Way::Hot => "hot",
            Way::Memory => "memory",
        }
    }

    fn standby(self) -> &'static str {
        match self {
            Way::Cold | Way::Memory => "no",
            Way::Warm | Way::Hot => self.name(),
        }
    }
}

fn print(subject: &Subject<'_>, way: Way, all: &[Times]) {
    let name = way.name();
    let of_phase = |phase: usize| median(all.iter().map(|times| times[phase] * 1e3).collect());
    let phases: Vec<String> = (0..PHASES.len())
        .map(|phase| format!("{:.0}", of_phase(phase)))
        .collect();
    let whole = median(
        all.iter()
            .map(|times| times.iter().sum::<f64>() * 1e3)
            .collect(),
    );
    println!(
        "| {} | {} | {name} | {} | {whole:.0} |",
        subject.mpi,
        subject.mib,
        phases.join(" | ")
    );
}

/// The program in one size over one library.
#[derive(Clone, Copy)]
struct Subject<'a> {
    mpi: Mpi,
    ranks: usize,
    program: &'a Path,
    mib: usize,
    /// Those of `reloads.c`; `beats.c` has none.
    steps: Option<Steps>,
    dir: &'a Path,
}

/// Argument with which `reloads.c` leaves the recovery to others.
const ANEW: &str = "cpr";

impl Subject<'_> {
    /// Appends the program, which goes on after a death in this way.
    fn append_to(&self, command: &mut Command, how: &str) {
        command.arg(self.program).arg(self.mib.to_string());
        if let Some(Steps {
            step,
            initialisation,
        }) = self.steps
        {
            command.arg(self.folder()).args([how, step, initialisation]);
        }
    }

    fn ckpt(&self) -> PathBuf {
        self.dir.join("ck")
    }

    fn launch(&self, how: &str) -> Result<Command> {
        let ckpt = self.ckpt();
        if ckpt.exists() {
            fs::remove_dir_all(&ckpt)?;
        }
        self.empty_folder()?;
        let mut launch = stasis::launch(self.mpi, self.ranks, &ckpt, self.dir);
        self.append_to(&mut launch, how);
        Ok(launch)
    }

    fn checkpoint(&self) -> Result<()> {
        let taken = job::run(
            stasis::checkpoint(&self.ckpt()),
            self.dir,
            "checkpoint",
            LIMIT,
        )?;
        taken.expect_success("stasis checkpoint").map(drop)
    }

    /// A job whose ranks are killed in turn, and which goes on from its newest checkpoint, on disk or in memory.
    fn recoveries(&self, way: Way, rounds: usize) -> Result<Vec<Times>> {
        let flags = ["--recover", "1000", "--standby", way.standby()];
        let mut command = stasis::run(&flags, &self.launch(ANEW)?);
        command.env("STASIS_LOG", "info");
        if way == Way::Memory {
            command.env("STASIS_MEMORY_INTERVAL", "1");
        }
        let mut job = Job::start(command, self.dir, "run")?;
        let all = self.kill_in_turn(&mut job, way, rounds);
        let all = job.explain(all, self.dir);
        job.kill()?;
        all
    }

    fn kill_in_turn(&self, job: &mut Job, way: Way, rounds: usize) -> Result<Vec<Times>> {
        self.first_beats(job, 0, u64::MAX)?;
        if way != Way::Memory {
            self.checkpoint()?;
        }
        let ready = match way {
            Way::Cold | Way::Memory => "the job runs and has a checkpoint",
            Way::Warm => "the standby world is asleep",
            Way::Hot => "the standby world has mapped the checkpoint",
        };
        // Length of what was said before the last death.
        let mut said = 0;
        let all = (0..rounds).map(|round| {
            if way == Way::Memory {
                stasis::until_held(job, &self.ckpt(), self.dir, deadline())?;
                return self.kill_one(job, round % self.ranks);
            }
            job.until_seen("the job was ready for a failure", deadline(), |job| {
                job::read_text(&job.stderr)[said..].contains(ready)
            })?;
            if way == Way::Cold && round > 0 {
                // Before the next start of a job without progress there is a pause.
                self.checkpoint()?;
            }
            said = job::read_text(&job.stderr).len();
            self.kill_one(job, round % self.ranks)
        });
        all.collect()
    }

    /// Kills a rank, and waits until all ranks have made their next call.
    fn kill_one(&self, job: &mut Job, rank: usize) -> Result<Times> {
        let status = stasis::status(&self.ckpt(), self.dir, LIMIT)?;
        let pid = status["ranks"][rank]["pid"].as_i64();
        let pid = pid.context("the status has no such rank")?;
        let killed = self.kill_later(job, pid as i32)?;
        let back = self.first_beats(job, killed.from, killed.beat)?.time;
        let said = job::read_text(&job.stderr);
        let logs = (0..self.ranks).map(|rank| {
            let log = self.ckpt().join(format!("log/rank-{rank}.log"));
            job::read_text(&log)
        });
        let logs: Vec<String> = logs.collect();
        let of_ranks = |words: &str| {
            let times = logs.iter().map(|log| time_of_last(log, words));
            times.collect::<Result<Vec<f64>>>().map(latest)
        };
        let ends = [
            time_of_last(&said, "the incarnation has failed")?,
            time_of_last(&said, "the incarnation is dead")?,
            of_ranks("restart begins")?,
            of_ranks("image read")?,
            of_ranks("threads resume next")?,
            back % DAY,
        ];
        let mut before = killed.time % DAY;
        Ok(ends.map(|end| {
            // What was done in advance takes no time; a day ends at midnight.
            let took = (end - before + 1.5 * DAY) % DAY - 0.5 * DAY;
            before = if took > 0.0 { end } else { before };
            took.max(0.0)
        }))
    }

    /// Seconds from the kill of all processes to the first calls after `stasis restart`.
    fn by_hand(&self, rounds: usize) -> Result<f64> {
        let mut job = Job::start(self.launch(ANEW)?, self.dir, "run")?;
        self.first_beats(&mut job, 0, u64::MAX)?;
        self.checkpoint()?;
        let mut all = Vec::new();
        for _ in 0..rounds {
            let killed = now()?;
            job.kill()?;
            let restart = stasis::restart(self.mpi, self.ranks, &self.ckpt(), self.dir);
            job = Job::start(restart, self.dir, "run")?;
            let back = self.first_beats(&mut job, 0, u64::MAX);
            all.push((job.explain(back, self.dir)?.time - killed) * 1e3);
        }
        job.kill()?;
        Ok(median(all))
    }

    /// Milliseconds from the death of a rank to the next calls of all, which have read the program's own checkpoints.
    fn reloads(&self, how: &str, rounds: usize) -> Result<f64> {
        // One death in each job: `stasis run` sees no progress between two, and would pause after the second.
        let all = (0..rounds).map(|round| {
            let command = stasis::run(&["--stages"], &self.launch(how)?);
            let mut job = Job::start(command, self.dir, "run")?;
            let took = self.reload(&mut job, round % self.ranks);
            let took = job.explain(took, self.dir);
            job.kill()?;
            took
        });
        all.collect::<Result<Vec<f64>>>().map(median)
    }

    fn reload(&self, job: &mut Job, rank: usize) -> Result<f64> {
        self.first_beats(job, 0, u64::MAX)?;
        // The process that stands in for the rank has a lower number.
        let its = job.processes_of(rank).pop();
        let killed = self.kill_later(job, its.context("there is no such rank")?)?;
        let back = self.first_beats(job, killed.from, killed.beat)?;
        Ok((back.time - killed.time) * 1e3)
    }

    /// Milliseconds from the death of a rank to the first calls of the program, which is started anew and reads its own
    /// checkpoints.
    fn starts_anew(&self, rounds: usize) -> Result<f64> {
        self.empty_folder()?;
        let start = || {
            let mut native = self.mpi.mpirun(self.ranks, self.dir);
            self.append_to(&mut native, ANEW);
            Job::start(native, self.dir, "anew")
        };
        let mut job = start()?;
        self.first_beats(&mut job, 0, u64::MAX)?;
        let mut all = Vec::new();
        for round in 0..rounds {
            let mut all_ranks = job.named(&["reloads"]).into_iter();
            let its = all_ranks.find(|pid| job::is_rank(*pid, round % self.ranks));
            let its = its.context("there is no such rank")?;
            let killed = self.kill_later(&mut job, its)?;
            job.wait(deadline())?.context("mpirun does not end")?;
            job = start()?;
            let back = self.first_beats(&mut job, 0, u64::MAX);
            all.push((job.explain(back, self.dir)?.time - killed.time) * 1e3);
        }
        job.kill()?;
        Ok(median(all))
    }

    /// Folder of the program's own checkpoints.
    fn folder(&self) -> PathBuf {
        self.dir.join("app")
    }

    fn empty_folder(&self) -> Result<()> {
        let folder = self.folder();
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir(&folder).with_context(|| folder.display().to_string())
    }

    /// Kills a rank's process once the job is further than its checkpoint, to which the beats then fall back.
    fn kill_later(&self, job: &mut Job, pid: i32) -> Result<Killed> {
        let from = fs::metadata(&job.stdout)?.len();
        let beat = self.first_beats(job, from, u64::MAX)?.beat;
        let from = fs::metadata(&job.stdout)?.len();
        let time = now()?;
        signal::kill_now(pid);
        Ok(Killed { time, from, beat })
    }

    /// Seconds from the start of the launcher to the first calls.
    fn native(&self, rounds: usize) -> Result<f64> {
        let mut all = Vec::new();
        for _ in 0..rounds {
            let mut native = self.mpi.mpirun(self.ranks, self.dir);
            self.append_to(&mut native, ANEW);
            let started = now()?;
            let mut job = Job::start(native, self.dir, "native")?;
            let begun = self.first_beats(&mut job, 0, u64::MAX);
            all.push((job.explain(begun, self.dir)?.time - started) * 1e3);
            job.kill()?;
        }
        Ok(median(all))
    }

    /// Waits until each rank has printed a beat below `limit` in its output from a byte on. Returns the last of these.
    fn first_beats(&self, job: &mut Job, from: u64, limit: u64) -> Result<Beat> {
        let mut found = vec![None; self.ranks];
        job.until_seen("all ranks made a call", deadline(), |job| {
            let text = text_from(&job.stdout, from).unwrap_or_default();
            for beat in text.lines().filter_map(Beat::parse) {
                let place = found.get_mut(beat.rank);
                if let Some(place) = place.filter(|place| place.is_none() && beat.beat < limit) {
                    *place = Some(beat);
                }
            }
            found.iter().all(Option::is_some)
        })?;
        let all = found.into_iter().flatten();
        let last = all.max_by(|one, other| one.time.total_cmp(&other.time));
        last.context("there are no ranks")
    }
}

/// A rank that was killed.
struct Killed {
    /// Seconds since 1970.
    time: f64,
    /// Bytes of the job's output before.
    from: u64,
    /// An operation before.
    beat: u64,
}

/// A line of the program.
#[derive(Clone, Copy)]
struct Beat {
    rank: usize,
    /// Number of the operation.
    beat: u64,
    /// Seconds since 1970.
    time: f64,
}

impl Beat {
    /// A line that was cut when its rank was killed is none.
    fn parse(line: &str) -> Option<Beat> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [rank, beat, time] = words[..] else {
            return None;
        };
        Some(Beat {
            rank: rank.parse().ok()?,
            beat: beat.parse().ok()?,
            time: time.parse().ok()?,
        })
    }
}

fn deadline() -> Instant {
    Instant::now() + LIMIT
}

/// Seconds since 1970.
fn now() -> Result<f64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64())
}

fn latest(times: Vec<f64>) -> f64 {
    times.into_iter().fold(0.0, f64::max)
}

fn text_from(file: &Path, from: u64) -> Result<String> {
    let mut file = fs::File::open(file)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The time of day, in seconds, of the last line of a log with these words.
fn time_of_last(log: &str, words: &str) -> Result<f64> {
    let line = log.lines().rfind(|line| line.contains(words));
    let line = line.with_context(|| format!("no line of the log has the words '{words}'"))?;
    let time = line.split(['T', 'Z']).nth(1).unwrap_or_default();
    let parts: Vec<f64> = time
        .split(':')
        .filter_map(|part| part.parse().ok())
        .collect();
    ensure!(parts.len() == 3, "a line of the log has no time: {line}");
    Ok(parts[0] * 3600.0 + parts[1] * 60.0 + parts[2])
}
