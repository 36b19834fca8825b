//! `stasis run`: what it recovers and what it does not. Its ranks are killed in mode `recover` of the examples, too.

use crate::harness::job::{self, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{signal, stasis};
use crate::test::support::held_job::reach_cut_of;
use crate::test::support::helper_programs::compile;
use crate::test::support::refusal::{refused, CANNOT_SERVE, DIRECTORY, USAGE};
use crate::test::support::small_fs::{in_ext4, in_small_directory};
use crate::test::Case;
use anyhow::{bail, ensure, Context, Result};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const RANKS: usize = 2;
/// File of a set that counts the restarts from it that have not worked.
const ATTEMPTS: &str = "attempts";
/// Libraries whose launchers have a known option that lets the other ranks go on when one has ended.
const TOLERATE: [Mpi; 2] = [Mpi::OpenMpi, Mpi::Mpich];
/// Words of the message about a recovery, and of the one about its end.
pub(super) const GOES_ON: &str = "the job goes on from";
const GIVEN_UP: &str = "is not started again";

/// All cases of this file.
pub fn cases(full: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for &mpi in Mpi::of(full) {
        let mut add = |name: &str, body: fn(&RunCase) -> Result<()>| {
            cases.push(RunCase::case(mpi, name, body));
        };
        add("all-ranks", all_ranks);
        add("damaged-checkpoint", damaged_checkpoint);
        add("launcher", launcher);
        add("before-the-first-checkpoint", before_the_first);
        add("controller", controller);
        add("two-controllers", two_controllers);
        add("beside-a-plain-job", beside_a_plain_job);
        add("exits", |case| own_will(case, "exits"));
        add("aborts", |case| own_will(case, "aborts"));
        add("leaves", |case| own_will(case, "leaves"));
        add("hangup", hangup);
        add("launcher-away", launcher_away);
        add("exits-wanted", exits_wanted);
        add("sigterm", |case| {
            ends_with_checkpoint(case, Signal::SIGTERM)
        });
        add("sigxcpu", |case| {
            ends_with_checkpoint(case, Signal::SIGXCPU)
        });
        add("sigtstp", sigtstp);
        add("second-sigterm", second_sigterm);
        add("dies-in-last", dies_in_last);
        add("stopped", stopped);
        add("holds-checkpoints", holds_checkpoints);
        add("anew-dies-early", anew_dies_early);
        add("hang.rank-1", |case| hang(case, 1));
        add("hang.rank-0", |case| hang(case, 0));
        add("given-up", given_up);
        add("line-by-hand", line_by_hand);
        add("same-rank", same_rank);
        add("large-ranks", large_ranks);
        add("older-incarnation", older_incarnation);
        add("not-started", not_started);
        add("not-started-again", not_started_again);
        add("refused", refused_restart);
        add("ended-in-a-pause", ended_in_a_pause);
        if TOLERATE.contains(&mpi) {
            add("exits-tolerated", exits_tolerated);
        }
        if !mpi.is_open_mpi() {
            add("proxy", proxy);
        }
        let unseen = RunCase::case(mpi, "directory-unseen", directory_unseen);
        cases.push(unseen.for_root("needs root to mount"));
    }
    cases.push(Case::new("recover/full-directory", |_, dir| {
        in_small_directory(dir, "size=64m", |dir, _| {
            RunCase::new(dir, Mpi::Mpich).and_then(|case| full_directory(&case))
        })
    }));
    cases.push(Case::new("recover/unkillable", |_, dir| {
        in_ext4(dir, |place| {
            let dir = place
                .parent()
                .context("it is mounted below the case's folder")?;
            RunCase::new(dir, Mpi::Mpich).and_then(|case| unkillable(&case, place))
        })
    }));
    // Over a library from PyPI in every run.
    cases.push(RunCase::case(Mpi::Standard, "all-ranks", all_ranks));
    cases
}

/// A case with its program and directories.
pub(super) struct RunCase<'a> {
    pub(super) dir: &'a Path,
    pub(super) mpi: Mpi,
    /// The library with whose compiler the program was built.
    front: Mpi,
    pub(super) ranks: usize,
    pub(super) program: PathBuf,
    pub(super) ckpt: PathBuf,
}

