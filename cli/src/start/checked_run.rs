//! A run of a job whose result is checked, for the commands that run a job again and again.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{bail, Context, Result};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

use crate::args::CheckedJob;

/// Time for a launcher to end its ranks.
const GRACE: Duration = Duration::from_secs(10);

impl CheckedJob {
    /// Runs a job by this line, without these variables in its environment; whether it passes.
    pub fn passes(&self, line: &[OsString], without: &[&str]) -> Result<bool> {
        let mut stdout = tempfile::tempfile().context("cannot keep the output of a run")?;
        let status = run(line, without, stdout.try_clone()?, self.limit)?;
        let passed = status.is_some_and(|status| status.success());
        let Some(check) = self.check.as_ref().filter(|_| passed) else {
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
}

/// Runs a line without these variables, up to a limit in seconds. `None` if that was reached.
fn run(
    line: &[OsString],
    without: &[&str],
    stdout: File,
    limit: Option<u64>,
) -> Result<Option<ExitStatus>> {
    let [program, arguments @ ..] = line else {
        bail!("no command");
    };
    let mut command = Command::new(program);
    for variable in without {
        command.env_remove(variable);
    }
    let child = command
        .args(arguments)
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
