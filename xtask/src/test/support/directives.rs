//! Directives of an example: how it is run and cut.
//!
//! Lines `//#Key: value` (`!#` in Fortran, `##` in scripts) at the head of the file:
//!
//! - `Shows`: one sentence about what the example covers
//! - `Ranks`: number of ranks (2); jobs of 16 and more are for `--full` alone
//! - `Mpi`: libraries for whose ABI the program is built: `openmpi, mpich` (both), or one from PyPI (`--full` alone)
//! - `Lower`: `own`: only over the library that the program was built for, because its output depends on it
//! - `Modes`: `plain`, `continue`, `restart`, `migrate` (these four), `cycle`, `ten`, `stop`. Examples with `restart`
//!   that hold at their cut run in mode `recover`, too: all of them with `--full`, and some otherwise
//! - `Hangs`: `group-clocks` or `final-parking`: the published algorithm with which the checkpoint must hang (mode
//!   `hang`)
//! - `Published`: the published algorithm in every mode: `two-phase-commit`, which is slower and must do the same
//! - `Cut`: the place of the checkpoint, see [`Cut`]
//! - `Kill`: `later`: only when the count of `Cut: after` is one larger than when the checkpoint was committed;
//!   `ended`: not at all, it runs to its end first
//! - `Fan-out`: maximum number of children of a process in the tree of the control plane (64)
//! - `Matrix`: `full`: more combinations in the default run
//! - `Flags`: flags of the compiler
//! - `Preload`: the source, in `examples`, of a library that is preloaded into the program
//! - `Environment`: `NAME=VALUE ...`
//! - `Command`: a command instead of a compiled program; `{source}`, `{examples}` and `{bin}` (the folder of the
//!   library's own programs) are replaced
//! - `Sdist`: a source package of PyPI that the program needs, `NAME==VERSION`. `{sdist}` in `Command` is its unpacked
//!   folder, and `{sdist}/mpich` its build for MPICH (`--full` alone)
//! - `Package`: the Debian package of the program, if `setup --minimal` does not install it; one that only
//!   `setup --full` installs makes the case one of `--full`
//! - `Compare`: output that must agree with the native run: `stdout` (default), `none` (without a native run), or a
//!   list of `bytes of FILE`, `numbers of FILE`, `lines of FILE with TEXT` (of `stdout`, too)
//! - `Timeout`: seconds for one case (60)
//! - `Pending`: reason why the case cannot pass yet: it is skipped, and listed
//! - `Variant`: `name; key=value; ...`: run with `name` as the argument; may override `ranks`, `cut`, `modes`, `mpi`,
//!   `matrix`, `timeout`, `hangs`, `published`, `fan-out`, `compare`, `kill`

use crate::harness::mpi::Mpi;
use crate::harness::paths;
use crate::test::support::compare::{Compare, FilePart};
use anyhow::{anyhow, bail, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Place of the checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub enum Cut {
    /// No checkpoint: the program is only run.
    None,
    /// All ranks announce and stay where they are until the checkpoint is committed.
    Hold,
    /// All ranks announce and run on; the checkpoint is requested a random moment later.
    Loop,
    /// The checkpoint can only be taken if the ranks run on while it is pending.
    Pending,
    /// Outside of MPI_Init .. MPI_Finalize: taken, or refused with a reason.
    Outside,
    /// All ranks hold, and the checkpoint must be refused with a reason that contains this word.
    Refused(String),
    /// A random number of seconds after the start of the job or the announcement, for programs that run by the clock.
    Timed(f64, f64),
    /// When the program has written a random number of lines, from the first to the second, of a file (`stdout`: its
    /// standard output), for programs that compute as fast as they can.
    After(usize, usize, FilePart),
}

/// Moment of the kill after a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    /// At once.
    Now,
    /// When it has written more than at the checkpoint.
    Later,
    /// Not at all: it runs to its end.
    Ended,
}

/// Treatment of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Run to the end.
    Plain,
    /// Checkpoint, go on to the end.
    Continue,
    /// Checkpoint, kill -9, restart under the same MPI library.
    Restart,
    /// Checkpoint, kill -9, restart under the other MPI library.
    Migrate,
    /// Checkpoint, kill, restart under the other, checkpoint, kill, restart under the first.
    Cycle,
    /// The same ten times in a row.
    Ten,
    /// `stasis checkpoint --stop`, restart under the other.
    Stop,
    /// Under `stasis run`: checkpoint, then kill -9 of a random rank, twice; `stasis run` goes on.
    Recover,
    /// The same with a checkpoint in memory instead.
    RecoverMemory,
    /// Checkpoint with the algorithm as published, which must never be complete; kill.
    Hang,
}