impl RunCase<'_> {
    /// A case with this name behind `recover/`.
    pub(super) fn case(mpi: Mpi, name: &str, body: fn(&RunCase) -> Result<()>) -> Case {
        Case::over(mpi, &format!("recover/{name}"), move |_, dir| {
            RunCase::new(dir, mpi).and_then(|case| body(&case))
        })
    }

    fn new(dir: &Path, mpi: Mpi) -> Result<RunCase<'_>> {
        // Over those without a lower half of their own run programs of Debian's MPICH.
        let front = match Mpi::STANDARD.contains(&mpi) {
            true => Mpi::Mpich,
            false => mpi,
        };
        Ok(RunCase {
            dir,
            mpi,
            front,
            ranks: RANKS,
            program: compile(dir, &front.compiler("c"), "ends.c", &[])?,
            ckpt: dir.join("ck"),
        })
    }

    /// The same with another checkpoint directory.
    fn in_directory(&self, name: &str) -> RunCase<'_> {
        RunCase {
            program: self.program.clone(),
            ckpt: self.dir.join(name),
            ..*self
        }
    }

    fn gate(&self) -> PathBuf {
        self.dir.join("go")
    }

    pub(super) fn at_its_cut(&self, mut command: Command) -> Command {
        command
            .env("STASIS_TEST_READY", self.dir.join("ready"))
            .env("STASIS_TEST_GO", self.gate());
        command
    }

    pub(super) fn command(&self, flags: &[&str], way: &str) -> Command {
        let mut launch = stasis::launch(self.mpi, self.ranks, &self.ckpt, self.dir);
        launch.arg(&self.program).arg(way);
        self.at_its_cut(stasis::run(flags, &launch))
    }

    /// Starts the job and waits until all ranks are at their cut.
    fn start(&self, flags: &[&str], way: &str, name: &str) -> Result<Job> {
        self.start_command(self.command(flags, way), name)
    }

    /// The same for a command of [`at_its_cut`](Self::at_its_cut).
    pub(super) fn start_command(&self, command: Command, name: &str) -> Result<Job> {
        let mut job = Job::start(command, self.dir, name)?;
        let reached = self.reach_cut(&mut job);
        job.explain(reached, self.dir)?;
        Ok(job)
    }

    pub(super) fn reach_cut(&self, job: &mut Job) -> Result<()> {
        reach_cut_of(self.ranks, job, self.dir)?;
        let ready = |rank: usize| self.dir.join(format!("ready.{rank}"));
        (0..self.ranks).try_for_each(|rank| Ok(fs::remove_file(ready(rank))?))
    }

    /// Starts the job after its `stasis run` was killed, and waits until it runs. `before` is its job file.
    pub(super) fn start_again(&self, command: Command, before: &str) -> Result<Job> {
        let mut job = Job::start(command, self.dir, "again")?;
        let back = stasis::until_reached(&mut job, &self.ckpt, before, deadline());
        job.explain(back, self.dir)?;
        Ok(job)
    }

    pub(super) fn checkpoint(&self) -> Result<()> {
        job::run(
            stasis::checkpoint(&self.ckpt),
            self.dir,
            "checkpoint",
            LIMIT,
        )?
        .expect_success("stasis checkpoint")
        .map(drop)
    }

    /// Does something to the job, and waits until it has been started again from its checkpoint and its ranks run.
    pub(super) fn recovered(&self, job: &mut Job, harm: impl FnOnce(&Job)) -> Result<()> {
        let before = stasis::job_file(&self.ckpt);
        harm(job);
        let back = stasis::until_reached(job, &self.ckpt, &before, deadline()).and_then(|_| {
            let attempts = self.ckpt.join("ckpt-1").join(ATTEMPTS);
            job.until("the restart worked", deadline(), || !attempts.exists())
        });
        job.explain(back, self.dir)
    }

    /// Lets the job end, which must print the result of the native run.
    pub(super) fn finish(&self, mut job: Job) -> Result<()> {
        fs::write(self.gate(), "")?;
        job.succeed(deadline(), self.dir)?;
        let native = self.native("runs")?;
        let wanted = result(&native.stdout).context("the native run prints no result")?;
        let got = result(&job::read_text(&job.stdout));
        ensure!(
            got.as_ref() == Some(&wanted),
            "printed {got:?}, natively {wanted}"
        );
        ensure!(
            !self.ckpt.join("run.json").exists(),
            "its run file is still there"
        );
        Ok(())
    }

    fn native(&self, way: &str) -> Result<job::Finished> {
        let mut native = self.front.mpirun(self.ranks, self.dir);
        native.arg(&self.program).arg(way);
        job::run(native, self.dir, "native", LIMIT)
    }
}

/// The line of a program that has come to its end. A launcher may print its own lines beside it.
fn result(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("OK "));
    line.map(str::to_owned)
}

pub(super) fn deadline() -> Instant {
    Instant::now() + LIMIT
}

pub(super) fn said(job: &Job) -> String {
    job::read_text(&job.stderr)
}

fn kill_rank(job: &Job, rank: usize) {
    send_to_rank(job, rank, Signal::SIGKILL);
}

fn send_to_rank(job: &Job, rank: usize, sent: Signal) {
    let its = job.processes_of(rank).into_iter();
    its.for_each(|pid| signal::send(pid, sent));
}

fn all_ranks(case: &RunCase) -> Result<()> {
    let mut job = case.start(&[], "runs", "run")?;
    case.checkpoint()?;
    case.recovered(&mut job, |job| {
        job.ranks().into_iter().for_each(signal::kill_now);
    })?;
    case.finish(job)
}

/// The newest checkpoint is damaged: the job goes on from the one before, and says so once.
fn damaged_checkpoint(case: &RunCase) -> Result<()> {
    let mut job = case.start(&[], "runs", "run")?;
    (0..3).try_for_each(|_| case.checkpoint())?;
    let image = case.ckpt.join("ckpt-3").join("rank-1.img");
    let mut bytes = fs::read(&image)?;
    // Memory starts here (docs/image-format.md).
    bytes[4096] ^= 0x10;
    fs::write(&image, bytes)?;
    case.recovered(&mut job, |job| kill_rank(job, 0))?;
    let text = said(&job);
    let why = "ckpt-3 is left out: ";
    ensure!(
        text.matches(why).count() == 1,
        "it does not say once: {why}\n{text}"
    );
    let on = "ckpt-3 cannot be used; the job goes on from ckpt-2";
    ensure!(text.contains(on), "it does not say: {on}\n{text}");
    ensure!(
        text.matches(GOES_ON).count() == 2,
        "it was started more than twice again:\n{text}"
    );
    // A later incarnation does not try it again.
    case.recovered(&mut job, |job| kill_rank(job, 1))?;
    case.finish(job)
}

