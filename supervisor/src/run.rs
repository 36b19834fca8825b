//! The loop of `stasis run`: signals, processes and the keeper around the machine of [`recovery`](crate::recovery).

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use coordinator::job_file::JobFile;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use crate::command_line;
use crate::epochs::{self, Epochs};
use crate::hang::Watch;
use crate::keeper::Keeper;
use crate::processes;
use crate::recovery::{Failure, GivenUp, LauncherEnd, Order, Policy, Recovery};
use crate::run_file::{self, RunFile};

/// Time for the launcher to end after its ranks were killed: first before SIGTERM, then before SIGKILL.
const GRACE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// Time for survivors to write their memory. A rank that takes longer is started anew.
const PATIENCE: Duration = Duration::from_secs(60);

/// Signals that the user sends to the job.
const SIGNALS: [Signal; 7] = [
    Signal::SIGCHLD,
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// A job to run.
pub struct Job {
    /// The user's command line.
    pub line: Vec<OsString>,
    /// The checkpoint directory, which exists.
    pub directory: PathBuf,
    /// Treatment of failures.
    pub policy: Policy,
    /// Time without progress of any rank that is a failure.
    pub hang: Option<Duration>,
    /// Whether the program saves its state itself, and survivors of a death go on in their memory (MPI Stages).
    pub stages: bool,
    /// Whether standard input is a terminal, which sends signals to all processes of a job.
    pub terminal: bool,
}

/// What the loop needs to know about checkpoints, and tells the user.
pub trait Surroundings {
    /// Number of the newest committed checkpoint.
    fn newest(&self) -> Option<u64>;
    /// Whether the job has ended with a checkpoint, as requested.
    fn has_ended(&self) -> bool;
    /// Command that takes a checkpoint with which the job ends.
    fn stop_command(&self) -> Command;
    /// No rank makes progress; what each is doing.
    fn hangs(&self, ranks: &[String]);
    /// The job is started again after a failure.
    fn recovers(&self, failure: Failure, newest: Option<u64>, failures: u32);
    /// These ranks are started anew, too, although they live; and why.
    fn without_memory(&self, ranks: &[(Option<u32>, &str)]);
    /// A job of MPI Stages ends, because of a failure in or after MPI_Finalize.
    fn too_late(&self, failure: Failure);
    /// The job is not started again.
    fn given_up(&self, failure: Failure, why: GivenUp);
}

/// Reason why the job cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The run file.
    #[error(transparent)]
    File(#[from] run_file::Error),
    /// The launcher cannot be started.
    #[error("cannot start {}: {why}", program.display())]
    Start {
        /// The launcher.
        program: OsString,
        /// Error of execve.
        why: io::Error,
    },
    /// The system refuses something.
    #[error("cannot {what}: {why}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Its error.
        why: io::Error,
    },
}

fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Error {
    move |why| Error::System {
        what,
        why: why.into(),
    }
}

/// Runs a job to its end. Returns the exit code of the last launcher. Call it while the process has one thread, since
/// signals are blocked for all threads that come.
pub fn run(job: &Job, surroundings: &impl Surroundings) -> Result<i32, Error> {
    let before = RunFile::take_over(&job.directory)?;
    let signals = SigSet::from_iter(SIGNALS);
    signals.thread_block().map_err(system("block signals"))?;
    let signals = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
        .map_err(system("read signals"))?;
    processes::adopt_orphans().map_err(system("adopt the orphans of the job"))?;
    let incarnation = before.as_ref().map_or(0, |file| file.incarnation);
    let keeper = Keeper::new(incarnation).map_err(system("listen for ranks"))?;
    let watch = job
        .hang
        .map(|limit| Watch::start(job.directory.clone(), limit));
    let watch = watch.transpose().map_err(system("watch the job"))?;
    let mut running = Running {
        job,
        surroundings,
        machine: Recovery::new(job.policy),
        keeper,
        watch,
        signals,
        incarnation,
        launcher: None,
        stop: None,
        end: None,
        killing: None,
        surviving: None,
        aborted: None,
        finished: false,
    };
    if before.is_none() && job.stages {
        epochs::remove(&job.directory).map_err(system("remove older epochs"))?;
    }
    // A run file that was left behind is that of a `stasis run` that was killed: its job goes on.
    running.start(before.is_some())?;
    while !running.finished {
        running.turn()?;
    }
    if job.stages {
        epochs::remove(&job.directory).map_err(system("remove the epochs"))?;
    }
    RunFile::remove(&job.directory);
    let code = running.end.map_or(0, LauncherEnd::code);
    Ok(running.aborted.unwrap_or(code))
}

