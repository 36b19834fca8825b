//! Runs of a program in several ways, in turn within each round, and what they print.

use super::super::{compile, mpirun};
use crate::build::setup;
use crate::harness::job::{self, Job};
use crate::harness::mpi::{cores, Mpi};
use crate::harness::{paths, stasis};
use anyhow::{anyhow, ensure, Context, Result};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);
/// Rounds of jobs with more ranks than processors, whose times tell little.
const OVERSUBSCRIBED_ROUNDS: usize = 2;

/// What a run printed, by name; and what is known of its checkpoints.
pub type Figures = BTreeMap<String, f64>;

/// A way to run a program.
#[derive(Clone, Copy)]
pub struct Way {
    pub name: &'static str,
    /// Flags of `stasis launch`; natively without.
    launch: Option<&'static [&'static str]>,
    environment: &'static [(&'static str, &'static str)],
    /// Flags of a run before it in the same folder, which is not measured.
    first: Option<&'static [&'static str]>,
    /// Checkpoints in equal distances, which the program asks for.
    checkpoints: usize,
    /// Whether images are written to the disk, or to memory.
    to_disk: bool,
    /// Figures from what `stasis profile` has of the run.
    profile: Option<fn(&serde_json::Value) -> Result<Figures>>,
}

/// Without Stasis.
pub const NATIVE: Way = Way {
    name: "native",
    launch: None,
    environment: &[],
    first: None,
    checkpoints: 0,
    to_disk: false,
    profile: None,
};
/// Under Stasis.
pub const STASIS: Way = Way::with_flags("Stasis", &[]);
/// Under Stasis, with a barrier before each blocking collective operation.
pub const TWO_PHASE: Way = Way {
    environment: &[("STASIS_PUBLISHED", "two-phase-commit")],
    ..Way::with_flags("two-phase commit", &[])
};

impl Way {
    /// Under Stasis with these flags. `DIR` in them is a folder of the run.
    pub const fn with_flags(name: &'static str, flags: &'static [&'static str]) -> Way {
        Way {
            name,
            launch: Some(flags),
            environment: &[],
            first: None,
            checkpoints: 0,
            to_disk: false,
            profile: None,
        }
    }

    /// The same behind a run with other flags, which is not measured.
    pub const fn behind(self, flags: &'static [&'static str]) -> Way {
        Way {
            first: Some(flags),
            ..self
        }
    }

    /// With all calls of the program counted.
    pub const fn profiled(read: fn(&serde_json::Value) -> Result<Figures>) -> Way {
        Way {
            profile: Some(read),
            ..Way::with_flags("profiled", &["--profile"])
        }
    }

    /// The same with checkpoints.
    pub const fn with_checkpoints(self, name: &'static str, n: usize, to_disk: bool) -> Way {
        Way {
            name,
            checkpoints: n,
            to_disk,
            ..self
        }
    }
}

/// A program and how its figures are read.
pub struct Program {
    /// Name of its runs: two programs of one name are one.
    pub name: String,
    pub mpi: Mpi,
    pub ranks: usize,
    pub words: Vec<String>,
    pub environment: &'static [(&'static str, &'static str)],
    /// Debian's package with it.
    pub package: Option<&'static str>,
    /// Left out of a quick run.
    pub is_slow: bool,
    /// A program without asks for checkpoints itself, for whose number and for a file at which it ends it has two more
    /// arguments.
    pub progress: Option<Progress>,
    /// Figures from what it printed, and from the folder in which it ran.
    pub read: fn(&str, &Path) -> Result<Figures>,
}

/// How far a program is.
#[derive(Clone, Copy)]
pub struct Progress {
    /// Steps in what it has said on its standard error.
    pub steps: fn(&str) -> usize,
    /// Steps of the whole run.
    pub all: usize,
}

