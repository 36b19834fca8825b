//! `stasis gdb`: the GNU debugger at a rank of a job, with the symbols of the program in it.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{anyhow, Context, Result};
use coordinator::job_file::JobFile;

use crate::args::Gdb;
use crate::debugger::link_map::{self, Object};
use crate::running::rank_process::RankProcess;
use crate::ui::exit::{self, Code, WithCode};

/// Runs the command; returns only if the debugger cannot be started.
pub fn run(options: &Gdb) -> exit::Result<()> {
    let rank = find(options)?;
    let program = options
        .program
        .clone()
        .map_or_else(|| program_of(&rank), Ok);
    let program = program.code(Code::Usage)?;
    let ended = attach(
        &options.gdb,
        rank.pid,
        &program,
        rank.comes_to_a_stop(),
        &options.arguments,
    );
    let Err(why) = ended;
    Err(why).code(Code::CannotServe)
}

/// Becomes the debugger of a process whose program is this file. One that is stopped goes on when the user says so.
pub fn attach(
    debugger: &Path,
    process: i32,
    program: &Path,
    is_stopped: bool,
    arguments: &[OsString],
) -> Result<Infallible> {
    let objects = link_map::objects(process, program)?;
    let mut gdb = Command::new(debugger);
    // The user sees no signals between the halves. Files are added without questions.
    for command in [
        "handle SIGSYS nostop noprint pass",
        &format!("handle SIG{} nostop noprint pass", contract::STOP_SIGNAL),
        "set confirm off",
        &only_above(),
    ] {
        gdb.args(["-iex", command]);
    }
    gdb.args(["-q", "-p", &process.to_string()]);
    for object in &objects {
        gdb.args(["-ex", &with_symbols(object)]);
    }
    if is_stopped {
        // Only now, since the debugger has it: it goes on when the user says so, or leaves the debugger.
        for command in [
            "handle SIGSTOP nostop noprint nopass",
            "handle SIGCONT nostop noprint pass",
            &format!("shell kill -CONT {process}"),
        ] {
            gdb.args(["-ex", command]);
        }
    }
    gdb.args(["-ex", "set confirm on"]).args(arguments);
    let why = gdb.exec();
    Err(anyhow!(why).context(format!(
        "{} cannot be started: install the package gdb, or name it with its path",
        debugger.display()
    )))
}

/// Command by which a breakpoint at a function that both halves have, such as one of MPI, stops in the program's half
/// alone. Otherwise each call would stop again in the lower half and in its library, where no frame is the program's. A
/// gdb before 13 tells no places of a breakpoint, and one without Python says so and goes on.
fn only_above() -> String {
    let end = contract::ARENA_END;
    format!(
        "python\
         \ndef stasis_created(breakpoint):\
         \n  places = getattr(breakpoint, 'locations', None) or []\
         \n  if any(place.address < {end} for place in places):\
         \n    for place in places:\
         \n      if place.address >= {end}:\
         \n        place.enabled = False\
         \ngdb.events.breakpoint_created.connect(stasis_created)"
    )
}

fn with_symbols(object: &Object) -> String {
    let file = object
        .file
        .to_string_lossy()
        .replace('\\', r"\\")
        .replace('"', r#"\""#);
    format!("add-symbol-file \"{file}\" -o {:#x}", object.bias)
}

/// The rank that the arguments name: a directory and a rank, or a process.
fn find(options: &Gdb) -> exit::Result<RankProcess> {
    let number = options.rank;
    let Some(number) = number else {
        let pid = options.job.to_str().and_then(|text| text.parse().ok());
        let found = pid.and_then(RankProcess::with_id);
        return found
            .with_context(|| {
                format!(
                    "{} is no process of a rank that runs here: give the id of one, or a job's directory and a rank",
                    options.job.display()
                )
            })
            .code(Code::Usage);
    };
    let ranks = RankProcess::of_job(&options.job);
    let here: Vec<u32> = ranks.iter().filter_map(|process| process.rank).collect();
    let is_only = ranks.len() == 1 && here.is_empty() && number == 0;
    let found = ranks
        .into_iter()
        .find(|process| process.rank == Some(number) || is_only);
    found
        .with_context(|| match here.is_empty() {
            true => format!("no job runs on this machine with {}", options.job.display()),
            false => format!(
                "rank {number} of the job in {} does not run on this machine, but ranks {here:?} do: go to its machine, \
                 which `stasis status` names",
                options.job.display()
            ),
        })
        .code(Code::NoJob)
}

/// The program of a rank. That of a job which was restarted is in its job file.
fn program_of(rank: &RankProcess) -> Result<PathBuf> {
    if let Some(program) = &rank.program {
        return Ok(program.clone());
    }
    let job = JobFile::read(&rank.directory)?;
    let program = job
        .program
        .first()
        .context("the job's file names no program")?;
    Ok(Path::new(&format!("/proc/{}/cwd", rank.pid)).join(program))
}
