//! Wrappers of programs. The launcher may have started not the MPI program but a wrapper, such as `time` or a script
//! without `exec`. The child that executes an MPI program is followed: it becomes the rank that is saved. It has its
//! own lower half, which inherits the launcher's environment from the wrapper. The wrapper's process stops the services
//! that it has started (in rank 0 the coordinator) and continues as the child's parent.
//!
//! Only one child at a time is followed, because the launcher has one rank here. A child that executes others and has
//! an MPI program among its arguments (`timeout`, `numactl`, another script) is followed as a wrapper of its own. A
//! program that loads an MPI library while it runs (an interpreter) is not recognised. Programs that a natively
//! executed child starts are not recognised either.

use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::OnceLock;

use ::restart::Opened;
use anyhow::{ensure, Context, Result};
use ckpt_image::{kind, Section};
use linked::search::{self, Libraries};
use loader::Child;

use super::job_state;
use crate::agent;
use crate::console;

/// Command line of the wrapper that started this program, if the program was followed.
static OF_THIS: OnceLock<String> = OnceLock::new();
/// Process id of the wrapper; 0 if there is none, as after a restart.
static RUNS_HERE: AtomicU32 = AtomicU32::new(0);
/// Set in a wrapper whose child became the rank.
static GAVE_UP: AtomicBool = AtomicBool::new(false);

/// The child that is the rank.
struct Followed {
    pid: u32,
    program: PathBuf,
}

/// Stores the wrapper's command, and begins to follow this process's children.
pub fn start() -> Result<()> {
    let pid = std::process::id();
    if let Ok(words) = std::env::var(loader::WRAPPER) {
        let (wrapper, command) = words.split_once(' ').unwrap_or_default();
        RUNS_HERE.store(wrapper.parse().unwrap_or(0), Ordering::Relaxed);
        OF_THIS.get_or_init(|| command.to_owned());
        let variable = format!("{}={words}", loader::WRAPPER);
        loader::set_started_by(CString::new(variable).unwrap_or_default());
        let program = job_state::command()
            .first()
            .map_or(Path::new(""), Path::new);
        if launcher::is_first() && linked::with_mpi(program, &Libraries::here()) {
            tell(format_args!(
                "{} (process {pid}) is what checkpoints save from now on. `{command}`, which has started it, \
                 runs on natively and is not saved: after a restart the program ends without its further lines",
                program.display()
            ));
        }
    }
    let own = format!(
        "{}={pid} {}",
        loader::WRAPPER,
        job_state::command().join(" ")
    );
    // No argument has a NUL byte in it.
    loader::set_wrapper(CString::new(own).unwrap_or_default());
    let mut followed: Option<Followed> = None;
    let mut known = Known::default();
    loader::follow_children(move |child| decide(child, &mut followed, &mut known))
        .context("children of this process that are MPI programs cannot be followed")
}

/// Results of examining programs, by path.
#[derive(Default)]
struct Known {
    with_mpi: HashMap<PathBuf, bool>,
    executes_others: HashMap<PathBuf, bool>,
}

impl Known {
    fn is_with_mpi(&mut self, program: &Path, child: &Child) -> bool {
        let libraries = || Libraries::of(&child.library_path);
        let found = self.with_mpi.entry(program.to_owned());
        *found.or_insert_with(|| linked::with_mpi(program, &libraries()))
    }

    /// Whether the program executes other programs and has an MPI program among its arguments, possibly inside a shell
    /// command line.
    fn starts_one_with_mpi(&mut self, program: &Path, child: &Child) -> bool {
        let found = self.executes_others.entry(program.to_owned());
        if !*found.or_insert_with(|| linked::executes_others(program)) {
            return false;
        }
        let arguments = child.arguments.iter().map(|argument| argument.as_bytes());
        let between = |byte: &u8| byte.is_ascii_whitespace() || b"\"';&|()".contains(byte);
        let words = arguments.flat_map(|argument| argument.split(between));
        let names = words.filter(|word| !word.is_empty()).map(OsStr::from_bytes);
        let files = names.take(MOST_WORDS).filter_map(|name| {
            let path = match name.as_bytes().contains(&b'/') {
                true => Some(child.directory.join(name)),
                false => search::in_path(name, &child.search_path, &child.directory),
            };
            path?.canonicalize().ok()
        });
        let files: Vec<PathBuf> = files.collect();
        files.iter().any(|file| self.is_with_mpi(file, child))
    }
}