impl Program {
    /// A source in `examples/papers`.
    pub fn own(mpi: Mpi, ranks: usize, source: &str, arguments: &[&str]) -> Result<Program> {
        let binary = compile(mpi, &format!("papers/{source}.c"), source, &[])?;
        let mut words = vec![binary.to_string_lossy().into_owned()];
        words.extend(arguments.iter().map(|word| (*word).to_owned()));
        Ok(Program {
            name: format!("{source}-{}-{mpi}-{ranks}", arguments.join("-")),
            mpi,
            ranks,
            words,
            environment: &[],
            package: None,
            is_slow: false,
            progress: None,
            read: |printed, _| Ok(pairs(printed)),
        })
    }
}

/// Steps of the programs of `patterns.c`, which then take more than a second.
const STEPS: [(&str, usize); 8] = [
    ("lu", 2000),
    ("ep", 2000),
    ("bt", 1000),
    ("sp", 1800),
    ("comd", 1000),
    ("sw4", 500),
    ("lulesh", 500),
    ("poisson", 1000),
];

/// A program with the communication of one of the papers'.
pub fn pattern(lab: &Lab, name: &str, ranks: usize) -> Result<Program> {
    let steps = STEPS.iter().find(|(known, _)| *known == name);
    let (_, steps) = steps.with_context(|| format!("no pattern {name}"))?;
    let steps = lab.sized(*steps, steps / 20).to_string();
    Program::own(lab.mpi(), ranks, "patterns", &[name, &steps])
}

/// Lines of a name and a number.
fn pairs(printed: &str) -> Figures {
    let pair = |line: &str| {
        let (name, figure) = line.split_once(' ')?;
        Some((name.to_owned(), figure.trim().parse().ok()?))
    };
    printed.lines().filter_map(pair).collect()
}

/// Figures of all rounds, by way.
pub struct Rounds {
    all: ByWay,
    pub ranks: usize,
}

/// Figures of each round by the name of the way.
type ByWay = BTreeMap<&'static str, Vec<Figures>>;

impl Rounds {
    /// The names of its figures.
    pub fn names(&self, way: &str) -> Vec<&str> {
        let first = self.all.get(way).and_then(|rounds| rounds.first());
        let names = first.into_iter().flat_map(Figures::keys);
        names.map(String::as_str).collect()
    }

    /// A figure in each round.
    pub fn of(&self, way: &str, figure: &str) -> Result<Vec<f64>> {
        let rounds = self.all.get(way).with_context(|| format!("no run {way}"))?;
        let figures: Option<_> = rounds
            .iter()
            .map(|figures| figures.get(figure).copied())
            .collect();
        figures.with_context(|| format!("{way}: it printed no {figure}"))
    }
}

/// Where and how much is measured.
pub struct Lab {
    pub quick: bool,
    pub rounds: usize,
    pub dir: PathBuf,
    done: RefCell<BTreeMap<String, Rc<Rounds>>>,
}

impl Lab {
    pub fn new(quick: bool, rounds: usize, dir: &Path) -> Lab {
        Lab {
            quick,
            rounds,
            dir: dir.to_owned(),
            done: RefCell::default(),
        }
    }

    /// The library that is measured, where one is enough.
    pub fn mpi(&self) -> Mpi {
        match self.quick {
            // Its launcher is faster.
            true => Mpi::Mpich,
            false => Mpi::OpenMpi,
        }
    }

    /// The one for a run of a figure, and the other for a quick run.
    pub fn sized<T>(&self, whole: T, quick: T) -> T {
        match self.quick {
            true => quick,
            false => whole,
        }
    }

    /// Ranks of a program that ran with `theirs` in the paper: as many as there are processors, and 2 at least.
    pub fn ranks(&self, theirs: usize) -> usize {
        self.sized(theirs.min(cores()).max(2), 2)
    }

