//! `cargo xtask torture --recover`: a program under `stasis run`, whose ranks and launchers are killed again and again
//! at random moments: while it computes, while it takes a checkpoint, and while it is being started again. `stasis run`
//! alone brings it back. Where it is killed itself, the same command goes on.
//!
//! Some programs run on several nodes (`harness/nodes.rs`). There the node keepers are killed, too, and nodes: all
//! processes of one, or its connection to the others.

use super::{note_commit, program::Program};
use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::nodes::{Network, Nodes, Placement};
use crate::harness::random::Random;
use crate::harness::{paths, signal, stasis};
use crate::test::programs::mpi::without_reports;
use crate::test::support::compile::{command_line, set_environment};
use anyhow::{Context, Result};
use std::fmt;
use std::fs;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Time for a step of the job.
const PATIENCE: Duration = Duration::from_secs(120);
/// Longest pause before a kill, in seconds.
const PAUSE: f64 = 0.4;
/// Nodes of a job on several ones. Two have room for all ranks, and the first, that of `stasis run`, is never lost.
const NODES: usize = 3;
/// Settings of Open MPI for them.
const TRANSPORT: [(&str, &str); 1] = [("OMPI_MCA_btl", "self,vader,tcp")];
/// Processes that keep the copies of a node's ranks.
const NODE_KEEPERS: [&str; 2] = ["stasis-node", "stasis-guard"];

/// Numbers of what was done.
#[derive(Default)]
pub struct Tally {
    /// Killed ranks.
    pub ranks: u64,
    /// Killed launchers.
    pub launchers: u64,
    /// Killed ranks of standby worlds.
    pub sleepers: u64,
    /// Killed copies of checkpoints in memory.
    pub copies: u64,
    /// Killed node keepers, and their guards.
    pub keepers: u64,
    /// Nodes whose processes were all killed.
    pub nodes: u64,
    /// Nodes that were cut off from the others.
    pub cut_off: u64,
    /// Killed `stasis run`.
    pub controllers: u64,
    /// Committed checkpoints.
    pub checkpoints: u64,
    /// Starts of the job after the first one.
    pub recoveries: u64,
    /// Those of them that were a standby world.
    pub taken_over: u64,
    /// Those of them that went on from a checkpoint in memory.
    pub from_memory: u64,
}

impl Tally {
    /// All kills.
    pub fn kills(&self) -> u64 {
        let parts = self.ranks + self.launchers + self.sleepers + self.copies + self.keepers;
        parts + self.nodes + self.cut_off + self.controllers
    }
}

impl AddAssign<&Tally> for Tally {
    fn add_assign(&mut self, other: &Tally) {
        self.ranks += other.ranks;
        self.launchers += other.launchers;
        self.sleepers += other.sleepers;
        self.copies += other.copies;
        self.keepers += other.keepers;
        self.nodes += other.nodes;
        self.cut_off += other.cut_off;
        self.controllers += other.controllers;
        self.checkpoints += other.checkpoints;
        self.recoveries += other.recoveries;
        self.taken_over += other.taken_over;
        self.from_memory += other.from_memory;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} ranks, {} launchers, {} ranks of standby worlds, {} copies in memory, {} node keepers, {} nodes and {} \
             `stasis run` killed, {} nodes cut off, {} recoveries, {} of them by a standby world, {} from memory, {} \
             checkpoints on disk",
            self.ranks,
            self.launchers,
            self.sleepers,
            self.copies,
            self.keepers,
            self.nodes,
            self.controllers,
            self.cut_off,
            self.recoveries,
            self.taken_over,
            self.from_memory,
            self.checkpoints
        )
    }
}

/// One run.
pub struct RecoveredRun<'a> {
    pub tally: Tally,
    program: &'a Program,
    random: Random,
    dir: &'a Path,
    ckpt: PathBuf,
    /// The nodes of a job on several ones.
    nodes: Option<Nodes>,
    /// Those of them that are cut off at present.
    cut_off: Vec<usize>,
}

/// The effect of a kill on the job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Harm {
    Fails,
    RunsOn,
}