struct Running<'a, S> {
    job: &'a Job,
    surroundings: &'a S,
    machine: Recovery,
    keeper: Keeper,
    watch: Option<Watch>,
    signals: SignalFd,
    incarnation: u32,
    launcher: Option<Pid>,
    /// The command that takes the last checkpoint.
    stop: Option<Pid>,
    /// End of the last launcher.
    end: Option<LauncherEnd>,
    /// Since when the incarnation is being killed, and the signals that the launcher has had.
    killing: Option<(Instant, usize)>,
    /// Since when the living ranks write their memory (MPI Stages).
    surviving: Option<Instant>,
    /// The code of a rank that has ended the job and could not tell the launcher (MPI Stages).
    aborted: Option<i32>,
    finished: bool,
}

impl<S: Surroundings> Running<'_, S> {
    fn start(&mut self, resume: bool) -> Result<(), Error> {
        self.incarnation += 1;
        self.keeper.next(self.incarnation);
        let (socket, token) = (self.keeper.socket().into(), self.keeper.token().into());
        RunFile::new(socket, token, self.incarnation).write(&self.job.directory)?;
        let line = match self.job.stages {
            true => {
                let epoch = self.epoch();
                let begun = epochs::begin(&self.job.directory, self.incarnation - 1, epoch);
                begun.map_err(system("remove later epochs"))?;
                command_line::of_stages(&self.job.line, self.incarnation, epoch)
            }
            false => command_line::of_incarnation(&self.job.line, self.incarnation, resume),
        };
        let [program, arguments @ ..] = line.as_slice() else {
            return Ok(());
        };
        let mut command = Command::new(program);
        command.args(arguments);
        if resume {
            command.env_remove("STASIS_ANEW");
        }
        if !self.job.terminal {
            // A signal to this process's group is then passed on once.
            command.process_group(0);
        }
        let started = command.spawn().map_err(|why| Error::Start {
            program: program.clone(),
            why,
        });
        if started.is_err() {
            RunFile::remove(&self.job.directory);
        }
        self.launcher = Some(Pid::from_raw(started?.id().cast_signed()));
        Ok(())
    }

    /// The newest epoch that all ranks have.
    fn epoch(&self) -> u64 {
        let epochs = Epochs::of(&epochs::directory(&self.job.directory));
        epochs.map_or(0, |epochs| epochs.common())
    }

    /// The newest checkpoint or, of a job of MPI Stages, epoch.
    fn newest(&self) -> Option<u64> {
        match self.job.stages {
            true => Some(self.epoch()).filter(|epoch| *epoch > 0),
            false => self.surroundings.newest(),
        }
    }

    /// Kills what is left, if all survivors have written their memory.
    fn treat_survivors(&mut self) {
        let late = self
            .surviving
            .is_some_and(|since| since.elapsed() >= PATIENCE);
        if self.surviving.is_none() || !(late || self.keeper.have_answered()) {
            return;
        }
        self.surviving = None;
        if let Some(failure) = self
            .machine
            .failure()
            .filter(|_| self.keeper.is_finalising())
        {
            self.surroundings.too_late(failure);
            self.machine.end_wanted();
        } else {
            self.surroundings
                .without_memory(&self.keeper.without_memory());
        }
        self.kill();
    }

    fn kill(&mut self) {
        self.killing = Some((Instant::now(), 0));
        self.keeper.kill();
    }

    /// Waits for an event and treats it.
    fn turn(&mut self) -> Result<(), Error> {
        let limit = self.until_next_signal();
        let mut descriptors = self.keeper.descriptors();
        descriptors.push(self.signals.as_fd());
        descriptors.extend(self.watch.as_ref().map(|watch| watch.wake.as_fd()));
        let watched = descriptors.into_iter();
        let mut watched: Vec<PollFd<'_>> = watched
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
            .collect();
        let _ = poll(&mut watched, limit);
        while let Ok(Some(signal)) = self.signals.read_signal() {
            // The kernel itself sends the signals of a terminal, to all processes in the foreground.
            let by_terminal = self.job.terminal && signal.ssi_code == libc::SI_KERNEL;
            if let Ok(signal) = Signal::try_from(signal.ssi_signo.cast_signed()) {
                self.signal(signal, by_terminal)?;
            }
        }
        self.treat_hang()?;
        self.treat_ranks()?;
        self.treat_survivors();
        for (pid, end) in processes::ended() {
            if self.launcher == Some(pid) {
                (self.launcher, self.end) = (None, Some(end));
                // Its ranks may have said before why they end.
                self.treat_ranks()?;
                let ends = self.surroundings.has_ended();
                let order = self.machine.launcher_ended(end, ends);
                self.obey(order)?;
            } else if self.stop == Some(pid) {
                self.stop = None;
                if end != LauncherEnd::Exited(0) {
                    let order = self.machine.stop_failed();
                    self.obey(order)?;
                }
            }
        }
        self.kill_on();
        if self.killing.is_some() && self.is_dead() {
            let failure = self.machine.failure();
            let newest = self.newest();
            let order = self.machine.all_dead(newest);
            match (failure, order) {
                (Some(failure), Some(Order::Start { failures })) => {
                    self.surroundings.recovers(failure, newest, failures);
                }
                (Some(failure), Some(Order::Finish(Some(why)))) => {
                    self.surroundings.given_up(failure, why);
                }
                _ => {}
            }
            self.obey(order)?;
        }
        Ok(())
    }

    fn treat_ranks(&mut self) -> Result<(), Error> {
        let all = self.keeper.turn();
        let ends = !all.is_empty() && self.surroundings.has_ended();
        for left in all {
            let order = self.machine.rank_left(left.rank, left.how, ends);
            self.obey(order)?;
        }
        if self.surviving.is_none() && self.killing.is_none() {
            // The launcher is to see the death of a rank after which the job is not started again.
            self.keeper.kill_stand_ins(false);
            if self.aborted.is_none() && self.keeper.ends_job().is_some() {
                self.aborted = self.keeper.ends_job();
                self.obey(Some(Order::Terminate))?;
            }
        }
        Ok(())
    }

    fn treat_hang(&mut self) -> Result<(), Error> {
        let Some(watch) = &mut self.watch else {
            return Ok(());
        };
        // Only wakes this thread.
        let _ = watch.wake.read(&mut [0; 16]);
        let Ok(hang) = watch.found.try_recv() else {
            return Ok(());
        };
        // An older incarnation may have been looked at.
        let runs = JobFile::read(&self.job.directory).is_ok_and(|job| job.id == hang.job);
        if runs {
            let order = self.machine.hangs();
            if order.is_some() {
                self.surroundings.hangs(&hang.ranks);
            }
            self.obey(order)?;
        }
        Ok(())
    }

    fn signal(&mut self, signal: Signal, by_terminal: bool) -> Result<(), Error> {
        let order = match signal {
            Signal::SIGCHLD => return Ok(()),
            Signal::SIGTERM => self.machine.terminate(),
            signal => {
                if !matches!(signal, Signal::SIGUSR1 | Signal::SIGUSR2) {
                    self.machine.end_wanted();
                }
                if let Some(launcher) = self.launcher.filter(|_| !by_terminal) {
                    processes::send(launcher, signal);
                }
                None
            }
        };
        self.obey(order)
    }

    fn obey(&mut self, order: Option<Order>) -> Result<(), Error> {
        match order {
            None => {}
            // Before the first epoch there is nothing to go on from.
            Some(Order::Kill) => {
                match self.job.stages && self.epoch() > 0 && self.keeper.ask_to_survive() {
                    true => self.surviving = Some(Instant::now()),
                    false => self.kill(),
                }
            }
            Some(Order::Start { .. }) => {
                self.killing = None;
                self.start(true)?;
            }
            Some(Order::Stop) => {
                let stop = self.surroundings.stop_command().spawn();
                match stop {
                    Ok(child) => self.stop = Some(Pid::from_raw(child.id().cast_signed())),
                    Err(_) => {
                        let order = self.machine.stop_failed();
                        self.obey(order)?;
                    }
                }
            }
            Some(Order::Terminate) => {
                if let Some(launcher) = self.launcher {
                    processes::send(launcher, Signal::SIGTERM);
                }
            }
            Some(Order::Finish(_)) => self.finished = true,
        }
        Ok(())
    }

    /// While the incarnation is being killed: sends the launcher the signals that are due. After its end, kills
    /// what it has left.
    fn kill_on(&mut self) {
        let Some((since, sent)) = &mut self.killing else {
            return;
        };
        self.keeper.kill();
        match self.launcher {
            Some(launcher) => {
                while GRACE
                    .get(*sent)
                    .is_some_and(|grace| since.elapsed() >= *grace)
                {
                    let signal = [Signal::SIGTERM, Signal::SIGKILL][*sent];
                    processes::send(launcher, signal);
                    *sent += 1;
                }
            }
            None => {
                for child in processes::children() {
                    processes::send(child, Signal::SIGKILL);
                }
            }
        }
    }

    /// Time until the launcher is to be sent the next signal.
    fn until_next_signal(&self) -> PollTimeout {
        if let Some(since) = self.surviving {
            let left = PATIENCE.saturating_sub(since.elapsed()) + Duration::from_millis(1);
            return PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        }
        let Some((since, sent)) = self.killing else {
            return PollTimeout::NONE;
        };
        let due = GRACE
            .get(sent)
            .map(|grace| grace.saturating_sub(since.elapsed()));
        let due = due.map(|due| due + Duration::from_millis(1));
        due.map_or(PollTimeout::NONE, |due| {
            PollTimeout::try_from(due).unwrap_or(PollTimeout::MAX)
        })
    }

    /// Whether no process of the incarnation lives on this machine.
    fn is_dead(&self) -> bool {
        self.launcher.is_none() && self.keeper.all_dead() && processes::children().is_empty()
    }
}
