//! A running job: start, wait, find all its processes, kill, report its stacks.
//!
//! Its environment holds a mark. Every process of the job is found by that, whatever sessions and groups the launcher's
//! daemons make.

use crate::harness::signal;
use anyhow::{anyhow, bail, Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, PipeWriter, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const MARK: &str = "STASIS_TEST_MARK";
const POLL: Duration = Duration::from_millis(3);

/// One launched command with all its descendants. Dropping it kills the remaining processes.
pub struct Job {
    child: Child,
    mark: String,
    /// File with its standard output.
    pub stdout: PathBuf,
    /// File with its standard error.
    pub stderr: PathBuf,
    status: Option<ExitStatus>,
    /// Start of the launcher, in the kernel's ticks.
    started: u64,
    /// Write end of its standard input, open as long as the job.
    end_of_input: PipeWriter,
}

impl Job {
    /// Start `command`; its output goes to `<dir>/<name>.out` and `.err`.
    pub fn start(mut command: Command, dir: &Path, name: &str) -> Result<Job> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mark = format!(
            "{}.{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let stdout = dir.join(format!("{name}.out"));
        let stderr = dir.join(format!("{name}.err"));
        let create = |path: &Path| {
            fs::File::create(path).with_context(|| format!("creating {}", path.display()))
        };
        // Hydra forwards the end of its input to its proxy. If the ranks have ended by then, it dies of SIGPIPE before
        // it has printed their output (natively, too: 17 of 1,200 runs). So the input stays open until the job ends.
        let (input, end_of_input) = io::pipe().context("making a pipe")?;
        command
            .env(MARK, &mark)
            .stdin(input)
            .stdout(create(&stdout)?)
            .stderr(create(&stderr)?)
            .process_group(0);
        signal::die_with_parent(&mut command);
        let child = command
            .spawn()
            .with_context(|| format!("starting {:?}", command.get_program()))?;
        Ok(Job {
            started: started(child.id() as i32),
            child,
            mark,
            stdout,
            stderr,
            status: None,
            end_of_input,
        })
    }

    /// Writes to its standard input.
    pub fn type_in(&mut self, text: &str) -> Result<()> {
        let written = self.end_of_input.write_all(text.as_bytes());
        written.context("writing the input of the job")
    }

    /// The exit status, if it has ended.
    pub fn poll(&mut self) -> Result<Option<ExitStatus>> {
        if self.status.is_none() {
            self.status = self.child.try_wait()?;
        }
        Ok(self.status)
    }

    /// Wait for the end; `None` when the deadline comes first.
    pub fn wait(&mut self, deadline: Instant) -> Result<Option<ExitStatus>> {
        loop {
            let status = self.poll()?;
            if status.is_some() || Instant::now() > deadline {
                return Ok(status);
            }
            std::thread::sleep(POLL);
        }
    }

    /// Wait for the end, which must be a success; an error is explained as by [`Job::explain`].
    pub fn succeed(&mut self, deadline: Instant, dir: &Path) -> Result<()> {
        let result = match self.wait(deadline)? {
            None => Err(anyhow!("timeout: the job does not end")),
            Some(status) if !status.success() => Err(anyhow!("the job failed: {status}")),
            Some(_) => Ok(()),
        };
        self.explain(result, dir)
    }

    /// Wait until `event` holds; fails when the job ends or the deadline comes first.
    pub fn until(
        &mut self,
        what: &str,
        deadline: Instant,
        mut event: impl FnMut() -> bool,
    ) -> Result<()> {
        self.until_seen(what, deadline, |_| event())
    }

    /// The same for an event computed from the job.
    pub fn until_seen(
        &mut self,
        what: &str,
        deadline: Instant,
        mut event: impl FnMut(&Job) -> bool,
    ) -> Result<()> {
        loop {
            if event(self) {
                return Ok(());
            }
            if let Some(status) = self.poll()? {
                bail!("the job ended ({status}) before {what}");
            }
            if Instant::now() > deadline {
                bail!("timeout while waiting for {what}");
            }
            std::thread::sleep(POLL);
        }
    }

    /// The same for words on the job's standard error.
    pub fn until_said(&mut self, words: &str, deadline: Instant) -> Result<()> {
        let said = |job: &Job| read_text(&job.stderr).contains(words);
        self.until_seen(&format!("'{words}' was said"), deadline, said)
    }

    /// All processes of the job, the launcher first.
    pub fn pids(&self) -> Vec<i32> {
        let wanted = format!("{MARK}={}", self.mark);
        let mut pids = vec![self.child.id() as i32];
        for pid in all_pids() {
            let marked = fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|bytes| bytes.split(|b| *b == 0).any(|v| v == wanted.as_bytes()));
            if marked && pid != pids[0] {
                pids.push(pid);
            }
        }
        pids
    }

    /// The processes of its ranks, which a lower half has become. The copies that write images are none.
    pub fn ranks(&self) -> Vec<i32> {
        let is_rank = |pid: &i32| {
            let program = fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
            let name = program.file_name().unwrap_or_default();
            let copy = fs::read_to_string(format!("/proc/{pid}/comm"));
            let copy = copy.is_ok_and(|name| name.trim_end() == "stasis-twin");
            name.as_encoded_bytes().starts_with(b"lower-") && !copy
        };
        self.pids().into_iter().filter(is_rank).collect()
    }

    /// The processes of one rank: the rank, or first the process that stands in for it and then the rank.
    pub fn processes_of(&self, rank: usize) -> Vec<i32> {
        let mut its = self.ranks();
        its.retain(|pid| is_rank(*pid, rank));
        its.sort_unstable();
        its
    }

    /// The processes of its launcher. `stasis run` is none.
    pub fn launchers(&self) -> Vec<i32> {
        self.named(&["mpirun", "mpiexec", "orterun", "prterun"])
    }

    /// Its processes whose names begin like one of these.
    pub fn named(&self, names: &[&str]) -> Vec<i32> {
        let is_named = |pid: &i32| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            names
                .iter()
                .any(|wanted| name.trim_end().starts_with(wanted))
        };
        self.pids().into_iter().filter(is_named).collect()
    }

    /// Whether a process may be one of the job's and show no environment: in the middle of an execve the new program
    /// has none yet.
    fn may_have_another(&self) -> bool {
        let is_one = |pid: &i32| {
            let proc = PathBuf::from(format!("/proc/{pid}"));
            let bare = fs::read(proc.join("environ")).is_ok_and(|bytes| bytes.is_empty());
            // Neither a thread of the kernel nor a zombie has a program.
            bare && fs::read_link(proc.join("exe")).is_ok() && started(*pid) >= self.started
        };
        all_pids().iter().any(is_one)
    }

    /// `kill -9` of every process of the job, until none is left.
    pub fn kill(&mut self) -> Result<()> {
        let (mut shared, mut killed) = (BTreeSet::new(), BTreeSet::new());
        for attempt in 0.. {
            let pids = self.pids();
            // The launcher's id cannot be reused until its child handle is waited for.
            let alive = if self.poll()?.is_some() {
                &pids[1..]
            } else {
                &pids[..]
            };
            if alive.is_empty() && (attempt > 300 || !self.may_have_another()) {
                break;
            }
            if attempt > 2000 {
                bail!("processes {alive:?} survive SIGKILL");
            }
            for pid in alive {
                shared.extend(shared_files(*pid));
            }
            for pid in alive {
                signal::kill_now(*pid);
            }
            killed.extend(alive.iter().copied());
            std::thread::sleep(POLL);
        }
        // A process whose first thread has ended has no environment any more, but another thread may still be in a
        // system call that changes a file.
        while killed.iter().any(|pid| has_threads(*pid)) {
            std::thread::sleep(POLL);
        }
        // Killed ranks cannot remove their shared memory, and it is bounded on most machines.
        for file in shared {
            let _ = fs::remove_file(file);
        }
        Ok(())
    }

    /// State of its processes: from /proc, and their stacks from gdb.
    pub fn diagnose(&self) -> String {
        let mut text = String::new();
        for pid in self.pids() {
            let read = |what: &str| fs::read_to_string(format!("/proc/{pid}/{what}"));
            let command = read("cmdline").unwrap_or_default().replace('\0', " ");
            text += &format!("== {pid}: {command}\n");
            if !command.contains("stasis") || command.contains("mpirun") {
                continue;
            }
            let gdb = Command::new("timeout")
                .args(["20", "gdb", "-batch", "-nx", "-ex", "set pagination off"])
                .args(["-ex", "thread apply all bt 14", "-p", &pid.to_string()])
                .stdin(Stdio::null())
                .output();
            match gdb {
                Ok(output) => text += &String::from_utf8_lossy(&output.stdout),
                Err(error) => text += &format!("(gdb: {error})\n"),
            }
        }
        text
    }

    /// Add the job's output to an error, and write its state to `<dir>/diagnostics.txt`.
    pub fn explain<T>(&self, result: Result<T>, dir: &Path) -> Result<T> {
        result.map_err(|error| {
            let _ = fs::write(dir.join("diagnostics.txt"), self.diagnose());
            let mut text = String::new();
            for path in [&self.stdout, &self.stderr] {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                text += &format!("  {name}:\n{}", tail(&read_text(path), 12));
            }
            anyhow!("{error:#}; stacks are in diagnostics.txt\n{text}")
        })
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Whether a process lives: one that nobody has waited for yet does not.
pub fn lives(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}/root")).read_link().is_ok()
}