/// Keeps the end of the output, as long as that of the native run. What a job has printed since its checkpoint it
/// prints again: of a line that the native run prints once, the last counts.
fn keep_the_last(stdout: &Path, native: &Path) -> Result<()> {
    let (text, wanted) = (job::read_text(stdout), job::read_text(native));
    let printed = without_repetitions(&without_reports(&text), &wanted);
    let from = printed.len().saturating_sub(wanted.len());
    let last = printed.get(from..).unwrap_or(&printed);
    Ok(fs::write(stdout, last)?)
}

/// Output without lines that come again later, unless they are several in the native output.
fn without_repetitions(printed: &str, native: &str) -> String {
    let number = |text: &str, line: &str| text.split_inclusive('\n').filter(|l| *l == line).count();
    let mut rest = printed;
    let kept = printed.split_inclusive('\n').filter(|line| {
        rest = &rest[line.len()..];
        number(native, line) > 1 || number(rest, line) == 0
    });
    kept.collect()
}

impl<'a> RecoveredRun<'a> {
    pub fn new(program: &'a Program, random: Random, dir: &'a Path) -> Self {
        RecoveredRun {
            tally: Tally::default(),
            program,
            random,
            dir,
            ckpt: paths::for_images(dir),
            nodes: None,
            cut_off: Vec::new(),
        }
    }

    /// Whether the result does not depend on the machines, nor on many threads that are in MPI over TCP.
    fn can_have_nodes(&self) -> bool {
        let name = &self.program.example.name;
        let may = ["torture/", "coll/", "p2p/"];
        let may = may.iter().any(|folder| name.starts_with(folder)) && !name.contains("one_core");
        may && self.program.threads == 0 && signal::is_root()
    }

    /// Runs the program with this number of kills, and compares it with the folder of the native run.
    pub fn run(&mut self, kills: u64, native: &Path) -> Result<()> {
        let _ = fs::remove_dir_all(&self.ckpt);
        let result = self.drive(kills).and_then(|stdout| {
            keep_the_last(&stdout, &native.join("run.out"))?;
            let compare = &self.program.example.compare;
            compare.runs(native, self.dir, &[stdout])
        });
        let _ = fs::remove_dir_all(&self.ckpt);
        result.with_context(|| format!("in {}", self.dir.display()))
    }

    fn drive(&mut self, kills: u64) -> Result<PathBuf> {
        fs::create_dir(self.dir.join("work"))?;
        let mut lower = Mpi::ALL[self.random.below(2) as usize];
        if self.random.below(2) == 0 && self.can_have_nodes() {
            // MPI_Finalize of Debian's MPICH does not always end on several nodes, natively, too.
            lower = Mpi::OpenMpi;
            self.nodes = Some(Nodes::with_daemons(NODES, self.dir, Network::Ipv4)?);
        }
        // Without checkpoints in memory a node has nothing to keep.
        let of_four = if self.nodes.is_some() { 3 } else { 2 };
        let in_memory = self.random.below(4) < of_four;
        let standby = ["no", "warm", "hot"][self.random.below(3) as usize];
        let mut whole = String::new();
        loop {
            let starts = self.tally.controllers;
            let command = self.command(lower, in_memory, standby, starts > 0)?;
            let mut job = Job::start(command, self.dir, &format!("run-{starts}"))?;
            let done = self.kill_on(&mut job, kills);
            job.explain(done, self.dir)?;
            let is_killed = self.tally.controllers > starts;
            if !is_killed {
                fs::write(self.dir.join("go"), "")?;
                job.succeed(Instant::now() + PATIENCE, self.dir)?;
            }
            self.count(&job::read_text(&job.stderr), standby);
            whole += &job::read_text(&job.stdout);
            if !is_killed {
                break;
            }
        }
        let stdout = self.dir.join("run.out");
        fs::write(&stdout, whole)?;
        Ok(stdout)
    }

