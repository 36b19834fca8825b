//! The loop of `stasis run`: signals, processes and the keeper around the machine of [`recovery`](crate::recovery).

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use ckpt_image::SealKey;
use coordinator::claim;
use coordinator::job_file::{self, JobFile};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::sys::signal::{raise, SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use crate::command_line;
use crate::epochs::{self, Epochs};
use crate::hang::Watch;
use crate::hosts::{self, LostHost, Machines, Placed};
use crate::input::Input;
use crate::keeper::{self, Keeper};
use crate::leases::Terms;
use crate::memory_sets::{MemorySets, Word, COPY_KILLED};
use crate::messages::{Refusal, ToRank};
use crate::node_messages::ToNode;
use crate::pauses::Pauses;
use crate::processes;
use crate::recovery::{Departure, Failure, GivenUp, LauncherEnd, Order, Policy, Recovery};
use crate::remote::{Answer, Remote, RunPath};
use crate::rescue::{self, Rescue};
use crate::run_file::{self, RunFile, RUN_FILE};
use crate::standby::{self, Way};
use crate::standby_world::{Kind, StandbyWorld};
use crate::unblocked;

/// Time for the launcher to end after its ranks were killed: first before SIGTERM, then before SIGKILL.
const GRACE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];
/// The same if a machine does not answer: the launcher waits for its daemon there.
const GRACE_ON_SILENCE: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(2)];

/// Interval of the signals that tell a launcher that its ranks are dead.
const NUDGE: Duration = Duration::from_millis(10);

/// Time for the ranks of a killed `stasis run` to notice that.
const ORPHANS_END: Duration = Duration::from_secs(5);

/// Time for survivors to write their memory. A rank that takes longer is started anew.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reason for the end of a job with a rank that has refused to start.
const REFUSED: &str = "a rank could not start, for the reason that its own message has";

/// Reason for the end of a job whose last checkpoint was not taken.
const NO_LAST: &str =
    "the checkpoint with which the job was to end was not taken, so the job ends without it";

/// Reason for the end of a job that the user ends between two incarnations.
const NOT_AGAIN: &str = "the job ends before its next start, as requested";

/// Time after which a process that was killed should have ended.
const LATE: Duration = Duration::from_secs(10);

/// Leases after which a launcher lets the others go on when the program has ended a rank. Slurm, which can be told to
/// end them, gives them 30 s (`KillWait`), and the default is twice that.
const TO_END: u32 = 20;

/// Interval at which it is looked whether there is memory for checkpoints in memory.
const LOOK: Duration = Duration::from_secs(1);

/// The signal by which `stasis stop` tells that the user ends the job. A shell has the background jobs of a script
/// ignore SIGINT and SIGQUIT, and nohup(1) has its command ignore SIGHUP.
pub const END: Signal = Signal::SIGPWR;

/// Signals that the user sends to the job.
const SIGNALS: [Signal; 10] = [
    Signal::SIGCHLD,
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGXCPU,
    Signal::SIGTSTP,
    END,
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
    /// The standby world that is kept.
    pub standby: Kind,
    /// The key that seals checkpoints.
    pub key: Option<SealKey>,
    /// Leases of the ranks on other machines.
    pub terms: Terms,
    /// Use of the machines.
    pub machines: Machines,
    /// Whether the program saves its state itself, and survivors of a death go on in their memory (MPI Stages).
    pub stages: bool,
    /// Exit code of a rank that cannot be served.
    pub refusal: i32,
    /// Whether standard input is a terminal, which sends signals to all processes of a job.
    pub terminal: bool,
}

/// What the loop needs to know about checkpoints, and tells the user.
pub trait Surroundings {
    /// Puts aside what earlier jobs have left in the directory, before the first start. A rank does so as well, but the
    /// job can die before: its next start would go on from a checkpoint of another job.
    ///
    /// # Errors
    /// The job must not begin in this directory.
    fn make_free(&self) -> Result<(), Box<dyn std::error::Error + Send + Sync>>;
    /// Number of the newest committed checkpoint.
    fn newest(&self) -> Option<u64>;
    /// Whether the job has ended with a checkpoint, as requested.
    fn has_ended(&self) -> bool;
    /// Command that takes a checkpoint with which the job ends.
    fn stop_command(&self) -> Command;
    /// No rank makes progress; what each is doing.
    fn hangs(&self, ranks: &[String]);
    /// Ranks of another machine are lost, one line each.
    fn lost(&self, ranks: &[String]);
    /// Ranks of an earlier `stasis run` on other machines may live for so long.
    fn waits(&self, time: Duration);
    /// An image of the checkpoint of this number cannot be used, for this reason. It is left out from now on. Without
    /// a reason, an earlier `stasis run` has said so.
    fn leave_out(&self, set: u64, why: Option<&str>);
    /// The job goes on after a failure, and how.
    fn recovers(&self, failure: Failure, newest: Option<u64>, failures: u32, next: Next);
    /// Ranks could not be started or restored, or the run file could not be written, for these reasons.
    fn refusals(&self, why: &[String]);
    /// The job ends, for this reason, and can be continued.
    fn ends(&self, why: &str);
    /// Whether the memory of this machine suffices for `ranks` sleeping ranks more; otherwise why not.
    ///
    /// # Errors
    /// The reason why it does not.
    fn room(&self, ranks: usize) -> Result<(), String>;
    /// Whether the memory of this machine suffices for the images of a checkpoint; otherwise the user is told. It is
    /// asked when a checkpoint has been taken, and when a restart has succeeded. The images of `instead_of` are mapped
    /// at present, and are unmapped before.
    fn room_to_map(&self, set: u64, instead_of: Option<u64>) -> bool;
    /// There is no standby world until the next checkpoint.
    fn no_standby(&self, why: &str);
    /// Whether the memory of this machine still suffices for checkpoints in memory; otherwise why not.
    ///
    /// # Errors
    /// The reason why it does not.
    fn room_to_hold(&self) -> Result<(), String>;
    /// The checkpoint in memory is given up, for this reason.
    fn not_held(&self, why: &str);
    /// The checkpoint in memory is written now, or cannot be.
    fn rescued(&self, set: u64, result: Result<(), rescue::Error>);
    /// The job ends, since a rank asks for what it cannot have.
    fn refused(&self, why: &str);
    /// These processes were killed and do not end, and the job waits for their ends.
    fn do_not_end(&self, processes: &[String]);
    /// The launcher could not start the job again.
    fn not_started(&self, end: LauncherEnd);
    /// No spare machine is left for the lost ones of these names, and the others have no room: the job ends.
    fn no_room(&self, lost: &str);
    /// These ranks are started anew, too, although they live; and why.
    fn without_memory(&self, ranks: &[(Option<u32>, &str)]);
    /// A job of MPI Stages ends, because of a failure in or after MPI_Finalize.
    fn too_late(&self, failure: Failure);
    /// The job is not started again.
    fn given_up(&self, failure: Failure, why: GivenUp);
}