fn launcher(case: &RunCase) -> Result<()> {
    let mut job = case.start(&[], "runs", "run")?;
    case.checkpoint()?;
    case.recovered(&mut job, |job| {
        job.launchers().into_iter().for_each(signal::kill_now);
    })?;
    ensure!(
        said(&job).contains("the launcher was killed by signal 9")
            || said(&job).contains("was killed; the job goes on")
            || said(&job).contains("was killed by SIGKILL; the job goes on"),
        "the message names no cause"
    );
    case.finish(job)
}

/// Hydra's daemon is killed. Hydra notices that when a rank needs the daemon.
fn proxy(case: &RunCase) -> Result<()> {
    let job = case.start(&[], "runs", "run")?;
    case.checkpoint()?;
    let proxies = job.named(&["hydra_pmi_proxy"]);
    ensure!(!proxies.is_empty(), "the job has no daemon of Hydra");
    proxies.into_iter().for_each(signal::kill_now);
    case.finish(job)
}

fn before_the_first(case: &RunCase) -> Result<()> {
    let mut job = case.start(&[], "runs", "run")?;
    kill_rank(&job, 0);
    let again = case.reach_cut(&mut job);
    job.explain(again, case.dir)?;
    ensure!(
        said(&job).contains("the job goes on from its beginning"),
        "the message is another"
    );
    case.finish(job)
}

/// `stasis run` itself is killed: its ranks end, and the same line goes on from the checkpoint.
fn controller(case: &RunCase) -> Result<()> {
    let mut job = case.start(&[], "runs", "run")?;
    case.checkpoint()?;
    let ranks = job.ranks();
    ensure!(
        ranks.len() == case.ranks,
        "the job has {} ranks",
        ranks.len()
    );
    signal::kill_now(job.pids()[0]);
    ensure!(job.wait(deadline())?.is_some(), "it survives SIGKILL");
    job::until_ended(&ranks, deadline()).context("a rank outlives its keeper")?;
    let before = stasis::job_file(&case.ckpt);
    let job = case.start_again(case.command(&[], "runs"), &before)?;
    ensure!(said(&job).contains("from ckpt-1"), "it does not continue");
    case.finish(job)
}

fn two_controllers(case: &RunCase) -> Result<()> {
    let job = case.start(&[], "runs", "run")?;
    let second = job::run(case.command(&[], "runs"), case.dir, "second", LIMIT)?;
    refused(&second, DIRECTORY, &[&["keeps a job"], &["--ckpt-dir"]])?;
    case.finish(job)
}

/// A job without `stasis run` has the directory: its checkpoints are not taken for those of another job.
fn beside_a_plain_job(case: &RunCase) -> Result<()> {
    let mut plain = stasis::launch(case.mpi, case.ranks, &case.ckpt, case.dir);
    plain.arg(&case.program).arg("runs");
    let job = case.start_command(case.at_its_cut(plain), "plain")?;
    case.checkpoint()?;
    let mut launch = stasis::launch(case.mpi, case.ranks, &case.ckpt, case.dir);
    launch.arg("--resume").arg(&case.program).arg("runs");
    let second = case.at_its_cut(stasis::run(&[], &launch));
    let second = job::run(second, case.dir, "second", LIMIT)?;
    ensure!(
        !second.stderr.contains(GOES_ON),
        "it was started again and again"
    );
    refused(
        &second,
        DIRECTORY,
        &[&["is used by a job that runs already"], &["stasis stop"]],
    )?;
    case.finish(job)
}

/// The end that the program wants is no failure.
fn own_will(case: &RunCase, way: &str) -> Result<()> {
    let native = case.native(way)?;
    let mut job = case.start(&[], way, "run")?;
    case.checkpoint()?;
    fs::write(case.gate(), "")?;
    let status = job.wait(deadline())?.context("the job does not end")?;
    // Of two ranks Hydra reports at times the one that it has killed, natively, too (1 of 60 runs).
    let killed = Some(Signal::SIGKILL as i32).filter(|_| !case.mpi.is_open_mpi());
    ensure!(
        (way == "leaves" || !status.success())
            && [native.status.code(), killed].contains(&status.code()),
        "it ends with {status}, natively with {}",
        native.status
    );
    ensure!(!said(&job).contains(GOES_ON), "it was started again");
    Ok(())
}

/// Below nohup(1) SIGHUP is ignored, as natively, and the job goes on after a death that follows.
fn hangup(case: &RunCase) -> Result<()> {
    let command = stasis::before(Command::new("nohup"), &case.command(&[], "runs"));
    let mut job = case.start_command(command, "run")?;
    case.checkpoint()?;
    case.recovered(&mut job, |job| {
        signal::send(job.pids()[0], Signal::SIGHUP);
        kill_rank(job, 1);
    })?;
    case.finish(job)
}

/// A launcher that cannot be executed for some time is tried again.
fn launcher_away(case: &RunCase) -> Result<()> {
    let launcher = script(case, "exec \"$@\"")?;
    let away = case.dir.join("away");
    let mut launch = stasis::launch(case.mpi, case.ranks, &case.ckpt, case.dir);
    launch.arg(&case.program).arg("runs");
    let command = stasis::before(Command::new(&launcher), &launch);
    let run = case.at_its_cut(stasis::run(&[], &command));
    let mut job = case.start_command(run, "run")?;
    case.checkpoint()?;
    fs::rename(&launcher, &away)?;
    kill_rank(&job, 1);
    let words = format!("cannot start {}", launcher.display());
    let told = job.until_said(&words, deadline());
    job.explain(told, case.dir)?;
    case.recovered(&mut job, |_| {
        fs::rename(&away, &launcher).expect("it is there")
    })?;
    case.finish(job)
}