    /// The command that starts the job, or goes on with it after its `stasis run` was killed.
    fn command(&self, lower: Mpi, in_memory: bool, standby: &str, again: bool) -> Result<Command> {
        let example = &self.program.example;
        let mut launch = match &self.nodes {
            None => stasis::launch(lower, example.ranks, &self.ckpt, self.dir),
            Some(nodes) => {
                let placement = Placement {
                    nodes: NODES,
                    ranks: example.ranks.div_ceil(2),
                    transport: &TRANSPORT,
                };
                let mpirun = nodes.mpirun_with_file(lower, &placement, example.ranks, "run")?;
                let mut launch = Command::new("sh");
                launch.args(["-c", "cd work && exec \"$@\"", "sh"]);
                let mut launch = stasis::before(launch, &mpirun);
                launch.arg(paths::stasis()).args(["launch", "--ckpt-dir"]);
                launch.arg(&self.ckpt);
                launch
            }
        };
        launch.args(again.then_some("--resume"));
        launch.args(command_line(example, Some(self.program.front))?);
        launch.current_dir(self.dir.join("work"));
        set_environment(&mut launch, example, self.program.front)?;
        launch
            .env("STASIS_TEST_READY", self.dir.join("ready"))
            .env("STASIS_TEST_GO", self.dir.join("go"))
            .env("STASIS_TEST_COMMITS", self.dir.join("commits"));
        if in_memory {
            launch.env("STASIS_MEMORY_INTERVAL", "1");
        }
        let mut flags = vec!["--recover", "1000", "--standby", standby];
        flags.extend(self.nodes.as_ref().map(|_| "--oversubscribe"));
        Ok(self.on_first(stasis::run(&flags, &launch)))
    }

    /// The command, where the job's commands run.
    fn on_first(&self, command: Command) -> Command {
        match &self.nodes {
            Some(nodes) => nodes.on_first(&command),
            None => command,
        }
    }

    /// Counts the recoveries that a `stasis run` has told.
    fn count(&mut self, said: &str, standby: &str) {
        let recoveries = said.matches("the job goes on from").count() as u64;
        self.tally.recoveries += recoveries;
        self.tally.from_memory += said.matches("was in memory, and is written now").count() as u64;
        if standby != "no" {
            let anew = said.matches("no standby world was ready").count() as u64;
            self.tally.taken_over += recoveries.saturating_sub(anew);
        }
    }

    /// Takes checkpoints and kills, until there were enough kills, the program has ended, or `stasis run` was killed.
    fn kill_on(&mut self, job: &mut Job, kills: u64) -> Result<()> {
        // Without a new checkpoint the death of the same rank would soon count as the program's own error.
        let mut committed = true;
        while self.tally.kills() < kills {
            let Some(job_file) = self.reached(job)? else {
                return Ok(());
            };
            std::thread::sleep(self.random.seconds(0.0, PAUSE));
            let request = self.on_first(stasis::checkpoint(&self.ckpt));
            let mut request = Job::start(request, self.dir, "checkpoint")?;
            if !committed || self.random.below(4) > 0 {
                let status = request.wait(Instant::now() + PATIENCE)?;
                let status = status.context("timeout while waiting for the checkpoint")?;
                if job.poll()?.is_some() {
                    return Ok(());
                }
                committed = status.success();
                if !committed {
                    continue;
                }
                self.tally.checkpoints += 1;
                note_commit(self.dir)?;
            } else {
                committed = false;
            }
            std::thread::sleep(self.random.seconds(0.0, PAUSE));
            if self.random.below(8) == 0 {
                return self.kill_controller(job);
            }
            let mut harm = self.kill(job)?;
            if self.random.below(4) == 0 {
                // While it is being started again.
                std::thread::sleep(self.random.seconds(0.0, 2.0 * PAUSE));
                if self.kill(job)? == Harm::Fails {
                    harm = Harm::Fails;
                }
            }
            if harm == Harm::Fails {
                self.gone(job, &job_file)?;
            }
            self.heal()?;
        }
        Ok(())
    }

    /// Waits until the job answers; returns its job file, or nothing if the program has ended.
    fn reached(&self, job: &mut Job) -> Result<Option<String>> {
        let ranks = self.program.example.ranks;
        let mut file = String::new();
        let ready = job.until(
            "the job could be reached",
            Instant::now() + PATIENCE,
            || {
                file = stasis::job_file(&self.ckpt);
                !file.is_empty()
                    && (0..ranks).all(|rank| self.dir.join(format!("ready.{rank}")).exists())
            },
        );
        match (ready, job.poll()?) {
            (_, Some(status)) if status.success() => Ok(None),
            (ready, _) => ready.map(|()| Some(file)),
        }
    }

    /// Waits until another incarnation has replaced the job file, or the program has ended.
    fn gone(&self, job: &mut Job, before: &str) -> Result<()> {
        let again = stasis::until_reached(job, &self.ckpt, before, Instant::now() + PATIENCE);
        match job.poll()? {
            Some(status) if status.success() => Ok(()),
            _ => again.map(drop),
        }
    }