/// How the next incarnation begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Next {
    /// By which ranks.
    pub way: Way,
    /// After which time.
    pub pause: Duration,
}

/// Reason why the job cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The run file.
    #[error(transparent)]
    File(#[from] run_file::Error),
    /// Another job runs in the directory, or may run there.
    #[error(transparent)]
    Directory(#[from] job_file::Error),
    /// The directory holds checkpoints of an earlier job.
    #[error(transparent)]
    NotFree(Box<dyn std::error::Error + Send + Sync>),
    /// The job cannot be placed on its machines.
    #[error("--spares {spares}: {why}")]
    Machines {
        /// Number of spare machines.
        spares: usize,
        /// Why not.
        why: hosts::Error,
    },
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

/// Ensures that no job runs in `directory` without `stasis run`: its checkpoints would be taken for those of the new
/// job. `left_behind` tells that a `stasis run` was killed there. Its ranks on this machine end by themselves.
fn await_free(directory: &Path, left_behind: bool) -> Result<(), job_file::Error> {
    let limit = Instant::now() + ORPHANS_END;
    loop {
        match claim::check_free(directory) {
            // No event tells of the end of processes that are no children.
            Err(job_file::Error::Taken { .. }) if left_behind && Instant::now() < limit => {
                std::thread::sleep(NUDGE);
            }
            done => return done,
        }
    }
}

/// Runs a job to its end. Returns the exit code of the last launcher. Call it while the process has one thread, since
/// signals are blocked for all threads that come.
///
/// # Errors
/// The job cannot be run: [`Error::File`] if the run file cannot be used or another `stasis run` keeps the job,
/// [`Error::Directory`] if another job runs in the directory, [`Error::NotFree`] if it holds what must not be lost,
/// [`Error::Machines`] for its spare machines, [`Error::Start`] for the launcher, [`Error::System`] for all else.
pub fn run(job: &Job, surroundings: &impl Surroundings) -> Result<i32, Error> {
    let spares = job.machines.spares;
    let placed = job.machines.place(&job.line, &[], None, &job.directory);
    let placed = placed.map_err(|why| Error::Machines { spares, why })?;
    let before = RunFile::left_behind(&job.directory)?;
    let used = before.as_ref().and_then(|file| file.network.as_ref());
    let used = used.filter(|network| network.used);
    if let Some(network) = used {
        let time = network.terms.until_dead();
        surroundings.waits(time);
        std::thread::sleep(time);
    }
    await_free(&job.directory, before.is_some())?;
    if before.is_none() {
        surroundings.make_free().map_err(Error::NotFree)?;
    }
    // One that was ignored from the beginning stays so for the launcher, too: SIGHUP below nohup(1).
    let heard = SIGNALS.into_iter();
    let heard = heard.filter(|signal| *signal == Signal::SIGCHLD || !processes::ignores(*signal));
    let signals: SigSet = heard.collect();
    signals.thread_block().map_err(system("block signals"))?;
    let signals = SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
        .map_err(system("read signals"))?;
    processes::adopt_orphans().map_err(system("adopt the orphans of the job"))?;
    let incarnation = before.as_ref().map_or(0, |file| file.incarnation);
    let keeper = Keeper::new(incarnation).map_err(system("listen for ranks"))?;
    let remote = Remote::start(job.terms).map_err(system("listen for ranks of other machines"))?;
    let watch = job
        .hang
        .map(|limit| Watch::start(job.directory.clone(), limit));
    let watch = watch.transpose().map_err(system("watch the job"))?;
    let mut running = Running {
        job,
        surroundings,
        machine: Recovery::new(job.policy),
        keeper,
        remote,
        watch,
        signals,
        incarnation,
        first: incarnation + 1,
        lost_hosts: Vec::new(),
        placed,
        left_out: before
            .as_ref()
            .map_or_else(Vec::new, |file| file.left_out.clone()),
        launcher: None,
        issued: incarnation,
        standby: StandbyWorld::new(&job.directory, job.standby),
        input: None,
        stop: None,
        end: None,
        awaiting: None,
        unstarted: None,
        own_end: None,
        killing: None,
        surviving: None,
        aborted: None,
        memory: MemorySets::default(),
        looked: Instant::now(),
        rescue: None,
        begun: Instant::now(),
        pauses: Pauses::default(),
        due: None,
        refusals: Vec::new(),
        finished: false,
        given_up: false,
        said_end: false,
        told_late: false,
    };
    for set in &running.left_out {
        surroundings.leave_out(*set, None);
    }
    if before.is_none() && job.stages {
        epochs::remove(&job.directory).map_err(system("remove older epochs"))?;
    }
    // A run file that was left behind is that of a `stasis run` that was killed: its job goes on.
    if let Err(why) = running.start(before.is_some()) {
        if before.is_none() {
            RunFile::remove(&job.directory, RUN_FILE);
        }
        return Err(why);
    }
    while !running.finished || !running.standby.machine.is_none() {
        if let Err(why) = running.turn() {
            surroundings.ends("`stasis run` cannot go on");
            return Err(why);
        }
    }
    if job.stages {
        epochs::remove(&job.directory).map_err(system("remove the epochs"))?;
    }
    RunFile::remove(&job.directory, RUN_FILE);
    running.memory.end();
    let code = running.end.map_or(0, LauncherEnd::code);
    Ok(match running.aborted {
        Some(code) => code,
        // Launchers may end with 0 although ranks were lost.
        None if running.given_up && code == 0 => 1,
        None => code,
    })
}

struct Running<'a, S> {
    job: &'a Job,
    surroundings: &'a S,
    machine: Recovery,
    keeper: Keeper,
    remote: Remote,
    watch: Option<Watch>,
    signals: SignalFd,
    incarnation: u32,
    /// The highest number that an incarnation or a standby world has had.
    issued: u32,
    /// The first incarnation of this process.
    first: u32,
    /// Machines whose ranks did not answer.
    lost_hosts: Vec<LostHost>,
    /// The line without the lost and the spare machines.
    placed: Placed,
    /// Numbers of the checkpoints that have a damaged image, or one out of reach of all ranks.
    left_out: Vec<u64>,
    launcher: Option<Pid>,
    standby: StandbyWorld,
    /// Standard input, if the launcher was started as a standby world.
    input: Option<Input>,
    /// The command that takes the last checkpoint.
    stop: Option<Pid>,
    /// End of the last launcher.
    end: Option<LauncherEnd>,
    /// Since when its ranks are waited for, which have not said that they end.
    awaiting: Option<Instant>,
    /// Since when the launcher is waited for, because a rank has ended before it ran, or cannot go on.
    unstarted: Option<Instant>,
    /// Since when the launcher is waited for, because the program has ended a rank by its own will.
    own_end: Option<Instant>,
    /// Since when the incarnation is being killed, and the signals that the launcher has had.
    killing: Option<(Instant, usize)>,
    /// Since when the living ranks write their memory (MPI Stages).
    surviving: Option<Instant>,
    /// The code of a rank that has ended the job and could not tell the launcher.
    aborted: Option<i32>,
    /// The checkpoints in memory.
    memory: MemorySets,
    /// When it was looked last whether there is memory for them.
    looked: Instant,
    /// The checkpoint in memory that is being written, after a failure.
    rescue: Option<Rescue>,
    /// Begin of the incarnation.
    begun: Instant,
    pauses: Pauses,
    /// When the next incarnation is started, if it is not yet.
    due: Option<Instant>,
    /// Why ranks of the incarnation could not be started or restored.
    refusals: Vec<Refusal>,
    finished: bool,
    /// Whether it has failed, and is not started again.
    given_up: bool,
    /// Whether it was said why the job ends as requested.
    said_end: bool,
    /// Whether it was said which processes of the incarnation that is being killed do not end.
    told_late: bool,
}

impl<S: Surroundings> Running<'_, S> {
    /// Starts an incarnation. What fails at a later one than the first may pass, such as a full directory or a launcher
    /// on a file server that does not answer: it counts as a failure of the incarnation.
    fn start(&mut self, resume: bool) -> Result<(), Error> {
        match self.try_start(resume) {
            Err(why) if self.incarnation > self.first => {
                self.cannot_start(&why);
                Ok(())
            }
            started => started,
        }
    }

    fn cannot_start(&mut self, why: &Error) {
        self.surroundings.refusals(&[why.to_string()]);
        self.machine.cannot_start();
        self.kill();
    }

    fn try_start(&mut self, resume: bool) -> Result<(), Error> {
        self.issued += 1;
        self.incarnation = self.issued;
        self.memory.clear();
        self.refusals.clear();
        self.begun = Instant::now();
        self.keeper.next(self.incarnation);
        // The launcher reads standard input itself.
        self.input = None;
        let (file, path) = self.write_run_file()?;
        self.remote.next(file, path);
        let line = match self.job.stages {
            true => {
                let epoch = self.epoch();
                let begun = epochs::begin(&self.job.directory, self.incarnation - 1, epoch);
                begun.map_err(system("remove later epochs"))?;
                command_line::of_stages(&self.job.line, self.incarnation, epoch)
            }
            false => command_line::of_incarnation(&self.placed.line, self.incarnation, resume),
        };
        let Some(mut command) = self.command(&line, resume) else {
            return Ok(());
        };
        let started = unblocked::spawn(&mut command).map_err(|why| Error::Start {
            program: command.get_program().to_owned(),
            why,
        })?;
        self.launcher = Some(Pid::from_raw(started.id().cast_signed()));
        tracing::info!(incarnation = self.incarnation, "the launcher is started");
        Ok(())
    }

    /// Makes the present incarnation the one that may run: ranks find `stasis run` by that file.
    fn write_run_file(&mut self) -> Result<(RunFile, RunPath), Error> {
        let (socket, token) = (self.keeper.socket().into(), self.keeper.token().into());
        let network = self.remote.network();
        let network = network.map_err(system("listen for ranks of other machines"))?;
        let mut file = RunFile::new(socket, token, self.incarnation, Some(network));
        file.left_out.clone_from(&self.left_out);
        file.write(&self.job.directory, RUN_FILE)?;
        let path = RunPath {
            directory: self.job.directory.clone(),
            name: RUN_FILE,
        };
        Ok((file, path))
    }

    fn command(&self, line: &[OsString], resume: bool) -> Option<Command> {
        let (program, arguments) = line.split_first()?;
        let mut command = Command::new(program);
        command.args(arguments);
        if resume {
            command.env_remove("STASIS_ANEW");
        }
        if self.placed.crowded {
            // Hydra needs no leave.
            command.env("OMPI_MCA_rmaps_base_oversubscribe", "1");
            command.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
        }
        if command_line::may_overlap(line) {
            command.env("SLURM_OVERLAP", "1");
        }
        if !self.job.terminal {
            // A signal to this process's group is then passed on once.
            command.process_group(0);
        }
        Some(command)
    }

    /// Starts a standby world, if there is room for it.
    fn start_standby(&mut self) {
        self.issued += 1;
        let line = command_line::of_standby(&self.placed.line, self.issued);
        let Some(command) = self.command(&line, true) else {
            return;
        };
        let room = self.surroundings.room(self.keeper.ranks());
        let started = room.and_then(|()| {
            let started = self.standby.start(command, self.issued, self.job.terms);
            started.map_err(|why| why.to_string())
        });
        match started {
            Ok(()) => tracing::info!(incarnation = self.issued, "a standby world is started"),
            Err(why) => {
                self.standby.machine.refused();
                self.surroundings.no_standby(&why);
            }
        }
    }

    /// Lets the standby world go: it is the running incarnation from now on.
    fn take_over(&mut self) -> Result<(), Error> {
        let Some(world) = self.standby.take() else {
            // The machine says that there is one.
            return self.start(true);
        };
        self.incarnation = world.incarnation;
        self.memory.clear();
        self.refusals.clear();
        self.begun = Instant::now();
        self.keeper = world.keeper;
        self.remote = world.remote;
        self.launcher = world.launcher;
        let (file, path) = match self.write_run_file() {
            Ok(written) => written,
            Err(why) => {
                self.cannot_start(&why);
                return Ok(());
            }
        };
        self.remote.take_over(file, path);
        self.keeper.tell_asleep(ToRank::Go);
        self.remote.tell_asleep(ToRank::Go);
        tracing::info!(
            incarnation = self.incarnation,
            "the standby world is let go"
        );
        // The last one has an end, since its launcher is dead.
        self.input = None;
        // Without a thread the program reads no more input.
        self.input = Input::copy_to(world.input).ok();
        Ok(())
    }

    /// Places the next incarnation on the machines that are left. Returns what is to be said about them. If the user
    /// wants spare machines and none is left, that is an error: then the job has to end.
    fn place(&mut self) -> Result<Option<String>, hosts::Error> {
        if self.lost_hosts.is_empty() {
            return Ok(None);
        }
        let Job {
            line,
            machines,
            directory,
            ..
        } = self.job;
        let ranks = JobFile::read(directory).ok().map(|job| job.ranks);
        let names = self.lost_names();
        match machines.place(line, &self.lost_hosts, ranks, directory) {
            Ok(placed) => {
                let crowded = match placed.crowded {
                    true => ", with more ranks on the others than they have room for",
                    false => "",
                };
                self.placed = placed;
                Ok(Some(format!("the job goes on without {names}{crowded}")))
            }
            Err(hosts::Error::NoRoom) if machines.spares > 0 => Err(hosts::Error::NoRoom),
            Err(why) => {
                if machines.spares == 0 {
                    // A machine that was lost before may be back.
                    self.placed.line.clone_from(line);
                }
                Ok(Some(format!("{names} is not left out: {why}")))
            }
        }
    }

    fn lost_names(&self) -> String {
        let names = self.lost_hosts.iter().map(|host| host.name.as_str());
        names.collect::<Vec<_>>().join(", ")
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
        self.told_late = false;
        self.keeper.kill();
        self.remote.end();
    }

    /// Waits for an event and treats it.
    fn turn(&mut self) -> Result<(), Error> {
        let given_up = self.standby.machine.is_given_up();
        let limit = self.until_next_signal();
        let mut descriptors = self.keeper.descriptors();
        descriptors.extend(self.standby.descriptors());
        descriptors.push(self.signals.as_fd());
        descriptors.push(self.remote.descriptor());
        descriptors.extend(self.watch.as_ref().map(|watch| watch.wake.as_fd()));
        if self.killing.is_none() {
            descriptors.extend(self.memory.descriptors());
        }
        let rescue = self.rescue.as_ref().filter(|rescue| !rescue.is_over());
        descriptors.extend(rescue.map(Rescue::descriptor));
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
        self.treat_memory();
        self.treat_survivors();
        self.standby.turn();
        for (pid, end) in processes::ended() {
            if self.launcher == Some(pid) {
                (self.launcher, self.end) = (None, Some(end));
                // Its ranks may have said before why they end.
                self.treat_ranks()?;
                self.treat_end(end)?;
            } else if self.stop == Some(pid) {
                self.stop = None;
                if end != LauncherEnd::Exited(0) {
                    if !self.surroundings.has_ended() {
                        self.say_end(NO_LAST);
                    }
                    let order = self.machine.stop_failed();
                    self.obey(order)?;
                }
            } else {
                self.standby.ended(pid);
            }
        }
        if let (Some(since), Some(end)) = (self.awaiting, self.end) {
            match since.elapsed() >= self.job.terms.lease && self.has_running() {
                true => {
                    let order = self.machine.left_behind(end);
                    self.obey(order)?;
                }
                false => self.treat_end(end)?,
            }
        }
        if self
            .unstarted
            .is_some_and(|since| since.elapsed() >= self.job.terms.lease)
        {
            let order = self.machine.left_waiting();
            self.unstarted = None;
            self.obey(order)?;
        }
        let until_tolerated = self.until_tolerated();
        if until_tolerated.is_some_and(|time| time.is_zero()) {
            self.own_end = None;
            let run = self.has_running();
            let incarnation = self.incarnation;
            tracing::info!(incarnation, run, "the launcher goes on without a rank");
            let order = self.machine.goes_on_without(run);
            self.obey(order)?;
        }
        if self.due.is_some_and(|due| due <= Instant::now()) {
            self.due = None;
            if self.machine.goes_on() {
                self.start(true)?;
            }
        }
        self.kill_on();
        self.tell_late();
        if self.killing.is_some() && self.is_dead() {
            self.treat_death()?;
        }
        self.forget_standby();
        if self.standby.machine.is_given_up() && !given_up {
            let why = format!("{} of them have ended by themselves", standby::MOST_DEATHS);
            self.surroundings.no_standby(&why);
        }
        Ok(())
    }

    /// Time until the launcher is known to let the others go on, after the program has ended a rank.
    fn until_tolerated(&self) -> Option<Duration> {
        let limit = self.job.terms.lease * TO_END;
        Some(limit.saturating_sub(self.own_end?.elapsed()))
    }

    /// Whether all ranks of the incarnation have connected or were announced.
    fn has_all_ranks(&self) -> bool {
        keeper::are_all(&[self.keeper.members(), self.remote.members()].concat())
    }

    /// Whether a rank is not known to be dead and has not said that it ends.
    fn has_running(&self) -> bool {
        self.keeper.has_running() || self.remote.has_running()
    }

    /// The launcher has ended.
    fn treat_end(&mut self, end: LauncherEnd) -> Result<(), Error> {
        let ends = self.surroundings.has_ended();
        let order = self.machine.launcher_ended(end, ends, self.has_running());
        let started = self.keeper.has_ranks() || self.remote.has_ranks();
        let again = self.incarnation > self.first && !started && end.code() != 0;
        // Those that have not refused may not have reached this process, either.
        let refused = end == LauncherEnd::Exited(self.job.refusal) && !self.has_all_ranks();
        match order {
            Some(Order::Finish(None)) if again => self.surroundings.not_started(end),
            Some(Order::Finish(None)) if refused => self.surroundings.refused(REFUSED),
            _ => {}
        }
        self.obey(order)
    }

    /// Every process of the incarnation is dead.
    fn treat_death(&mut self) -> Result<(), Error> {
        if let Some(Failure::Rank(Some(rank), _)) = self.machine.failure() {
            if let Some(signal) = self.keeper.signal_of(rank) {
                self.machine.learn_signal(signal);
            }
        }
        let failure = self.machine.failure();
        if let Some(rescue) = self.rescue.take() {
            let number = rescue.number();
            let result = rescue.commit(self.job.key.as_ref());
            self.surroundings.rescued(number, result);
        }
        if self.is_refused() {
            self.surroundings.refused(REFUSED);
            self.machine.end_wanted();
        }
        let refused = self.is_refused() || self.treat_refusals();
        let newest = self.newest();
        let order = self.machine.all_dead(newest);
        if order == Some(Order::Finish(None)) && !refused && !self.job.stages {
            self.say_end(NOT_AGAIN);
        }
        tracing::info!(incarnation = self.incarnation, "the incarnation is dead");
        if let (Some(failure), Some(Order::Finish(Some(why)))) = (failure, order) {
            self.surroundings.given_up(failure, why);
            self.given_up = true;
        }
        let Some(Order::Start { failures }) = order else {
            return self.obey(order);
        };
        // Its processes are all dead if it is not ready.
        self.forget_standby();
        self.killing = None;
        let way = self.standby.machine.next_begins();
        let placed = match way {
            // Its ranks are on their machines already.
            Way::TakeOver => Ok(None),
            Way::Anew => self.place(),
        };
        let Ok(said) = placed else {
            self.surroundings.no_room(&self.lost_names());
            self.given_up = true;
            return self.obey(Some(Order::Finish(None)));
        };
        let pause = match (way, failure) {
            // No rank was refused, and the set that could not be used is not tried again.
            (Way::TakeOver, _) | (_, Some(Failure::Unusable(_))) => Duration::ZERO,
            _ => self.pauses.after(self.begun.elapsed(), failures),
        };
        if let Some(failure) = failure {
            let next = Next { way, pause };
            self.surroundings.recovers(failure, newest, failures, next);
        }
        if let Some(said) = said {
            self.surroundings.lost(&[said]);
        }
        match way {
            Way::TakeOver => self.take_over(),
            Way::Anew if pause.is_zero() => self.start(true),
            Way::Anew => {
                // A rank of the last incarnation that comes now belongs to none.
                self.keeper.next(self.issued + 1);
                self.machine.pauses();
                self.due = Some(Instant::now() + pause);
                Ok(())
            }
        }
    }

    /// Tells the user why ranks could not be started or restored. At the first start that ends the job, as the user is
    /// to hear it at once, and nothing has run that would be lost. So does a reason that cannot pass in a pause.
    /// Returns whether the job ends for it.
    fn treat_refusals(&mut self) -> bool {
        let refused = matches!(
            self.machine.failure(),
            Some(Failure::Rank(_, Departure::Refused))
        );
        if !refused {
            return false;
        }
        let all = self
            .refusals
            .iter()
            .filter_map(|refusal| refusal.why.clone());
        let all: Vec<String> = all.collect();
        self.surroundings.refusals(&all);
        let is_first = self.incarnation == self.first;
        let lasts = self.refusals.iter().any(|refusal| refusal.lasts);
        if is_first || lasts {
            if !is_first {
                self.surroundings.ends(
                    "the job is not started again, because that does not pass while it waits",
                );
            }
            self.machine.end_wanted();
            self.aborted = self.refusals.iter().map(|refusal| refusal.code).max();
        }
        is_first || lasts
    }

    /// Whether a rank that did not reach this process has refused to start: the launcher has killed the others for it,
    /// and has its exit code. It would refuse again.
    fn is_refused(&self) -> bool {
        let killed = matches!(
            self.machine.failure(),
            Some(Failure::Rank(_, Departure::Early | Departure::Unstarted))
        );
        killed && self.end == Some(LauncherEnd::Exited(self.job.refusal))
    }

    /// Forgets a standby world that has an end. While the job runs, its other processes are unknown: it has an end
    /// when this process has no children but the launcher.
    fn forget_standby(&mut self) {
        let known = [self.launcher, self.stop];
        // Of ranks that have ended.
        let held: Vec<Pid> = self.memory.pids().collect();
        let over = self.finished;
        let order = self.standby.forget(|| {
            let mut children = processes::children().into_iter();
            over || children.all(|child| known.contains(&Some(child)) || held.contains(&child))
        });
        self.obey_standby(order);
    }

    fn obey_standby(&mut self, order: Option<standby::Order>) {
        match order {
            Some(standby::Order::Start) => self.start_standby(),
            order => self.standby.obey(order),
        }
    }

    /// A standby world has ranks on the machine that does not answer, too.
    fn lose_standby(&mut self) {
        let silent = matches!(
            self.machine.failure(),
            Some(Failure::Rank(_, Departure::Silent))
        );
        if silent && self.standby.is_elsewhere() {
            let order = self.standby.machine.died();
            self.obey_standby(order);
        }
    }

    fn treat_ranks(&mut self) -> Result<(), Error> {
        let mut all = self.keeper.turn();
        let news = self.remote.turn();
        self.note_words(news.words, news.answers);
        all.extend(news.left);
        self.refusals.extend(self.keeper.refusals());
        self.refusals.extend(news.refusals);
        let unusable = [self.keeper.unusable(), news.unusable].concat();
        for (set, why) in unusable {
            // Of several ranks with such an image one suffices.
            if !self.left_out.contains(&set) {
                self.left_out.push(set);
                self.surroundings.leave_out(set, Some(&why));
                let order = self.machine.unusable(set);
                self.obey(order)?;
            }
        }
        let ends = !all.is_empty() && self.surroundings.has_ended();
        let ran = self.killing.is_none();
        for left in keeper::in_order(all) {
            let how = match left.how {
                Departure::Lost if !self.has_all_ranks() => Departure::Early,
                how => how,
            };
            let order = self.machine.rank_left(left.rank, how, ends);
            self.obey(order)?;
        }
        // Others are lost because the incarnation ends.
        if ran && self.killing.is_some() {
            self.surroundings.lost(&news.lines);
        }
        for host in news.lost_hosts {
            if !self.lost_hosts.contains(&host) {
                self.lost_hosts.push(host);
            }
        }
        // A job that takes its last checkpoint needs no standby world.
        let goes_on = self.killing.is_none() && self.stop.is_none();
        let covered = self.keeper.covered().max(news.covered);
        if let Some(set) = covered.filter(|_| goes_on) {
            self.memory.written(set);
            self.tell_nodes();
            self.treat_checkpoint(set);
        }
        if self.surviving.is_none() && self.killing.is_none() {
            // The launcher is to see the death of a rank after which the job is not started again.
            self.keeper.kill_stand_ins(false);
            let ends_job = self.keeper.ends_job().or(news.ends_job.as_ref());
            if let (None, Some(end)) = (self.aborted, ends_job) {
                self.aborted = Some(end.code);
                if let Some(why) = &end.why {
                    self.surroundings.refused(why);
                }
                // Hydra's daemon does not come to an end while ranks wait for others in MPI_Init.
                self.kill();
            }
        }
        Ok(())
    }

    /// Notes what was said about checkpoints in memory, here and on `elsewhere`.
    fn note_words(&mut self, elsewhere: Vec<Word>, answers: Vec<Answer>) {
        for word in elsewhere.into_iter().chain(self.keeper.words()) {
            if let Some(why) = self.memory.note(word) {
                self.surroundings.not_held(&why);
            }
        }
        for answer in answers {
            if answer.image.is_none() && self.memory.lose_node(answer.node) {
                let why = rescue::Error::NodeLost(answer.host.clone());
                self.surroundings.not_held(&why.to_string());
            }
            if let Some(rescue) = &self.rescue {
                rescue.note(answer);
            }
        }
        self.tell_nodes();
    }

    /// Tells node keepers which images nobody needs any more.
    fn tell_nodes(&mut self) {
        let orders = self.remote.orders();
        for (node, set) in self.memory.untold() {
            orders.tell(node, &ToNode::Drop(set));
        }
    }

    /// The job runs, and would go on from this checkpoint.
    fn treat_checkpoint(&mut self, set: u64) {
        tracing::info!(
            incarnation = self.incarnation,
            set,
            "the job runs and has a checkpoint"
        );
        let has_room = !self.standby.is_hot() || {
            let instead_of = self.standby.mapped();
            self.surroundings.room_to_map(set, instead_of)
        };
        let order = self.standby.covered(set, has_room);
        self.obey_standby(order);
    }

    /// Gives up checkpoints in memory for which there is no room.
    fn treat_memory(&mut self) {
        if self.memory.is_empty() || self.killing.is_some() {
            return;
        }
        if self.memory.lose() {
            self.surroundings.not_held(COPY_KILLED);
        }
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            if let Err(why) = self.surroundings.room_to_hold() {
                self.memory.clear();
                self.surroundings.not_held(&why);
            }
        }
        self.tell_nodes();
    }

    /// Begins to write the checkpoint in memory, if the job can go on from it.
    fn rescue(&mut self) {
        let set = self.memory.take();
        self.tell_nodes();
        let Some(set) = set else {
            return;
        };
        let number = set.number();
        if self.newest().is_some_and(|newest| newest >= number) {
            // The next incarnation has node keepers give up all that they hold.
            return;
        }
        match Rescue::start(&self.job.directory, set, self.remote.orders()) {
            Ok(rescue) => {
                // Somebody may have stopped them with the ranks.
                let children = rescue.children().iter();
                children.for_each(|child| processes::send(*child, Signal::SIGCONT));
                self.rescue = Some(rescue);
            }
            Err(why) => self.surroundings.rescued(number, Err(why.into())),
        }
    }

    /// The checkpoint that is being written is lost: the user does not wait for it.
    fn give_up_rescue(&self) {
        let children = self.rescue.iter().flat_map(Rescue::children);
        children.for_each(|child| processes::send(*child, Signal::SIGKILL));
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
            Signal::SIGTSTP => {
                self.stop_until_continued(by_terminal);
                return Ok(());
            }
            // A batch system sends the latter shortly before it ends the job.
            Signal::SIGTERM | Signal::SIGXCPU => {
                if self.machine.is_asked() {
                    self.give_up_rescue();
                }
                self.machine.terminate()
            }
            signal => {
                if let Some(launcher) = self.launcher.filter(|_| !by_terminal) {
                    // No launcher handles SIGPWR.
                    let passed_on = match signal {
                        END => Signal::SIGINT,
                        signal => signal,
                    };
                    processes::send(launcher, passed_on);
                }
                match signal {
                    Signal::SIGUSR1 | Signal::SIGUSR2 => None,
                    _ => self.machine.end_wanted(),
                }
            }
        };
        if self.due.is_some() && order.is_some() {
            self.say_end(NOT_AGAIN);
        }
        self.obey(order)
    }

    /// Says why the job ends as requested, once: a death during the last checkpoint is noticed in several ways.
    fn say_end(&mut self, why: &str) {
        if !std::mem::replace(&mut self.said_end, true) {
            self.surroundings.ends(why);
        }
    }

    /// Stops this process, with the launcher, as the shell expects, until it is continued.
    fn stop_until_continued(&self, by_terminal: bool) {
        let launcher = self.launcher.filter(|_| !by_terminal);
        let tell = |signal| {
            if let Some(launcher) = launcher {
                processes::send(launcher, signal);
            }
        };
        tell(Signal::SIGTSTP);
        // The kernel's own action, which stops no process that nobody could continue.
        let stop = SigSet::from_iter([Signal::SIGTSTP]);
        if raise(Signal::SIGTSTP).is_ok() && stop.thread_unblock().is_ok() {
            let _ = stop.thread_block();
        }
        tell(Signal::SIGCONT);
    }

    fn obey(&mut self, order: Option<Order>) -> Result<(), Error> {
        if matches!(order, Some(Order::Kill | Order::Finish(_))) {
            (self.awaiting, self.unstarted, self.own_end) = (None, None, None);
        }
        match order {
            // The latter has been obeyed when the incarnation was found dead.
            None | Some(Order::Start { .. }) => {}
            Some(Order::Kill) => {
                tracing::info!(incarnation = self.incarnation, "the incarnation has failed");
                // Before the first epoch there is nothing to go on from.
                match self.job.stages && self.epoch() > 0 && self.keeper.ask_to_survive() {
                    true => self.surviving = Some(Instant::now()),
                    false => {
                        self.rescue();
                        self.kill();
                    }
                }
                self.lose_standby();
                let order = self.standby.machine.job_fails();
                self.obey_standby(order);
            }
            Some(Order::Stop) => {
                let stop = unblocked::spawn(&mut self.surroundings.stop_command());
                match stop {
                    Ok(child) => self.stop = Some(Pid::from_raw(child.id().cast_signed())),
                    Err(_) => {
                        self.say_end(NO_LAST);
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
            Some(Order::Await) => {
                self.awaiting.get_or_insert_with(Instant::now);
            }
            Some(Order::AwaitLauncher) => {
                self.unstarted.get_or_insert_with(Instant::now);
            }
            Some(Order::AwaitEnd) => {
                self.own_end.get_or_insert_with(Instant::now);
            }
            Some(Order::Finish(_)) => {
                self.finished = true;
                (self.killing, self.due) = (None, None);
                let order = self.standby.machine.job_is_over();
                self.obey_standby(order);
            }
        }
        Ok(())
    }

    /// While the incarnation is being killed: sends the launcher the signals that are due. After its end, kills
    /// what it has left.
    fn kill_on(&mut self) {
        let all_grace = self.grace();
        let Some((since, sent)) = &mut self.killing else {
            return;
        };
        self.keeper.kill();
        match self.launcher {
            Some(launcher) => {
                if self.keeper.all_dead() {
                    // Open MPI's mpirun sends the other ranks SIGTERM and sleeps for a second before it looks at them
                    // again. Any signal ends that sleep, and this one tells the truth. No event tells when it sleeps.
                    processes::send(launcher, Signal::SIGCHLD);
                }
                while all_grace
                    .get(*sent)
                    .is_some_and(|grace| since.elapsed() >= *grace)
                {
                    let signal = [Signal::SIGTERM, Signal::SIGKILL][*sent];
                    processes::send(launcher, signal);
                    *sent += 1;
                }
            }
            None => {
                for child in self.children_to_kill() {
                    processes::send(child, Signal::SIGKILL);
                }
            }
        }
    }

    /// Tells once which processes do not end although they were killed long ago: one in a system call that no signal
    /// interrupts ends when the call does.
    fn tell_late(&mut self) {
        let late = self.killing.filter(|(since, _)| since.elapsed() >= LATE);
        if late.is_none() || std::mem::replace(&mut self.told_late, true) {
            return;
        }
        let mut left = self.keeper.living();
        match self.launcher {
            Some(launcher) => left.push(launcher),
            None => left.extend(self.children_to_kill()),
        }
        left.sort_unstable();
        left.dedup();
        let left: Vec<String> = left.into_iter().filter_map(processes::described).collect();
        if !left.is_empty() {
            self.surroundings.do_not_end(&left);
        }
    }

    fn grace(&self) -> [Duration; 2] {
        match self.machine.failure() {
            Some(Failure::Rank(_, Departure::Silent)) => GRACE_ON_SILENCE,
            _ => GRACE,
        }
    }

    /// Time until the launcher is to be sent the next signal.
    fn until_next_signal(&self) -> PollTimeout {
        let due = self.killing.and_then(|(since, sent)| {
            let grace = self.grace().get(sent)?.saturating_sub(since.elapsed());
            let nudge = self.launcher.map_or(grace, |_| NUDGE.min(grace));
            Some(nudge + Duration::from_millis(1))
        });
        let late = self.killing.filter(|_| !self.told_late);
        let late =
            late.map(|(since, _)| LATE.saturating_sub(since.elapsed()) + Duration::from_millis(1));
        let survivors = self
            .surviving
            .map(|since| PATIENCE.saturating_sub(since.elapsed()) + Duration::from_millis(1));
        let held = !self.memory.is_empty() && self.killing.is_none();
        let look =
            held.then(|| LOOK.saturating_sub(self.looked.elapsed()) + Duration::from_millis(1));
        let lease = self.job.terms.lease;
        let awaiting = [self.awaiting, self.unstarted].into_iter().flatten();
        let awaiting =
            awaiting.map(|since| lease.saturating_sub(since.elapsed()) + Duration::from_millis(1));
        let tolerated = self.until_tolerated();
        let tolerated = tolerated.map(|time| time + Duration::from_millis(1));
        let pause = self
            .due
            .map(|due| due.saturating_duration_since(Instant::now()) + Duration::from_millis(1));
        let others = self
            .standby
            .patience()
            .into_iter()
            .chain(pause)
            .chain(survivors)
            .chain(late)
            .chain(awaiting)
            .chain(tolerated)
            .chain(look);
        let due = due.into_iter().chain(others).min();
        due.map_or(PollTimeout::NONE, |due| {
            PollTimeout::try_from(due).unwrap_or(PollTimeout::MAX)
        })
    }

    /// What the launcher has left. A standby world that is ready is spared: it has its launcher, so none of its
    /// processes is an orphan.
    fn children_to_kill(&self) -> Vec<Pid> {
        let spared = self.standby.spared();
        let rescues = self.rescue.as_ref().map_or(&[][..], Rescue::children);
        let mut children = processes::children();
        children.retain(|child| Some(*child) != spared && !rescues.contains(child));
        children
    }

    /// Whether no process of the incarnation lives.
    fn is_dead(&self) -> bool {
        self.launcher.is_none()
            && self.keeper.all_dead()
            && self.remote.is_over()
            && !self.standby.lives_elsewhere()
            && self.rescue.as_ref().is_none_or(Rescue::is_over)
            && self.children_to_kill().is_empty()
    }
}