/// The launcher lets the others go on when a rank has ended with a code of its own. A death that follows is a failure.
fn exits_tolerated(case: &RunCase) -> Result<()> {
    let option = match case.mpi.is_open_mpi() {
        true => "--mca orte_abort_on_non_zero_status 0",
        false => "-disable-auto-cleanup",
    };
    let text = format!("mpirun=$1\nshift\nexec \"$mpirun\" {option} \"$@\"");
    let launcher = script(case, &text)?;
    let once = case.dir.join("once");
    fs::write(&once, "")?;
    let mut launch = stasis::launch(case.mpi, case.ranks, &case.ckpt, case.dir);
    launch.arg(&case.program).arg("exits-if").arg(&once);
    let command = stasis::before(Command::new(launcher), &launch);
    // The launcher is known to go on after twenty leases, for which these ranks have no other use.
    let mut run = case.at_its_cut(stasis::run(&["--lease", "0.5"], &command));
    run.env("STASIS_LOG", "stasis_supervisor=info");
    let mut job = case.start_command(run, "run")?;
    case.checkpoint()?;
    fs::write(case.gate(), "")?;
    let told = job.until_said("the launcher goes on without a rank", deadline());
    job.explain(told, case.dir)?;
    ensure!(job.processes_of(1).is_empty(), "rank 1 lives");
    fs::remove_file(case.gate())?;
    fs::remove_file(&once)?;
    case.recovered(&mut job, |job| kill_rank(job, 0))?;
    case.finish(job)
}

/// With `--on exits` it is one. Here each start ends so, and the job is given up.
fn exits_wanted(case: &RunCase) -> Result<()> {
    let mut job = case.start(&["--on", "exits", "--recover", "1"], "exits", "run")?;
    case.checkpoint()?;
    fs::write(case.gate(), "")?;
    let status = job.wait(deadline())?.context("the job does not end")?;
    ensure!(!status.success(), "it ends with {status}");
    for words in [GOES_ON, "ended with exit code 3", GIVEN_UP] {
        ensure!(said(&job).contains(words), "it does not say: {words}");
    }
    Ok(())
}

fn ends_with_checkpoint(case: &RunCase, sent: Signal) -> Result<()> {
    let mut job = case.start(&[], "runs", "run")?;
    signal::send(job.pids()[0], sent);
    let ended = job.wait(deadline())?.context("the job does not end");
    job.explain(ended, case.dir)?;
    ensure!(
        said(&job).contains("the job ends with the checkpoint ckpt-1"),
        "it does not say that it has taken a checkpoint: {}",
        said(&job)
    );
    ensure!(!said(&job).contains(GOES_ON), "it was started again");
    let restart = stasis::restart(case.mpi, case.ranks, &case.ckpt, case.dir);
    case.finish(Job::start(case.at_its_cut(restart), case.dir, "restart")?)
}

/// A job is stopped with its launcher, which stops the ranks (Open MPI) or only itself (Hydra), and continued.
fn sigtstp(case: &RunCase) -> Result<()> {
    let mut job = case.start(&[], "runs", "run")?;
    case.checkpoint()?;
    let run = job.pids()[0];
    let stop = |job: &Job| match case.mpi.is_open_mpi() {
        true => job.ranks(),
        false => job.launchers(),
    };
    let stopped = |pid: &i32| job::is_stopped(*pid);
    signal::send(run, Signal::SIGTSTP);
    let stopped_all = |job: &Job| stopped(&run) && stop(job).iter().all(stopped);
    let seen = job.until_seen("it is stopped", deadline(), stopped_all);
    job.explain(seen, case.dir)?;
    signal::send(run, Signal::SIGCONT);
    let continued = |job: &Job| !stopped(&run) && !stop(job).iter().any(stopped);
    let seen = job.until_seen("it is continued", deadline(), continued);
    job.explain(seen, case.dir)?;
    case.recovered(&mut job, |job| kill_rank(job, 0))?;
    case.finish(job)
}

/// A rank dies during the last checkpoint, which another one holds up. One reason is given for the end.
fn dies_in_last(case: &RunCase) -> Result<()> {
    let mut job = case.start(&[], "runs", "run")?;
    case.checkpoint()?;
    send_to_rank(&job, 1, Signal::SIGSTOP);
    signal::send(job.pids()[0], Signal::SIGTERM);
    let asked = job.until_seen("it asked for a checkpoint", deadline(), asks_for_last);
    job.explain(asked, case.dir)?;
    kill_rank(&job, 1);
    let ended = job.wait(deadline())?.context("the job does not end");
    job.explain(ended, case.dir)?;
    let said = said(&job);
    let reasons = said.matches("To go on from ckpt-1: ").count();
    ensure!(reasons == 1, "it gives {reasons} reasons: {said}");
    Ok(())
}

/// Whether the command is being run that takes the checkpoint with which the job ends.
fn asks_for_last(job: &Job) -> bool {
    job.pids().into_iter().any(|pid| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.contains("\0checkpoint\0--stop\0")
    })
}

/// A file system that is frozen while this lives.
struct Frozen<'a>(&'a Path);