    /// Kills `stasis run`, unless it has ended. Its ranks end for that.
    fn kill_controller(&mut self, job: &mut Job) -> Result<()> {
        if job.poll()?.is_some() {
            return Ok(());
        }
        let ranks = job.ranks();
        signal::kill_now(job.pids()[0]);
        self.tally.controllers += 1;
        let deadline = Instant::now() + PATIENCE;
        job.wait(deadline)?;
        job::until_ended(&ranks, deadline).context("a rank outlives its keeper")
    }

    /// Connects the nodes again that were cut off.
    fn heal(&mut self) -> Result<()> {
        for node in std::mem::take(&mut self.cut_off) {
            if let Some(nodes) = &self.nodes {
                nodes.connect(node, true)?;
            }
        }
        Ok(())
    }

    /// Kills something. It is no failure of the job if that was a part of the standby world, a copy in memory, or a
    /// node keeper.
    fn kill(&mut self, job: &Job) -> Result<Harm> {
        let all = job.ranks();
        let launchers = job.launchers();
        let running = stasis::incarnation(&self.ckpt, "run.json").ok();
        let ranks = running.map_or_else(Vec::new, |number| {
            stasis::of_incarnation(all.clone(), number)
        });
        if self.nodes.is_some() && self.random.below(2) == 0 {
            if let Some(harm) = self.kill_of_nodes(job, &ranks)? {
                return Ok(harm);
            }
        }
        let copies = job.named(&["stasis-twin"]);
        match self.random.below(8) {
            0 if !launchers.is_empty() => {
                launchers.into_iter().for_each(signal::kill_now);
                self.tally.launchers += 1;
            }
            1 => {
                self.tally.ranks += all.len() as u64;
                all.into_iter().for_each(signal::kill_now);
            }
            2 if !copies.is_empty() => {
                signal::kill_now(copies[0]);
                self.tally.copies += 1;
                return Ok(Harm::RunsOn);
            }
            _ if all.is_empty() => {}
            3 if ranks.len() > 1 => {
                ranks[..2].iter().copied().for_each(signal::kill_now);
                self.tally.ranks += 2;
            }
            _ => {
                let one = all[self.random.below(all.len() as u64) as usize];
                signal::kill_now(one);
                if !ranks.contains(&one) {
                    self.tally.sleepers += 1;
                    return Ok(Harm::RunsOn);
                }
                self.tally.ranks += 1;
            }
        }
        Ok(Harm::Fails)
    }

    /// Kills a node keeper or its guard; or all processes of a node with ranks, or its connection. Nothing if the node
    /// that was drawn has none of these.
    fn kill_of_nodes(&mut self, job: &Job, ranks: &[i32]) -> Result<Option<Harm>> {
        let Some(nodes) = &self.nodes else {
            return Ok(None);
        };
        // Both may be killed at a time.
        let keepers = job.named(&NODE_KEEPERS);
        let what = self.random.below(3);
        if what == 0 {
            let first = self.random.below(2) as usize;
            let killed = keepers.iter().skip(first);
            self.tally.keepers += killed.len() as u64;
            let harm = (killed.len() > 0).then_some(Harm::RunsOn);
            killed.copied().for_each(signal::kill_now);
            return Ok(harm);
        }
        let node = 2 + self.random.below(NODES as u64 - 1) as usize;
        let there = nodes.pids(node)?;
        if self.cut_off.contains(&node) || !there.iter().any(|pid| ranks.contains(pid)) {
            return Ok(None);
        }
        match what {
            1 => {
                there.into_iter().for_each(signal::kill_now);
                self.tally.nodes += 1;
            }
            _ => {
                nodes.connect(node, false)?;
                self.cut_off.push(node);
                self.tally.cut_off += 1;
            }
        }
        Ok(Some(Harm::Fails))
    }
}

#[cfg(test)]
mod tests {
    use super::without_repetitions;

    #[test]
    fn the_last_of_equal_lines_counts() {
        let native = "1\n=\n2\n3\n=\nOK\n";
        let printed = "1\n=\n2\n3\n2\n3\n=\nOK\n";
        assert_eq!(without_repetitions(printed, native), native);
        assert_eq!(without_repetitions("1\n2\n1", "1\n2\n"), "1\n2\n1");
    }
}