    /// Numbers of ranks of a figure that shows how something grows.
    pub fn scales(&self) -> &'static [usize] {
        match self.ranks(16) {
            _ if self.quick => &[2],
            16 => &[2, 8, 16],
            _ => &[2, 8],
        }
    }

    /// Runs the program in all ways, in turn within each round. What was run once is not run again.
    pub fn compare(&self, program: &Program, ways: &[Way]) -> Result<Rc<Rounds>> {
        not_here(self, program.package, program.is_slow)?;
        let names: Vec<&'static str> = ways.iter().map(|way| way.name).collect();
        let key = format!("{}: {}", program.name, names.join(", "));
        self.remembered(key, program.ranks, || {
            let rounds = match program.ranks > cores() {
                true => self.rounds.min(OVERSUBSCRIBED_ROUNDS),
                false => self.rounds,
            };
            let all = in_turn(rounds, &names, |name| {
                let way = ways.iter().find(|way| way.name == name);
                self.run(program, *way.context("a way of these")?)
            })?;
            let mut sums = all.values().flatten().filter_map(|f| f.get("checksum"));
            let first = sums.next();
            let is_same = sums.all(|sum| Some(sum) == first);
            ensure!(is_same, "{}: the results differ", program.name);
            Ok(all)
        })
    }

    /// What was measured under this name, or measures it.
    pub fn remembered(
        &self,
        name: String,
        ranks: usize,
        measure: impl FnOnce() -> Result<ByWay>,
    ) -> Result<Rc<Rounds>> {
        if let Some(done) = self.done.borrow().get(&name) {
            return Ok(Rc::clone(done));
        }
        let begun = Instant::now();
        let all = measure().with_context(|| name.clone())?;
        if !self.quick {
            eprintln!("{name}: {:.1} s", begun.elapsed().as_secs_f64());
        }
        let rounds = Rc::new(Rounds { all, ranks });
        self.done.borrow_mut().insert(name, Rc::clone(&rounds));
        Ok(rounds)
    }

    /// Figures of all ways, in turn within each round.
    pub fn in_turn(
        &self,
        ways: &[&'static str],
        run: impl FnMut(&'static str) -> Result<Figures>,
    ) -> Result<ByWay> {
        in_turn(self.rounds, ways, run)
    }

    fn run(&self, program: &Program, way: Way) -> Result<Figures> {
        let dir = self.dir.join("run");
        for folder in [&dir, &paths::for_images(&dir)] {
            if folder.exists() {
                fs::remove_dir_all(folder)?;
            }
        }
        fs::create_dir_all(&dir)?;
        let ckpt = match way.to_disk {
            true => dir.join("ck"),
            false => paths::for_images(&dir),
        };
        if let Some(flags) = way.first {
            let first = command_of(program, way, Some(flags), &dir, &ckpt);
            job::run(first, &dir, "first", LIMIT)?.expect_success(&program.name)?;
            if ckpt.exists() {
                fs::remove_dir_all(&ckpt)?;
            }
        }
        let command = command_of(program, way, way.launch, &dir, &ckpt);
        let figures = figures_of(program, way, command, &dir, &ckpt);
        if ckpt.exists() {
            fs::remove_dir_all(&ckpt)?;
        }
        figures
    }
}

/// The program, under Stasis where there are flags.
fn command_of(
    program: &Program,
    way: Way,
    flags: Option<&[&str]>,
    dir: &Path,
    ckpt: &Path,
) -> Command {
    let mut command = launcher(program, dir);
    command.envs(program.environment.iter().copied());
    command.envs(way.environment.iter().copied());
    if let Some(flags) = flags {
        command.arg(paths::stasis()).args(["launch", "--ckpt-dir"]);
        command.arg(ckpt);
        let dir = dir.to_string_lossy();
        command.args(flags.iter().map(|flag| flag.replace("DIR", &dir)));
    }
    command.args(&program.words);
    command
}

fn figures_of(
    program: &Program,
    way: Way,
    command: Command,
    dir: &Path,
    ckpt: &Path,
) -> Result<Figures> {
    if way.checkpoints == 0 {
        let run = job::run(command, dir, "run", LIMIT)?.expect_success(&program.name)?;
        let mut figures = (program.read)(&run.stdout, dir)?;
        if let Some(read) = way.profile {
            let mut profile = stasis::command(["profile"]);
            profile.arg(ckpt);
            let profile = stasis::json(profile, dir, "profile", LIMIT)?;
            figures.extend(read(&profile)?);
        }
        return Ok(figures);
    }
    let (printed, events) = with_checkpoints(program, command, dir, ckpt, way.checkpoints)?;
    let mut figures = (program.read)(&printed, dir)?;
    figures.extend(phases(&events)?);
    Ok(figures)
}

/// Figures of all ways, in turn within each round.
pub fn in_turn(
    rounds: usize,
    ways: &[&'static str],
    mut run: impl FnMut(&'static str) -> Result<Figures>,
) -> Result<ByWay> {
    let mut all = ByWay::new();
    for round in 0..rounds {
        // Another one is the first in each round.
        let (late, early) = ways.split_at(round % ways.len());
        for way in early.iter().chain(late) {
            let figures = run(way).with_context(|| (*way).to_owned())?;
            all.entry(way).or_default().push(figures);
        }
    }
    Ok(all)
}

/// Fails with the reason if a program is missing or left out.
pub fn not_here(lab: &Lab, package: Option<&str>, is_slow: bool) -> Result<()> {
    let why = match lab.quick && is_slow {
        true => Some("a quick run leaves it out".to_owned()),
        false => setup::missing(package),
    };
    why.map_or(Ok(()), |why| Err(anyhow!(Missing(why))))
}

/// A program that this machine does not have, or that is left out.
#[derive(Debug)]
pub struct Missing(pub String);

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Missing {}

/// As a user calls it, or with ranks that are free to share processors.
fn launcher(program: &Program, dir: &Path) -> Command {
    match program.ranks > cores() {
        true => {
            let mut command = program.mpi.mpirun(program.ranks, dir);
            command.current_dir(dir);
            command
        }
        false => mpirun(program.mpi, program.ranks, dir),
    }
}

/// Runs a job with checkpoints in equal distances. Returns what it has printed, and their events.
fn with_checkpoints(
    program: &Program,
    mut command: Command,
    dir: &Path,
    ckpt: &Path,
    checkpoints: usize,
) -> Result<(String, Vec<serde_json::Value>)> {
    let (begun, end) = (Instant::now(), dir.join("end"));
    if program.progress.is_none() {
        command.arg(checkpoints.to_string()).arg(&end);
    }
    let mut job = Job::start(command, dir, "run")?;
    let taken = match program.progress {
        None => stasis::until_noted(&mut job, ckpt, "checkpoint", checkpoints, begun + LIMIT),
        Some(Progress { steps, all }) => (1..=checkpoints).try_for_each(|n| {
            job.until_seen("its next checkpoint", begun + LIMIT, |job| {
                steps(&job::read_text(&job.stderr)) >= n * all / (checkpoints + 1)
            })?;
            stasis::take_checkpoint(ckpt, dir, "checkpoint", LIMIT)
        }),
    };
    job.explain(taken, dir)?;
    fs::write(end, "")?;
    job.succeed(begun + LIMIT, dir)?;
    let history = job::read_text(&ckpt.join("events.jsonl"));
    let events = history
        .lines()
        .map(serde_json::from_str::<serde_json::Value>);
    let events: Vec<_> = events.collect::<Result<_, _>>()?;
    let events = events.into_iter().filter(|e| e["event"] == "checkpoint");
    Ok((job::read_text(&job.stdout), events.collect()))
}

/// Means of the phases of checkpoints, and the bytes of the largest set: the later ones may be increments.
fn phases(events: &[serde_json::Value]) -> Result<Figures> {
    let mean = |of: &dyn Fn(&serde_json::Value) -> Option<f64>| {
        let all: Option<Vec<f64>> = events.iter().map(of).collect();
        let all = all.context("an event without times")?;
        Ok::<f64, anyhow::Error>(all.iter().sum::<f64>() / all.len() as f64)
    };
    let mut figures = Figures::new();
    for name in ["approach", "pause", "total"] {
        let of = |event: &serde_json::Value| event[format!("{name}_seconds")].as_f64();
        figures.insert(name.into(), mean(&of)?);
    }
    for name in ["drain", "copy", "save"] {
        let of = |event: &serde_json::Value| event["slowest"][name][0]["seconds"].as_f64();
        figures.insert(name.into(), mean(&of)?);
    }
    let bytes = events.iter().filter_map(|event| event["bytes"].as_f64());
    figures.insert("bytes".into(), bytes.fold(0.0, f64::max));
    Ok(figures)
}