impl Frozen<'_> {
    fn new(place: &Path) -> Result<Frozen<'_>> {
        let frozen = Command::new("fsfreeze").arg("-f").arg(place).status()?;
        ensure!(frozen.success(), "fsfreeze ends with {frozen}");
        Ok(Frozen(place))
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        let _ = Command::new("fsfreeze").arg("-u").arg(self.0).status();
    }
}

/// A rank is in a write that no signal interrupts when the other one dies. The job says so, and goes on when the write
/// has ended.
fn unkillable(case: &RunCase, place: &Path) -> Result<()> {
    let mut launch = stasis::launch(case.mpi, case.ranks, &case.ckpt, case.dir);
    launch
        .arg(&case.program)
        .arg("writes")
        .arg(place.join("written"));
    let command = case.at_its_cut(stasis::run(&[], &launch));
    let mut job = case.start_command(command, "run")?;
    case.checkpoint()?;
    let frozen = Frozen::new(place)?;
    let waits = |job: &Job| job.processes_of(1).into_iter().any(job::is_uninterruptible);
    let seen = job.until_seen("rank 1 waits in its write", deadline(), waits);
    job.explain(seen, case.dir)?;
    let before = stasis::job_file(&case.ckpt);
    kill_rank(&job, 0);
    let told = job.until_said("these processes were killed and do not end", deadline());
    job.explain(told, case.dir)?;
    ensure!(
        said(&job).contains("state D"),
        "it does not name the state: {}",
        said(&job)
    );
    drop(frozen);
    let back = stasis::until_reached(&mut job, &case.ckpt, &before, deadline());
    job.explain(back, case.dir)?;
    case.finish(job)
}

/// The second SIGTERM ends the launcher, also while the checkpoint of the first one waits for a rank.
fn second_sigterm(case: &RunCase) -> Result<()> {
    let mut job = case.start(&[], "runs", "run")?;
    send_to_rank(&job, 1, Signal::SIGSTOP);
    signal::send(job.pids()[0], Signal::SIGTERM);
    let asked = job.until_seen("it asked for a checkpoint", deadline(), asks_for_last);
    job.explain(asked, case.dir)?;
    signal::send(job.pids()[0], Signal::SIGTERM);
    if case.mpi == Mpi::Intel {
        // It passes SIGTERM on to its ranks and waits for them.
        send_to_rank(&job, 1, Signal::SIGCONT);
    }
    let ended = job.wait(deadline())?.context("the job does not end");
    // Its exit status is the launcher's, and Hydra's own is 0 if it has not heard of its ranks' deaths by then. Open
    // MPI sends SIGCONT before SIGTERM, so that the checkpoint may be taken in the last moment.
    job.explain(ended, case.dir)?;
    ensure!(!said(&job).contains(GOES_ON), "it was started again");
    let printed = result(&job::read_text(&job.stdout));
    ensure!(printed.is_none(), "the program went on: {printed:?}");
    Ok(())
}

/// `stasis stop` ends `stasis run`, too, which does not take the deaths of the ranks for failures. It does so as well
/// where signals of the user are ignored, as in the background of a script.
fn stopped(case: &RunCase) -> Result<()> {
    let mut ignoring = Command::new("sh");
    ignoring.args(["-c", "trap '' INT QUIT HUP; exec \"$@\"", "sh"]);
    let line = stasis::before(ignoring, &case.command(&[], "runs"));
    let mut job = case.start_command(line, "run")?;
    case.checkpoint()?;
    let mut stop = stasis::command(["stop"]);
    stop.arg(&case.ckpt);
    let told = stasis::json(stop, case.dir, "stop", LIMIT);
    let told = job.explain(told, case.dir)?;
    ensure!(
        told["supervised"] == true && told["newest"] == "ckpt-1",
        "stop says {told:#}"
    );
    // It ends with its launcher's code, and Hydra's is 0 if the interrupt reaches it before the ranks have died.
    ensure!(job.poll()?.is_some(), "`stasis run` lives after stop");
    ensure!(!said(&job).contains(GOES_ON), "it was started again");
    ensure!(!case.ckpt.join("ckpt-2").exists(), "a checkpoint was taken");
    let restart = stasis::restart(case.mpi, case.ranks, &case.ckpt, case.dir);
    case.finish(Job::start(case.at_its_cut(restart), case.dir, "restart")?)
}

/// `stasis run` refuses to start in a directory with checkpoints of an earlier job.
fn holds_checkpoints(case: &RunCase) -> Result<()> {
    checkpoint_of_an_earlier_job(case)?;
    let refusal = job::run(case.command(&[], "runs"), case.dir, "run", LIMIT)?;
    refused(&refusal, DIRECTORY, &[&["holds checkpoints already"]])?;
    let said = &refusal.stderr;
    ensure!(!said.contains(GOES_ON), "it was started again: {said}");
    Ok(())
}

/// `--anew` starts a job from the beginning, although there is a checkpoint of an earlier job. The launcher dies before
/// any rank has started. `stasis run` starts the job from the beginning again.
fn anew_dies_early(case: &RunCase) -> Result<()> {
    checkpoint_of_an_earlier_job(case)?;
    let launcher = script(
        case,
        "mkdir \"$0.has-died\" 2>/dev/null && kill -KILL $$\nexec \"$@\"",
    )?;
    let mut launch = stasis::launch(case.mpi, case.ranks, &case.ckpt, case.dir);
    launch.arg("--anew").arg(&case.program).arg("runs");
    let command = stasis::before(Command::new(launcher), &launch);
    let job = case.start_command(case.at_its_cut(stasis::run(&[], &command)), "run")?;
    for words in ["are kept in", "the job goes on from its beginning"] {
        ensure!(said(&job).contains(words), "it does not say: {words}");
    }
    case.finish(job)
}