/// Maximal number of words of a command line that are examined.
const MOST_WORDS: usize = 64;

/// Whether a child becomes the rank.
fn decide(child: &Child, followed: &mut Option<Followed>, known: &mut Known) -> bool {
    // An MPI program is the rank itself, whatever it starts.
    if contract::gate().upper.table_hash.load(Ordering::Relaxed) != 0 {
        return false;
    }
    let Ok(program) = child.program.canonicalize() else {
        return false;
    };
    let with_mpi = known.is_with_mpi(&program, child);
    if !with_mpi && !known.starts_one_with_mpi(&program, child) {
        return false;
    }
    let pid = child.pid;
    if let Some(first) = followed.as_ref().filter(|first| runs(first.pid)) {
        tell(format_args!(
            "{} (process {pid}) is a second MPI program that `{}` has started: it runs natively and \
             is in no checkpoint. They save {} (process {}) alone",
            program.display(),
            job_state::command().join(" "),
            first.program.display(),
            first.pid
        ));
        return false;
    }
    GAVE_UP.store(true, Ordering::Relaxed);
    agent::finished(None);
    *followed = Some(Followed { pid, program });
    true
}

/// Whether a process runs. A zombie does not.
fn runs(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    !state.is_empty() && !state.starts_with(['Z', 'X'])
}

/// Notes about other running MPI programs that the wrapper has started, for a checkpoint. Programs that have loaded an
/// MPI library at run time are included.
pub fn others() -> Vec<String> {
    let own = std::process::id();
    // A child that the wrapper has forked and that has executed nothing is a copy of a lower half.
    let lower = fs::read_link("/proc/self/exe").ok();
    let mut found = Vec::new();
    let mut todo = match RUNS_HERE.load(Ordering::Relaxed) {
        0 => Vec::new(),
        wrapper => children(wrapper),
    };
    while let Some(pid) = todo.pop().filter(|_| found.len() < MOST) {
        if pid == own {
            continue;
        }
        todo.extend(children(pid));
        if fs::read_link(format!("/proc/{pid}/exe")).ok() == lower {
            continue;
        }
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let file = |line: &str| linked::mpi::is_mpi(line.rsplit('/').next().unwrap_or_default());
        if maps.lines().any(file) {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            found.push(format!(
                "process {pid} ({}), another MPI program that the wrapper has started, is not saved",
                name.trim_end()
            ));
        }
    }
    found
}

/// Maximal number of such programs that are listed.
const MOST: usize = 16;

fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let texts = threads.into_iter().flatten().flatten();
    let texts = texts.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let all: Vec<u32> = texts
        .flat_map(|text| {
            let pids = text.split_whitespace().filter_map(|pid| pid.parse().ok());
            pids.collect::<Vec<_>>()
        })
        .collect();
    all
}

fn tell(text: impl std::fmt::Display) {
    console::say(launcher::rank().unwrap_or(0), text);
}

/// Checks that no child of this process became the rank before this process called MPI_Init. Otherwise no checkpoint
/// contains this process.
pub fn is_none() -> Result<()> {
    ensure!(
        !GAVE_UP.load(Ordering::Relaxed),
        "the job cannot be checkpointed: this program has started an MPI program before it called MPI_Init \
         itself, and that one was taken for the rank. Call MPI_Init (or import mpi4py) before"
    );
    Ok(())
}

/// The image's section with the wrapper's command.
pub fn section() -> Option<Section> {
    kind::AGENT.encode(OF_THIS.get()?).ok()
}

/// Reports at a restart that the wrapper is not restored.
pub fn tell_lost(opened: &Opened) {
    let kept = opened.section(kind::AGENT);
    let command = kept.and_then(|kept| postcard::from_bytes::<String>(&kept.bytes).ok());
    let Some(command) = command else {
        return;
    };
    if launcher::is_first() {
        tell(format_args!(
            "the program was started by `{command}`, which is not saved: its further lines do not run"
        ));
    }
    OF_THIS.get_or_init(|| command);
}