impl Mode {
    const NAMED: [(&'static str, Mode); 10] = [
        ("plain", Mode::Plain),
        ("continue", Mode::Continue),
        ("restart", Mode::Restart),
        ("migrate", Mode::Migrate),
        ("cycle", Mode::Cycle),
        ("ten", Mode::Ten),
        ("stop", Mode::Stop),
        ("recover", Mode::Recover),
        ("recover-memory", Mode::RecoverMemory),
        ("hang", Mode::Hang),
    ];

    /// The name in directives and case names.
    pub fn name(self) -> &'static str {
        Mode::NAMED
            .iter()
            .find(|(_, mode)| *mode == self)
            .map_or("?", |(name, _)| name)
    }
}

/// One program in one variant.
#[derive(Clone, Debug)]
pub struct Example {
    /// `folder/stem` or `folder/stem.variant`.
    pub name: String,
    /// The source file.
    pub source: PathBuf,
    /// Argument for the program.
    pub variant: Option<String>,
    pub ranks: usize,
    pub fronts: Vec<Mpi>,
    /// Whether it only runs over the library that it was built for.
    pub own: bool,
    pub modes: Vec<Mode>,
    pub cut: Cut,
    pub kill: Kill,
    pub full: bool,
    pub flags: Vec<String>,
    /// Source of a library in LD_PRELOAD of the start and of restarts.
    pub preload: Option<PathBuf>,
    pub environment: Vec<(String, String)>,
    pub command: Option<String>,
    /// Source package of PyPI that it needs.
    pub sdist: Option<String>,
    /// Debian package with the program.
    pub package: Option<String>,
    pub compare: Compare,
    pub timeout: Duration,
    pub pending: Option<String>,
    /// Published algorithms in mode [`Mode::Hang`].
    pub hangs: Option<String>,
    /// Published algorithms in all other modes.
    pub published: Option<String>,
    /// Fan-out of the control plane's tree; the default if absent.
    pub fan_out: Option<u32>,
    /// Values of `--reduce` of the start and of restarts; none without a directive.
    pub reduce: [Option<&'static str>; 2],
}

impl Example {
    /// Published algorithms in a mode.
    pub fn published_in(&self, mode: Mode) -> Option<&str> {
        match mode {
            Mode::Hang => self.hangs.as_deref(),
            _ => self.published.as_deref(),
        }
    }
}

/// All examples in the given folders, in order of name.
pub fn collect(examples: &Path, folders: &[impl AsRef<str>]) -> Result<Vec<Example>> {
    let mut found = Vec::new();
    for folder in folders.iter().map(AsRef::as_ref) {
        let mut files: Vec<PathBuf> = fs::read_dir(examples.join(folder))?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<_>>()?;
        // Headers are shared by several examples of a folder.
        files.retain(|file| file.extension().is_none_or(|extension| extension != "h"));
        files.sort();
        for file in files {
            let read = parse(folder, &file).with_context(|| format!("in {}", file.display()))?;
            found.extend(read);
        }
    }
    Ok(found)
}

fn parse(folder: &str, file: &Path) -> Result<Vec<Example>> {
    let text = fs::read_to_string(file)?;
    let stem = file.file_stem().and_then(|s| s.to_str()).unwrap_or("?");
    let mut base = Example {
        name: format!("{folder}/{stem}"),
        source: file.to_owned(),
        variant: None,
        ranks: 2,
        fronts: Mpi::ALL.to_vec(),
        own: false,
        modes: vec![Mode::Plain, Mode::Continue, Mode::Restart, Mode::Migrate],
        cut: Cut::None,
        kill: Kill::Now,
        full: false,
        flags: Vec::new(),
        preload: None,
        environment: Vec::new(),
        command: None,
        sdist: None,
        package: None,
        compare: Compare::Stdout,
        timeout: Duration::from_secs(60),
        pending: None,
        hangs: None,
        published: None,
        fan_out: None,
        reduce: [None; 2],
    };
    let mut variants = Vec::new();
    for line in text.lines() {
        let Some(directive) = ["//#", "!#", "##"]
            .iter()
            .find_map(|lead| line.strip_prefix(lead))
        else {
            break;
        };
        let (key, value) = directive
            .split_once(':')
            .ok_or_else(|| anyhow!("'{line}' is no directive"))?;
        let value = value.trim();
        match key {
            "Shows" => {}
            "Flags" => base.flags = value.split_whitespace().map(str::to_owned).collect(),
            "Environment" => base.environment = environment(value)?,
            "Command" => base.command = Some(value.to_owned()),
            "Sdist" => base.sdist = Some(value.to_owned()),
            "Package" => base.package = Some(value.to_owned()),
            "Preload" => base.preload = Some(paths::examples().join(value)),
            "Pending" => base.pending = Some(value.to_owned()),
            "Variant" => variants.push(value.to_owned()),
            _ => base.set(&key.to_lowercase(), value)?,
        }
    }
    if variants.is_empty() {
        return Ok(vec![base]);
    }
    variants.iter().map(|line| base.variant(line)).collect()
}

impl Example {
    fn set(&mut self, key: &str, value: &str) -> Result<()> {
        match key {
            "ranks" => self.ranks = value.parse()?,
            "mpi" => self.fronts = list(value).map(Mpi::named).collect::<Result<_>>()?,
            "lower" => self.own = value == "own",
            "modes" => self.modes = list(value).map(mode).collect::<Result<_>>()?,
            "cut" => self.cut = cut(value)?,
            "hangs" => {
                self.hangs = Some(value.to_owned());
                self.modes.push(Mode::Hang);
            }
            "published" => self.published = Some(value.to_owned()),
            "fan-out" => self.fan_out = Some(value.parse()?),
            "compare" => self.compare = value.parse()?,
            "kill" => self.kill = kill(value)?,
            "matrix" => self.full = value == "full",
            "timeout" => self.timeout = Duration::from_secs(value.parse()?),
            _ => bail!("there is no directive '{key}'"),
        }
        Ok(())
    }