/// Leaves a checkpoint of the same program in the directory.
fn checkpoint_of_an_earlier_job(case: &RunCase) -> Result<()> {
    let mut launch = stasis::launch(case.mpi, case.ranks, &case.ckpt, case.dir);
    launch.arg(&case.program).arg("runs");
    let mut job = case.start_command(case.at_its_cut(launch), "launch")?;
    case.checkpoint()?;
    job.kill()
}

/// Makes a launcher of this text.
fn script(case: &RunCase, text: &str) -> Result<PathBuf> {
    let launcher = case.dir.join("launcher");
    fs::write(&launcher, format!("#!/bin/sh\n{text}\n"))?;
    fs::set_permissions(&launcher, Permissions::from_mode(0o755))?;
    Ok(launcher)
}

/// A rank is stopped while the other one waits for it: the job is started again, and says what the ranks were doing.
fn hang(case: &RunCase, rank: usize) -> Result<()> {
    let mut job = case.start(&["--hang", "1"], "waits", "run")?;
    case.checkpoint()?;
    case.recovered(&mut job, |job| {
        send_to_rank(job, rank, Signal::SIGSTOP);
    })?;
    let said = said(&job);
    for words in [
        "no rank makes progress",
        "does not answer",
        "the job goes on from ckpt-1",
    ] {
        ensure!(said.contains(words), "it does not say: {words}\n{said}");
    }
    // Only a coordinator that runs can be asked.
    for words in [
        "main (ends)",
        "rank 0 waits for rank 1, which does not answer",
    ] {
        let shows = rank == 0 || said.contains(words);
        ensure!(shows, "it does not show: {words}\n{said}");
    }
    case.finish(job)
}

/// Flags of a job that is given up after its second failure.
const ONE_FAILURE: [&str; 2] = ["--recover", "1"];

/// The standard error of a job with these flags, which takes a checkpoint and then fails twice.
fn said_when_given_up(case: &RunCase, command: Command) -> Result<String> {
    let mut job = case.start_command(command, "run")?;
    case.checkpoint()?;
    case.recovered(&mut job, |job| kill_rank(job, 1))?;
    kill_rank(&job, 0);
    let status = job.wait(deadline())?.context("the job does not end")?;
    ensure!(!status.success(), "it ends with {status}");
    Ok(said(&job))
}

fn given_up(case: &RunCase) -> Result<()> {
    let said = said_when_given_up(case, case.command(&ONE_FAILURE, "runs"))?;
    for words in [GIVEN_UP, "failure 2", "from ckpt-1: ", "launch --resume"] {
        ensure!(said.contains(words), "it does not say: {words}\n{said}");
    }
    stasis::verify(&case.ckpt, case.dir, LIMIT)?.expect_success("stasis verify")?;
    Ok(())
}

/// A job has `--anew` in its line. After a failure it continues from its checkpoint. When it is given up, a line is
/// printed, and that line continues it.
fn line_by_hand(case: &RunCase) -> Result<()> {
    let mut launch = stasis::launch(case.mpi, case.ranks, &case.ckpt, case.dir);
    launch.arg("--anew").arg(&case.program).arg("runs");
    let command = || case.at_its_cut(stasis::run(&ONE_FAILURE, &launch));
    let said = said_when_given_up(case, command())?;
    let line = said.split_once("To go on from ckpt-1: ");
    let line = line.and_then(|(_, line)| line.lines().next());
    let line = line.with_context(|| format!("it prints no line to go on:\n{said}"))?;
    ensure!(
        line.contains("run --recover 1 -- ") && !line.contains("--anew"),
        "the line to go on is: {line}"
    );
    let mut by_hand = Command::new("sh");
    by_hand.args(["-c", "eval \"exec $1\"", "sh", line]);
    let before = stasis::job_file(&case.ckpt);
    let job = case.start_again(stasis::instead_of(by_hand, &command()), &before)?;
    case.finish(job)
}

/// The kernel frees the memory of a rank before it reports its death. The launcher may have killed the other rank by
/// then, which must not be taken for the one that fails again and again.
fn large_ranks(case: &RunCase) -> Result<()> {
    let mut job = case.start(&[], "large", "run")?;
    case.checkpoint()?;
    for rank in [0, 1, 0, 1] {
        case.recovered(&mut job, |job| kill_rank(job, rank))?;
    }
    case.finish(job)
}

/// The job has one rank: of two that die at a time it is unknown which was the first.
fn same_rank(case: &RunCase) -> Result<()> {
    let case = RunCase {
        ranks: 1,
        program: case.program.clone(),
        ckpt: case.ckpt.clone(),
        ..*case
    };
    let mut job = case.start(&[], "runs", "run")?;
    case.checkpoint()?;
    case.recovered(&mut job, |job| send_to_rank(job, 0, Signal::SIGALRM))?;
    // Since Linux 6.15 the signal is known: it was another one, and does not count.
    let is_known = said(&job).contains("rank 0 was killed by SIGALRM; the job goes on");
    for _ in 0..1 + usize::from(is_known) {
        case.recovered(&mut job, |job| kill_rank(job, 0))?;
    }
    kill_rank(&job, 0);
    let ended = job.wait(deadline())?.context("the job does not end");
    job.explain(ended, case.dir)?;
    let words = "rank 0 failed three times out of ckpt-1";
    ensure!(said(&job).contains(words), "it does not say: {words}");
    Ok(())
}

