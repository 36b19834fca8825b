//! `stasis bisect`: runs a job again and again, each time with other collective operations reduced to messages, and so
//! finds those of the MPI library without which the failure goes away.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{anyhow, Context, Result};
use launcher::message;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;
use reduction::bisect::{smallest, Found, Outcome};
use reduction::Selection;
use supervisor::command_line;

use crate::args::Bisect;
use crate::ui::exit::{self, Code, WithCode};

/// Time for a launcher to end its ranks.
const GRACE: Duration = Duration::from_secs(10);

/// Runs the command.
pub fn run(options: &Bisect) -> exit::Result<()> {
    if command_line::reduced(&options.line, None).is_none() {
        let why = "there is neither `stasis launch` nor `stasis restart` in this line, so that nothing could be reduced: \
                   give the whole command, `stasis bisect -- mpirun -n N stasis launch ./app`";
        return Err(anyhow!(why)).code(Code::Usage);
    }
    let mut number = 0;
    let found: Result<Found> = smallest(&options.reduce, |selection| {
        number += 1;
        let outcome = outcome(options, selection)?;
        let selected = selection.map_or("nothing".to_owned(), Selection::to_string);
        message::say(format_args!("run {number}, {selected} reduced: {outcome}"));
        Ok(outcome)
    });
    match found.code(Code::CannotServe)? {
        Found::Smallest(selection) => {
            say!("{selection}");
            message::say(format_args!(
                "the failure goes away if these calls are reduced, and not if fewer are: `stasis launch --reduce \
                 '{selection}'`"
            ));
            Ok(())
        }
        Found::Elsewhere => {
            message::say(
                "the failure stays although all collective operations are reduced: it is not in those of the MPI library",
            );
            Ok(())
        }
        Found::NoFailure => Err(anyhow!(
            "the job passes as it is: there is nothing to look for. If it fails now and then, give --runs N"
        ))
        .code(Code::Usage),
    }
}

/// How the runs of a selection end: all of them have to pass.
fn outcome(options: &Bisect, selection: Option<&Selection>) -> Result<Outcome> {
    for _ in 0..options.runs {
        if !passes(options, selection)? {
            return Ok(Outcome::Failed);
        }
    }
    Ok(Outcome::Passed)
}

fn passes(options: &Bisect, selection: Option<&Selection>) -> Result<bool> {
    let selection = selection.map(Selection::to_string);
    let line = command_line::reduced(&options.line, selection.as_deref());
    let line = line.context("no command")?;
    let mut stdout = tempfile::tempfile().context("cannot keep the output of a run")?;
    let status = run_line(&line, stdout.try_clone()?, options.limit)?;
    let passed = status.is_some_and(|status| status.success());
    let Some(check) = options.check.as_ref().filter(|_| passed) else {
        return Ok(passed);
    };
    stdout.rewind()?;
    // Standard output is for the answer.
    let checked = Command::new("/bin/sh")
        .arg("-c")
        .arg(check)
        .stdin(stdout)
        .stdout(io::stderr())
        .status();
    Ok(checked.context("cannot start --check")?.success())
}

/// Runs a line, up to a limit in seconds. `None` if that was reached.
fn run_line(line: &[OsString], stdout: File, limit: Option<u64>) -> Result<Option<ExitStatus>> {
    let [program, arguments @ ..] = line else {
        return Err(anyhow!("no command"));
    };
    let child = Command::new(program)
        .args(arguments)
        .env_remove("STASIS_REDUCE")
        .stdin(Stdio::null())
        .stdout(stdout)
        .spawn();
    let child = child.with_context(|| format!("cannot start {}", program.display()))?;
    wait(child, limit.map_or(Duration::MAX, Duration::from_secs))
}

fn wait(mut child: Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let launcher = Pid::from_raw(child.id().cast_signed());
    let (tell, ended) = mpsc::channel();
    thread::spawn(move || tell.send(child.wait()));
    if let Ok(status) = ended.recv_timeout(limit) {
        return Ok(Some(status?));
    }
    // The launcher ends its ranks.
    kill(launcher, Signal::SIGTERM)?;
    if ended.recv_timeout(GRACE).is_err() {
        kill(launcher, Signal::SIGKILL)?;
        ended.recv()??;
    }
    Ok(None)
}