/// Whether a process is stopped by a signal.
pub fn is_stopped(pid: i32) -> bool {
    state(pid) == Some('T')
}

/// Whether a process is in a system call that no signal interrupts.
pub fn is_uninterruptible(pid: i32) -> bool {
    state(pid) == Some('D')
}

/// State of a process's first thread (proc_pid_stat(5)).
fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Wait until none of these processes lives.
pub fn until_ended(pids: &[i32], deadline: Instant) -> Result<()> {
    while let Some(pid) = pids.iter().find(|pid| lives(**pid)) {
        if Instant::now() > deadline {
            bail!("process {pid} does not end");
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// Run a short command to its end within `limit`, with its output captured in `<dir>/<name>.*`.
pub fn run(command: Command, dir: &Path, name: &str, limit: Duration) -> Result<Finished> {
    let start = Instant::now();
    let mut job = Job::start(command, dir, name)?;
    let Some(status) = job.wait(start + limit)? else {
        let found = job.diagnose();
        let _ = fs::write(dir.join("diagnostics.txt"), found);
        bail!("{name}: still running after {limit:?}; see diagnostics.txt");
    };
    Ok(Finished {
        status,
        stdout: read_text(&job.stdout),
        stderr: read_text(&job.stderr),
        took: start.elapsed(),
    })
}

/// A command that has ended.
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// How long it ran.
    pub took: Duration,
}

impl Finished {
    /// Fails, with the end of its standard error, unless it ended with 0.
    pub fn expect_success(self, what: &str) -> Result<Finished> {
        if !self.status.success() {
            bail!(
                "{what}: {}\n{}{}",
                self.status,
                tail(&self.stdout, 5),
                tail(&self.stderr, 15)
            );
        }
        Ok(self)
    }
}

/// A file's contents as text; empty if there is no file.
pub fn read_text(path: &Path) -> String {
    fs::read(path).map_or_else(
        |_| String::new(),
        |b| String::from_utf8_lossy(&b).into_owned(),
    )
}

/// The last lines of a text, indented.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..]
        .iter()
        .map(|line| format!("    | {line}\n"))
        .collect()
}

/// Whether a process is that rank, by the variables of its launcher.
pub fn is_rank(pid: i32, rank: usize) -> bool {
    let names = ["OMPI_COMM_WORLD_RANK", "PMI_RANK"];
    let wanted = names.map(|name| format!("{name}={rank}").into_bytes());
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mut variables = environment.split(|byte| *byte == 0);
    variables.any(|variable| wanted.iter().any(|wanted| wanted == variable))
}

fn all_pids() -> Vec<i32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Start of a process after the boot, in the kernel's ticks (proc(5): the 22nd field of `stat`); 0 if it has ended.
fn started(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks = fields
        .split(' ')
        .nth(19)
        .and_then(|ticks| ticks.parse().ok());
    ticks.unwrap_or(0)
}

/// Whether a thread of the process has not ended.
fn has_threads(pid: i32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task"));
    let mut threads = threads.into_iter().flatten().flatten();
    threads.any(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        let state = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        !state.is_empty() && !state.starts_with(['Z', 'X'])
    })
}

/// The files in /dev/shm that a process has mapped.
fn shared_files(pid: i32) -> Vec<PathBuf> {
    fs::read_to_string(format!("/proc/{pid}/maps"))
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.find("/dev/shm/").map(|at| &line[at..]))
        .filter(|path| !path.ends_with("(deleted)"))
        .map(PathBuf::from)
        .collect()
}