/// A job whose incarnation is no more that of the run file cannot commit a checkpoint.
fn older_incarnation(case: &RunCase) -> Result<()> {
    let job = case.start(&[], "runs", "run")?;
    let file = case.ckpt.join("run.json");
    let text = fs::read_to_string(&file)?;
    let newer = text.replace("\"incarnation\": 1", "\"incarnation\": 2");
    ensure!(newer != text, "the run file has no incarnation: {text}");
    fs::write(&file, newer)?;
    let refused = job::run(stasis::checkpoint(&case.ckpt), case.dir, "refused", LIMIT)?;
    let words = "incarnation 2 runs now";
    ensure!(
        !refused.status.success() && refused.stderr.contains(words),
        "it ends with {}: {}",
        refused.status,
        refused.stderr
    );
    ensure!(!case.ckpt.join("ckpt-1").exists(), "it was committed");
    fs::write(&file, text)?;
    case.checkpoint()?;
    let sets = (1..3).map(|number| case.ckpt.join(format!("ckpt-{number}/manifest.json")));
    let manifests: String = sets.map(|path| job::read_text(&path)).collect();
    let words = "\"incarnation\": 1";
    ensure!(
        manifests.contains(words),
        "the manifest does not have its incarnation"
    );
    case.finish(job)
}

/// The launcher fails at its second start, as for want of a node: the message has the line that continues the job, as a
/// shell reads it.
fn not_started_again(case: &RunCase) -> Result<()> {
    let case = &case.in_directory("c k");
    let launcher = case.dir.join("launcher");
    let script = format!(
        "#!/bin/sh\n[ -e {0}.ran ] && exit 1\ntouch {0}.ran\nexec \"$@\"\n",
        launcher.display()
    );
    fs::write(&launcher, script)?;
    let launch = stasis::launch(case.mpi, case.ranks, &case.ckpt, case.dir);
    let mut shell = Command::new("sh");
    shell.arg(&launcher);
    let mut command = stasis::before(shell, &launch);
    command.arg(&case.program).arg("runs");
    let run = case.at_its_cut(stasis::run(&[], &command));
    let mut job = Job::start(run, case.dir, "run")?;
    let reached = case.reach_cut(&mut job);
    job.explain(reached, case.dir)?;
    case.checkpoint()?;
    kill_rank(&job, 1);
    let status = job.wait(deadline())?.context("the job does not end")?;
    ensure!(status.code() == Some(1), "it ends with {status}");
    let said = said(&job);
    for words in [
        "could not start the job again",
        "from ckpt-1: ",
        "launch --resume",
        &format!("--ckpt-dir '{}'", case.ckpt.display()),
    ] {
        ensure!(said.contains(words), "it does not say: {words}\n{said}");
    }
    Ok(())
}

/// Starts a job whose ranks have a file open, takes its checkpoint, moves the file away and kills a rank. Waits until
/// its restart was refused, and returns the file's places.
fn refuse_restart(case: &RunCase) -> Result<(Job, [PathBuf; 2])> {
    let places = ["input", "away"].map(|name| case.dir.join(name));
    let [input, away] = &places;
    fs::write(input, "some words\n")?;
    let mut launch = stasis::launch(case.mpi, case.ranks, &case.ckpt, case.dir);
    launch.arg(&case.program).arg("reads").arg(input);
    let mut job = case.start_command(case.at_its_cut(stasis::run(&[], &launch)), "run")?;
    case.checkpoint()?;
    fs::rename(input, away)?;
    kill_rank(&job, 1);
    let paused = job.until_seen("it made a pause", deadline(), |job| {
        said(job).contains("It is started in 2 s")
    });
    job.explain(paused, case.dir)?;
    Ok((job, places))
}

/// A restart is refused, since a file is missing. That is told as what it is, with the reason, and the job waits longer
/// each time. Nobody else may go on with it meanwhile. It goes on by itself when the file is back.
fn refused_restart(case: &RunCase) -> Result<()> {
    let (mut job, [input, away]) = refuse_restart(case)?;
    let restart = stasis::restart(case.mpi, case.ranks, &case.ckpt, case.dir);
    let beside = job::run(restart, case.dir, "beside", LIMIT)?;
    let keeper = format!("process number {}", job.pids()[0]);
    let words: &[&[&str]] = &[&["keeps a job"], &[&keeper], &["stasis stop"]];
    refused(&beside, DIRECTORY, words)?;
    let before = stasis::job_file(&case.ckpt);
    fs::rename(away, &input)?;
    let back = stasis::until_reached(&mut job, &case.ckpt, &before, deadline());
    job.explain(back, case.dir)?;
    let said = said(&job);
    for words in [
        &format!("cannot reopen {}", input.display()),
        "move the file back to its path at the checkpoint",
        "could not be restored; the job goes on from ckpt-1",
        "It is started in 1 s, since the last start has made no progress",
    ] {
        ensure!(said.contains(words), "it does not say: {words}\n{said}");
    }
    let killed = said.matches("was killed").count();
    ensure!(killed == 1, "{killed} ranks were killed, not 1:\n{said}");
    let told = fs::read_to_string(case.ckpt.join("events.jsonl"))?;
    let failures = told.lines().filter_map(|line| {
        let event: Value = serde_json::from_str(line).ok()?;
        (event["event"] == "failure").then_some(event)
    });
    let failures: Vec<Value> = failures.collect();
    let [death, refusal, ..] = &failures[..] else {
        bail!("the history has no two failures: {told}");
    };
    let words = format!("cannot reopen {}", input.display());
    let reason = refusal["refusals"][0].as_str().unwrap_or_default();
    ensure!(
        death.get("refusals").is_none() && reason.contains(&words),
        "the history does not say: {words}\n{told}"
    );
    case.finish(job)
}