    fn variant(&self, line: &str) -> Result<Example> {
        let mut parts = line.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let mut example = self.clone();
        example.name = format!("{}.{name}", self.name);
        example.variant = Some(name.to_owned());
        for part in parts {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| anyhow!("'{part}' is not key=value"))?;
            example.set(key, value)?;
        }
        Ok(example)
    }
}

fn list(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim)
}

fn environment(value: &str) -> Result<Vec<(String, String)>> {
    let setting = |word: &str| {
        let (name, value) = word
            .split_once('=')
            .ok_or_else(|| anyhow!("'{word}' is not NAME=VALUE"))?;
        Ok((name.to_owned(), value.to_owned()))
    };
    value.split_whitespace().map(setting).collect()
}

fn kill(value: &str) -> Result<Kill> {
    Ok(match value {
        "later" => Kill::Later,
        "ended" => Kill::Ended,
        other => bail!("there is no way to kill '{other}'"),
    })
}

fn mode(name: &str) -> Result<Mode> {
    Mode::NAMED
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, mode)| *mode)
        .ok_or_else(|| anyhow!("there is no mode '{name}'"))
}

fn cut(value: &str) -> Result<Cut> {
    let mut words = value.split_whitespace();
    Ok(match words.next().unwrap_or_default() {
        "none" => Cut::None,
        "hold" => Cut::Hold,
        "loop" => Cut::Loop,
        "pending" => Cut::Pending,
        "outside" => Cut::Outside,
        "refused" => Cut::Refused(words.next().unwrap_or_default().to_owned()),
        "timed" => {
            let mut number = || words.next().map(str::parse::<f64>).transpose();
            Cut::Timed(number()?.unwrap_or(1.0), number()?.unwrap_or(20.0))
        }
        "after" => after(value).ok_or_else(|| {
            anyhow!("'{value}' is no 'after N to M numbers of FILE' (or 'lines of FILE with TEXT')")
        })?,
        other => bail!("there is no cut '{other}'"),
    })
}

/// Parses `after N to M numbers of FILE` and `after N to M lines of FILE with TEXT`.
fn after(value: &str) -> Option<Cut> {
    let (from, rest) = value.strip_prefix("after ")?.split_once(" to ")?;
    let (to, part) = rest.split_once(' ')?;
    Some(Cut::After(
        from.parse().ok()?,
        to.parse().ok()?,
        part.parse().ok()?,
    ))
}