/// SIGTERM in a pause ends the job at once, with the line that continues it.
fn ended_in_a_pause(case: &RunCase) -> Result<()> {
    let (mut job, [input, away]) = refuse_restart(case)?;
    signal::send(job.pids()[0], Signal::SIGTERM);
    let status = job.wait(deadline())?.context("the job does not end")?;
    ensure!(!status.success(), "it ends with {status}");
    let said = said(&job);
    for words in [
        "as requested. To go on from ckpt-1: ",
        "stasis run ",
        "launch --resume",
    ] {
        ensure!(said.contains(words), "it does not say: {words}\n{said}");
    }
    ensure!(
        !case.ckpt.join("run.json").exists(),
        "its run file is there"
    );
    fs::rename(away, input)?;
    let restart = stasis::restart(case.mpi, case.ranks, &case.ckpt, case.dir);
    case.finish(Job::start(case.at_its_cut(restart), case.dir, "restart")?)
}

/// The checkpoint directory is full when a rank dies: the job waits, and goes on when there is room. It is full again
/// when the job is to end with a checkpoint: it ends without one, and says how it can go on.
fn full_directory(case: &RunCase) -> Result<()> {
    let mut job = case.start(&[], "runs", "run")?;
    case.checkpoint()?;
    let filler = case.ckpt.join("filler");
    fill(&filler)?;
    kill_rank(&job, 1);
    let paused = job.until_seen("it made a pause", deadline(), |job| {
        said(job).contains("It is started in 1 s")
    });
    job.explain(paused, case.dir)?;
    let words = format!("cannot write {}", case.ckpt.join("run.json").display());
    let text = said(&job);
    ensure!(text.contains(&words), "it does not say: {words}\n{text}");
    let before = stasis::job_file(&case.ckpt);
    fs::remove_file(&filler)?;
    let back = stasis::until_reached(&mut job, &case.ckpt, &before, deadline());
    job.explain(back, case.dir)?;
    fill(&filler)?;
    signal::send(job.pids()[0], Signal::SIGTERM);
    job.wait(deadline())?.context("the job does not end")?;
    let text = said(&job);
    for words in ["was not taken, so the job ends", "To go on from ckpt-1: "] {
        ensure!(text.contains(words), "it does not say: {words}\n{text}");
    }
    fs::remove_file(&filler)?;
    let restart = stasis::restart(case.mpi, case.ranks, &case.ckpt, case.dir);
    case.finish(Job::start(case.at_its_cut(restart), case.dir, "restart")?)
}

/// Fills a file system with a file.
fn fill(filler: &Path) -> Result<()> {
    let filled = fs::File::open("/dev/zero")
        .and_then(|mut zeros| io::copy(&mut zeros, &mut fs::File::create(filler)?));
    let why = filled.err().map(|why| why.kind());
    ensure!(
        why == Some(io::ErrorKind::StorageFull),
        "it is not full: {why:?}"
    );
    Ok(())
}

/// No rank sees the checkpoint directory, so none reaches `stasis run`. It says that they could not start.
fn directory_unseen(case: &RunCase) -> Result<()> {
    let text = format!(
        r#"exec unshare --mount sh -c 'mount -t tmpfs tmpfs "$0" && exec "$@"' '{}' "$@""#,
        case.ckpt.display()
    );
    let mut launch = stasis::launch(case.mpi, case.ranks, &case.ckpt, case.dir);
    launch.arg(&case.program).arg("runs");
    let command = stasis::before(Command::new(script(case, &text)?), &launch);
    let run = job::run(stasis::run(&[], &command), case.dir, "run", LIMIT)?;
    let why: &[&[&str]] = &[&["is missing or empty"], &["a rank could not start"]];
    refused(&run, CANNOT_SERVE, why)?;
    ensure!(!run.stderr.contains(GOES_ON), "it was started again");
    Ok(())
}

/// Lines that cannot be run are refused at once.
fn not_started(case: &RunCase) -> Result<()> {
    let mut bare = case.mpi.mpirun(case.ranks, case.dir);
    bare.arg(&case.program);
    let bare = job::run(stasis::run(&[], &bare), case.dir, "bare", LIMIT)?;
    refused(&bare, USAGE, &[&["stasis launch"], &["mpirun"]])?;

    let mut missing = Command::new("/nowhere/mpirun");
    missing.args(["-n", "2", "stasis", "launch", "--ckpt-dir"]);
    missing.arg(&case.ckpt).arg(&case.program);
    let missing = job::run(stasis::run(&[], &missing), case.dir, "missing", LIMIT)?;
    refused(&missing, USAGE, &[&["/nowhere/mpirun"]])?;
    ensure!(!case.ckpt.join("run.json").exists(), "a run file was left");

    let mut launch = stasis::launch(case.mpi, case.ranks, &case.ckpt, case.dir);
    launch.arg(&case.program);
    let run = stasis::run(&["--spares", "1"], &launch);
    let spares = job::run(run, case.dir, "spares", LIMIT)?;
    refused(&spares, USAGE, &[&["--spares 1"], &["--hostfile FILE"]])
}
