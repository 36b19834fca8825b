//! The command line: the one table of commands and flags. Help, man pages and completions come from
//! it (`commands/man.rs`, `commands/completions.rs`).
//!
//! To add a flag, add a field here with `env = "STASIS_..."` named after the flag, so that job scripts need no
//! editing. A unit test checks that each flag has its variable.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use ckpt_image::{SealKey, LONGEST_CHAIN};
use clap::builder::{FalseyValueParser, TypedValueParser};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate};
use job_spec::{
    Breakpoint, ChangedFilePolicy, Compression, Digests, FilePolicy, Keep, Pause, Record, Then,
    Tools,
};
use reduction::Selection;

mod candidates;
mod default_dir;
mod dir_template;
pub mod schedule;

use self::dir_template::DirTemplate;
use self::schedule::{Interval, Signal};
use crate::ui::exit;
use supervisor::recovery::RecoverOn;
use supervisor::standby_world::Kind;

/// Freezes a running MPI job to disk and brings it back, under any MPI library.
#[derive(Parser)]
#[command(name = "stasis", version, after_help = crate::ui::exit::HELP)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Run a program so that it can be checkpointed: mpirun -n N stasis launch ./app ...
    Launch(Launch),
    /// Take a checkpoint of the job that runs with this directory; returns when it is committed
    Checkpoint(Checkpoint),
    /// Continue a job from a checkpoint: mpirun -n N stasis restart DIR
    Restart(Restart),
    /// Run a job to its end, starting it again from its newest checkpoint when a part of it has died: stasis run --
    /// mpirun -n N stasis launch ./app ...
    Run(Run),
    /// Find the collective operations of the MPI library that a failure needs: stasis bisect --check CMD -- mpirun -n N
    /// stasis launch ./app ...
    Bisect(Bisect),
    /// Run a job again and again with messages held back at random, until a run fails, which is recorded: stasis hunt
    /// --check CMD -- mpirun -n N stasis launch ./app ...
    Hunt(Hunt),
    /// List my running jobs: those with a rank on this machine, or those in directories
    Jobs(Jobs),
    /// Show the state of the job that runs with this directory
    Status(Status),
    /// Show the MPI calls of a job that was started with `launch --profile`: their number, data and time
    Profile(Profile),
    /// Write a page about what has happened to the job: its runs, the cost of its checkpoints, and what failures have
    /// lost
    Report(Report),
    /// End the job that runs with this directory at once, without a checkpoint
    Stop(Job),
    /// Show where all threads of the running job's ranks are, as one tree of their stacks
    Stacks(Stacks),
    /// Tell in which call each rank of the running job waits, and for which ranks; and whether the job is in a deadlock
    Explain(Explain),
    /// Start the debugger gdb at a rank of the running job, with the program's symbols: stasis gdb DIR RANK
    Gdb(Gdb),
    /// List the checkpoints in a directory
    List(List),
    /// Read every byte of checkpoints and report whether they are intact
    Verify(Verify),
    /// Show the contents of a checkpoint and the space that each part takes
    Inspect(Inspect),
    /// Compare two checkpoints of a job, page by page
    Diff(Diff),
    /// Find the first difference between two recorded runs, by rank and call
    Compare(Compare),
    /// Show what is in the record of a run: calls, wildcards, races, sizes
    RecordInfo(RecordInfo),
    /// Run one rank of a recorded run alone, without mpirun and the other ranks: stasis solo REC --rank N [-- gdb]
    Solo(Solo),
    /// Turn the newest checkpoint, an increment, into a full one that needs no other; no job may be running
    Compact(Compact),
    /// Copy this node's local images to the checkpoint directory, after a job died and before its nodes are released
    Drain(Drain),
    /// Check whether Stasis can work here, and with this program
    Doctor(Doctor),
    /// Build the lower half that runs jobs over an MPI library, with that library's mpicc
    BuildLower(BuildLower),
    /// Print the script by which a shell completes commands and flags
    Completions(Completions),
    /// Print the manual page of stasis or of one of its commands: stasis man launch | man -l -
    Man(Man),
    /// Print the versions of Stasis and of its formats, and the lower halves that it finds
    Version(Version),
}

impl Command {
    /// Whether the command prints its result as JSON.
    pub fn prints_json(&self) -> bool {
        match self {
            Command::Checkpoint(options) => options.job.json,
            Command::Status(options) => options.job.json,
            Command::Profile(options) => options.job.json,
            Command::Report(options) => options.job.json,
            Command::Explain(options) => options.job.json,
            Command::Stacks(stacks) => stacks.job.json,
            Command::Stop(job) => job.json,
            Command::Jobs(options) => options.json,
            Command::List(options) => options.of.json,
            Command::Verify(options) => options.of.json,
            Command::Inspect(options) => options.json,
            // One rank speaks for all of a job.
            Command::Restart(options) => options.json && (options.dry_run || launcher::is_first()),
            Command::Diff(options) => options.json,
            Command::Compare(options) => options.json,
            Command::RecordInfo(options) => options.json,
            Command::Compact(options) => options.json,
            Command::Drain(options) => options.json,
            Command::Doctor(options) => options.json,
            Command::Version(options) => options.json,
            Command::Launch(_)
            | Command::Run(_)
            | Command::Bisect(_)
            | Command::Hunt(_)
            | Command::Gdb(_)
            | Command::BuildLower(_)
            | Command::Completions(_)
            | Command::Solo(_)
            | Command::Man(_) => false,
        }
    }
}

/// Whether a command line that is wrong asks for JSON, as far as can be told: by the flag, or by its variable, of a
/// command that has them. An unknown command may have had the flag.
pub fn asks_for_json() -> bool {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let by_flag = words.iter().any(|word| word == "--json");
    let of_command = |stasis: &clap::Command| {
        let Some(command) = stasis.find_subcommand(words.first()?) else {
            return Some(by_flag);
        };
        let mut flags = command.get_arguments();
        let flag = flags.find(|flag| flag.get_long() == Some("json"))?;
        let variable = std::env::var_os(flag.get_env()?);
        let yes = |value: OsString| yes_or_no().parse_ref(command, Some(flag), &value);
        let by_variable = variable.and_then(|value| yes(value).ok());
        Some(by_variable == Some(true) || by_flag)
    };
    of_command(&Arguments::command()).unwrap_or(false)
}

/// Parser of a flag's variable: `0`, `no`, `off`, `false` and the empty string are no, anything else is yes.
fn yes_or_no() -> FalseyValueParser {
    FalseyValueParser::new()
}

/// Values of `--closed-files`, the older name of `--files`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ClosedFiles {
    Cut,
    Leave,
}

/// How much a command tells.
#[derive(Args, Default)]
pub struct Detail {
    /// Tell on standard error what is done, step by step
    #[arg(short, long, env = "STASIS_VERBOSE", value_parser = yes_or_no())]
    verbose: bool,
}

impl Detail {
    /// Tells a step if the user wants to know.
    pub fn tell(&self, step: impl std::fmt::Display) {
        if self.verbose {
            launcher::message::say(step);
        }
    }

    /// Whether the user wants to know each step.
    pub fn is_wanted(&self) -> bool {
        self.verbose
    }
}

/// Key of trusted checkpoints.
#[derive(Args)]
pub struct KeyFile {
    /// Seal checkpoints with the key in FILE (at least 32 bytes, readable by you alone), and accept only checkpoints
    /// sealed with it
    #[arg(long, value_name = "FILE", env = "STASIS_KEY_FILE")]
    key_file: Option<PathBuf>,
}

impl KeyFile {
    /// The key, if one was given.
    pub fn read(&self) -> ckpt_image::Result<Option<SealKey>> {
        self.key_file.as_deref().map(SealKey::read).transpose()
    }
}

/// Options of `launch` and `restart`: how the job runs.
#[derive(Args)]
pub struct Running {
    /// How much is told: with --verbose what the job runs over.
    #[command(flatten)]
    pub detail: Detail,
    /// Schedule, retention and form of checkpoints.
    #[command(flatten)]
    pub checkpoints: Checkpoints,
    /// Replace collective operations of the MPI library by messages of Stasis: `all`, `Allreduce,Bcast`,
    /// `all,-Barrier`, `Bcast@NAME` over the communicators of that name, `Bcast:10-20` if it is the 10th to the 20th
    /// collective call over its communicator. Reductions are then made in the order of ranks; with `tree:` in front,
    /// in trees
    #[arg(long, value_name = "WHICH", value_parser = Selection::parse, env = "STASIS_REDUCE")]
    pub reduce: Option<Selection>,
    /// Let a profiler that is preloaded, or linked before the MPI library, see the messages of --reduce, as MPI_Isend,
    /// MPI_Irecv, MPI_Waitall and MPI_Testall
    #[arg(long, requires = "reduce", env = "STASIS_REDUCE_VISIBLE", value_parser = yes_or_no())]
    pub reduce_visible: bool,
    /// Record of the run.
    #[command(flatten)]
    pub recording: Recording,
    /// Hold messages to receives and probes with MPI_ANY_SOURCE back at random, so that races between them show. The
    /// number SEED decides which and for how long
    #[arg(
        long,
        value_name = "SEED",
        conflicts_with = "replay",
        env = "STASIS_PERTURB"
    )]
    pub perturb: Option<u64>,
    /// Stop this rank when its MPI call with this number begins, counted from where the run begins, or from the
    /// beginning of the record with --replay. `stasis gdb` then looks at it
    #[arg(long = "break", value_name = "RANK:CALL", env = "STASIS_BREAK")]
    pub stop_at: Option<Breakpoint>,
    /// Name of the lower half to run over, or path of an MPI library's libmpi_abi.so.1 [default: that of the launcher's
    /// MPI library]
    #[arg(long, value_name = "NAME|PATH", add = ArgValueCandidates::new(candidates::lower_halves), env = "STASIS_MPI")]
    pub mpi: Option<String>,
    /// Action of a restart if the content of an open file differs from the checkpoint (growth alone is no difference)
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "refuse",
        env = "STASIS_CHANGED_FILES"
    )]
    pub changed_files: ChangedFilePolicy,
}

/// Options about checkpoints: schedule, retention, form and place.
#[derive(Args)]
pub struct Checkpoints {
    /// Schedule.
    #[command(flatten)]
    pub schedule: Schedule,
    /// Keep the newest N checkpoints, or `all`
    #[arg(long, value_name = "N", default_value = "2", value_parser = keep, env = "STASIS_KEEP")]
    pub keep: Keep,
    /// Treatment at a restart of changes that the job has made to its files since the checkpoint
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "undo",
        env = "STASIS_FILES"
    )]
    files: FilePolicy,
    /// The older form of --files leave
    #[arg(long, value_name = "WHAT", hide = true, env = "STASIS_CLOSED_FILES")]
    closed_files: Option<ClosedFiles>,
    /// Let each rank's journal for --files undo grow to SIZE between two checkpoints (K, M, G and T are powers of
    /// 1024)
    #[arg(long, value_name = "SIZE", default_value = "16G", value_parser = size, env = "STASIS_UNDO_LIMIT")]
    undo_limit: u64,
    /// Store all memory in every M-th checkpoint, and in the others only the memory changed since the previous one;
    /// 1 makes every checkpoint full
    #[arg(long, value_name = "M", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=LONGEST_CHAIN as i64), env = "STASIS_FULL_EVERY")]
    pub full_every: u32,
    /// Give a checkpoint up, and try it again later, if for this many seconds (or 30m, 12h) a rank is stuck in a call
    /// of the MPI library or of the kernel, or does not answer. A rank that computes is waited for
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = schedule::patience, env = "STASIS_PATIENCE")]
    pub patience: u32,
    /// Compress all memory that gets smaller, even if that costs time
    #[arg(long, conflicts_with = "no_compress", env = "STASIS_COMPRESS", value_parser = yes_or_no())]
    pub compress: bool,
    /// Compress nothing
    #[arg(long, env = "STASIS_NO_COMPRESS", value_parser = yes_or_no())]
    pub no_compress: bool,
    /// How long the job is paused for a checkpoint
    #[arg(long, value_name = "HOW", default_value = "copy", env = "STASIS_PAUSE")]
    pub pause: Pause,
    /// Write images to DIR, such as a disk or memory of each node, and copy them to the checkpoint directory while the
    /// job runs (%t is the rank, %N the host)
    #[arg(long, value_name = "DIR", env = "STASIS_LOCAL_DIR")]
    pub local_dir: Option<DirTemplate>,
    /// Keep a copy of each image in --local-dir on another node until it is in the checkpoint directory, so that the
    /// loss of one node loses no checkpoint
    #[arg(long, env = "STASIS_PARTNER", value_parser = yes_or_no())]
    pub partner: bool,
    /// Directory of the ranks' logs and events, which STASIS_LOG asks for [default: `log` in the checkpoint directory]
    #[arg(long, value_name = "DIR", env = "STASIS_LOG_DIR")]
    log_dir: Option<PathBuf>,
    /// Write metrics of the job to FILE in the format OpenMetrics, for a monitoring system such as Prometheus with its
    /// node_exporter. The file is replaced after each event
    #[arg(long, value_name = "FILE", env = "STASIS_METRICS")]
    metrics: Option<PathBuf>,
    /// Print no line about a committed checkpoint
    #[arg(short, long, env = "STASIS_QUIET", value_parser = yes_or_no())]
    quiet: bool,
    /// Incarnation of the job, which `stasis run` gives
    #[arg(long, value_name = "N", hide = true, env = "STASIS_INCARNATION")]
    incarnation: Option<u32>,
    /// Epoch from which a job of MPI Stages goes on, which `stasis run --stages` gives
    #[arg(long, value_name = "EPOCH", hide = true, env = "STASIS_EPOCH")]
    epoch: Option<u64>,
    /// Key of trusted checkpoints.
    #[command(flatten)]
    pub key: KeyFile,
}

/// Checkpoints that are taken without a command.
#[derive(Args)]
pub struct Schedule {
    /// Interval between checkpoints, in seconds (or 30m, 12h, 7d); `auto` chooses the one that loses the least time,
    /// from the cost of the last checkpoint and --mtbf
    #[arg(short, long, value_name = "SECONDS|auto", value_parser = schedule::interval, env = "STASIS_INTERVAL")]
    pub interval: Option<Interval>,
    /// Interval between checkpoints in memory, in seconds (or 30m, 12h). A copy-on-write copy of each rank is kept, and
    /// is written only when a part of the job has died. Only under `stasis run`
    #[arg(long, value_name = "SECONDS", value_parser = schedule::seconds, env = "STASIS_MEMORY_INTERVAL")]
    pub memory_interval: Option<u64>,
    /// For `--interval auto`: mean time between failures of a job of this size [default: 1d]
    #[arg(long, value_name = "SECONDS", value_parser = schedule::seconds, env = "STASIS_MTBF")]
    pub mtbf: Option<u64>,
    /// Take a checkpoint this many minutes (or 90s, 1h) before the Slurm allocation ends, and end the job
    #[arg(long, value_name = "MINUTES", value_parser = schedule::minutes, env = "STASIS_BEFORE_END")]
    pub before_end: Option<u64>,
    /// For `--before-end` without Slurm: minutes (or 8h, 2d) that the job has from now
    #[arg(long, value_name = "MINUTES", value_parser = schedule::minutes, env = "STASIS_TIME_LIMIT")]
    pub time_limit: Option<u64>,
    /// Take a checkpoint when a rank receives this signal: USR1, USR2, TERM, INT, QUIT, HUP, XCPU, or several separated
    /// by commas. The program does not receive it. With all but USR1 and USR2 the job then ends
    #[arg(long, value_name = "SIGNAL", value_delimiter = ',', value_parser = schedule::signal, add = ArgValueCandidates::new(candidates::signals), env = "STASIS_SIGNAL")]
    pub signal: Vec<Signal>,
    /// Action after a checkpoint that a signal or --before-end has requested
    #[arg(long, value_name = "WHAT", env = "STASIS_THEN")]
    pub then: Option<Then>,
}

fn keep(text: &str) -> Result<Keep, String> {
    match (text, text.parse()) {
        ("all", _) => Ok(Keep::All),
        (_, Ok(number)) => Ok(Keep::Newest(number)),
        _ => Err("expected 1, 2, ... or all".to_owned()),
    }
}

/// Options about the record of a run.
#[derive(Args)]
pub struct Recording {
    /// Record the order of the run's messages in the directory REC, so that the run can be replayed
    #[arg(
        long,
        value_name = "REC",
        conflicts_with = "replay",
        env = "STASIS_RECORD"
    )]
    record: Option<PathBuf>,
    /// Replay the run that was recorded in REC: each call gets the messages and the outcome that it had
    #[arg(long, value_name = "REC", env = "STASIS_REPLAY")]
    replay: Option<PathBuf>,
    /// For --record: record a digest of received messages, too. A replay compares it
    #[arg(
        long,
        value_name = "WHICH",
        default_value = "off",
        env = "STASIS_DIGESTS"
    )]
    digests: Digests,
    /// For --digests: the same for sent messages
    #[arg(long, env = "STASIS_SENDS", value_parser = yes_or_no())]
    sends: bool,
    /// For --record: record all that calls return, too, with the data of messages, so that `stasis solo` can run one
    /// rank alone
    #[arg(long, env = "STASIS_CONTENTS", value_parser = yes_or_no())]
    contents: bool,
    /// For --record: record the values of the clocks that the program reads, too. A replay gives them back
    #[arg(long, env = "STASIS_TIME", value_parser = yes_or_no())]
    time: bool,
}

impl Recording {
    /// The settings for the lower half.
    pub fn spec(&self) -> Option<Record> {
        let from_root = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        match (&self.record, &self.replay) {
            (Some(dir), _) => Some(Record::Write {
                dir: from_root(dir),
                digests: self.digests,
                sends: self.sends,
                contents: self.contents,
                time: self.time,
            }),
            (None, Some(dir)) => Some(Record::Replay {
                dir: from_root(dir),
            }),
            (None, None) => None,
        }
    }
}

impl Running {
    /// The settings for the lower half.
    pub fn spec(&self, dir: PathBuf, schedule: job_spec::Schedule) -> job_spec::Checkpoints {
        job_spec::Checkpoints {
            tools: Tools {
                reduce: self.reduce.as_ref().map(Selection::to_string),
                reduce_visible: self.reduce_visible,
                record: self.recording.spec(),
                perturb: self.perturb,
                stop_at: self.stop_at,
                profile: false,
            },
            ..self.checkpoints.spec(dir, schedule)
        }
    }
}

impl Checkpoints {
    /// Treatment of the job's files at a restart.
    pub fn files(&self) -> FilePolicy {
        match self.closed_files {
            Some(ClosedFiles::Leave) => FilePolicy::Leave,
            // MPI Stages never goes back to older content of files.
            _ if self.epoch.is_some() => FilePolicy::Leave,
            _ => self.files,
        }
    }

    /// Incarnation of the job, if `stasis run` has started it.
    pub fn incarnation(&self) -> Option<u32> {
        self.incarnation
    }

    /// Their settings for the lower half.
    fn spec(&self, dir: PathBuf, schedule: job_spec::Schedule) -> job_spec::Checkpoints {
        // The program may change its working directory.
        let from_root = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        job_spec::Checkpoints {
            dir,
            schedule,
            keep: self.keep,
            full_every: self.full_every,
            patience: self.patience,
            compression: match (self.compress, self.no_compress) {
                (true, _) => Compression::Always,
                (false, true) => Compression::Off,
                (false, false) => Compression::Probe,
            },
            pause: self.pause,
            key_file: self.key.key_file.as_ref().map(from_root),
            local_dir: self.local_dir.as_ref().map(DirTemplate::here),
            partner: self.partner,
            files: self.files(),
            undo_limit: self.undo_limit,
            log_dir: self.log_dir.as_ref().map(from_root),
            metrics: self.metrics.as_ref().map(from_root),
            quiet: self.quiet,
            incarnation: self.incarnation,
            stages: self.epoch,
            for_cpu: None,
            tools: Tools::default(),
            mpi_library: None,
            announced: None,
        }
    }
}

/// Parses a number of bytes with an optional unit (powers of 1024).
fn size(text: &str) -> Result<u64, String> {
    const UNITS: [char; 4] = ['K', 'M', 'G', 'T'];
    let unit = UNITS.iter().position(|unit| text.ends_with(*unit));
    let digits = text.trim_end_matches(UNITS);
    let scale = 1024_u64.pow(unit.map_or(0, |place| place as u32 + 1));
    let bytes = digits.parse::<u64>().ok();
    let bytes = bytes.filter(|_| text.len() - digits.len() <= 1);
    bytes
        .and_then(|bytes| bytes.checked_mul(scale))
        .ok_or_else(|| "expected a number of bytes, such as 512M or 16G".to_owned())
}

/// Options of `launch`.
#[derive(Args)]
pub struct Launch {
    /// Directory for checkpoints, the same for all ranks and used by this job alone [default: ./NAME.ckpt, NAME being
    /// made of the program's name and its first argument that is not an option]
    #[arg(long, value_name = "DIR", add = ArgValueCompleter::new(candidates::directories), env = "STASIS_CKPT_DIR")]
    pub ckpt_dir: Option<PathBuf>,
    /// Options of the run.
    #[command(flatten)]
    pub running: Running,
    /// Continue from the directory's newest complete checkpoint; start the program only if the directory has none
    // `stasis run` puts it in front of the user's own.
    #[arg(long, env = "STASIS_RESUME", value_parser = yes_or_no(), overrides_with = "resume")]
    pub resume: bool,
    /// Start the program from its beginning even if the directory holds checkpoints of it; these are moved to a
    /// subdirectory
    #[arg(long, env = "STASIS_ANEW", value_parser = yes_or_no())]
    pub anew: bool,
    /// Show the program only the features of a lesser processor, so that its checkpoints can be restarted on all
    /// machines that have these: x86-64, x86-64-v2, x86-64-v3, x86-64-v4, or a file in which each line has the
    /// features of one machine of a pool (the line `flags` of its /proc/cpuinfo)
    #[arg(long, value_name = "LEVEL|FILE", env = "STASIS_FOR_CPU")]
    pub for_cpu: Option<PathBuf>,
    /// Count the program's MPI calls, with their data and their time; rank 0 prints the sum at the end, and `stasis
    /// profile` shows it later. A restarted job goes on counting
    #[arg(long, env = "STASIS_PROFILE", value_parser = yes_or_no())]
    pub profile: bool,
    /// Only initialise MPI, and wait until `stasis run`, which gives this, lets the rank go
    #[arg(long, hide = true, env = "STASIS_ASLEEP", value_parser = yes_or_no())]
    pub asleep: bool,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_hint = ValueHint::AnyPath,
        value_name = "APP"
    )]
    pub app: Vec<OsString>,
}

/// Options of `run`.
#[derive(Args)]
pub struct Run {
    /// Give the job up after this many failures in a row without a new checkpoint
    #[arg(long, value_name = "N", default_value = "20", env = "STASIS_RECOVER")]
    pub recover: u32,
    /// Failures after which the job is started again
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "signals",
        env = "STASIS_ON"
    )]
    pub on: RecoverOn,
    /// Time in seconds (or 10m, 2h) without progress of any rank that is a failure, too. Ranks that all compute make
    /// progress
    #[arg(long, value_name = "SECONDS", value_parser = schedule::seconds, env = "STASIS_HANG")]
    pub hang: Option<u64>,
    /// A second set of ranks that waits for a failure, so that the job goes on sooner
    #[arg(long, value_name = "HOW", default_value = "no", env = "STASIS_STANDBY")]
    pub standby: Kind,
    /// Interval in seconds of the heartbeats of ranks on other machines
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "0.25",
        value_parser = schedule::fraction,
        env = "STASIS_HEARTBEAT"
    )]
    pub heartbeat: Duration,
    /// Time in seconds without an answered heartbeat after which a rank on another machine is dead, killed by the
    /// kernel there. At least two heartbeats
    #[arg(long, value_name = "SECONDS", default_value = "3", value_parser = schedule::fraction, env = "STASIS_LEASE")]
    pub lease: Duration,
    /// Leave the last N machines of the launcher's file of machines, or of the allocation of srun, without ranks. Each
    /// takes the place of a machine that is lost
    #[arg(long, value_name = "N", default_value = "0", env = "STASIS_SPARES")]
    pub spares: usize,
    /// Put more ranks on the other machines than they have room for, if one is lost and no spare one is left
    #[arg(long, env = "STASIS_OVERSUBSCRIBE", value_parser = yes_or_no())]
    pub oversubscribe: bool,
    /// MPI Stages: the program saves its state itself, and says so by `stasis_mpix.h`. After the death of a rank the
    /// others go on in their memory. No checkpoints are taken
    #[arg(long, env = "STASIS_STAGES", value_parser = yes_or_no(), conflicts_with = "standby")]
    pub stages: bool,
    /// Command of the shell that stores each committed checkpoint elsewhere, such as in an object store: it finds the
    /// checkpoint in the directory `$STASIS_CHECKPOINT`. The end of the job waits for it
    #[arg(long, value_name = "CMD", env = "STASIS_DRAIN_WITH")]
    pub drain_with: Option<OsString>,
    /// `--drain-with` is the parent's work
    #[arg(long, hide = true, env = "STASIS_DRAINED_OUTSIDE", value_parser = yes_or_no())]
    pub drained_outside: bool,
    /// The command that starts the job, with `stasis launch` in it
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_hint = ValueHint::AnyPath,
        value_name = "COMMAND"
    )]
    pub line: Vec<OsString>,
}

/// A job that is run again and again, and the decision whether a run has passed.
#[derive(Args)]
pub struct CheckedJob {
    /// Command of the shell that decides whether a run has passed: it gets the run's standard output as its input, and
    /// exits with 0 if all is well [default: the exit code of the run]
    #[arg(long, value_name = "CMD", env = "STASIS_CHECK")]
    pub check: Option<OsString>,
    /// Time in seconds (or 10m, 2h) after which a run is ended and has failed
    #[arg(long, value_name = "SECONDS", value_parser = schedule::seconds, env = "STASIS_LIMIT")]
    pub limit: Option<u64>,
    /// The command that starts the job, with `stasis launch` or `stasis restart` in it
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_hint = ValueHint::AnyPath,
        value_name = "COMMAND"
    )]
    pub line: Vec<OsString>,
}

/// Options of `hunt`.
#[derive(Args)]
pub struct Hunt {
    /// The job.
    #[command(flatten)]
    pub job: CheckedJob,
    /// Give up after N runs, with the seeds 1 to N
    #[arg(short = 'n', long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u64).range(1..), env = "STASIS_RUNS")]
    pub runs: u64,
    /// Begin each run with this checkpoint instead of the program's start
    #[arg(long, value_name = "DIR/ckpt-N", add = ArgValueCompleter::new(candidates::checkpoints), env = "STASIS_FROM")]
    pub from: Option<PathBuf>,
    /// Directory for the record of a run; that of the run which fails is left there
    #[arg(
        long,
        value_name = "REC",
        default_value = "hunt.rec",
        env = "STASIS_RECORD"
    )]
    pub record: PathBuf,
}

/// Options of `bisect`.
#[derive(Args)]
pub struct Bisect {
    /// The job.
    #[command(flatten)]
    pub job: CheckedJob,
    /// Run each selection N times; it passes if all its runs do. For a failure that does not come every time
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..), env = "STASIS_RUNS")]
    pub runs: u32,
    /// The collective operations among which to look, as for `launch --reduce`
    #[arg(long, value_name = "WHICH", default_value = "all", value_parser = Selection::parse, env = "STASIS_REDUCE")]
    pub reduce: Selection,
}

/// Options of `restart`.
#[derive(Args)]
pub struct Restart {
    /// The checkpoint directory, for its newest complete checkpoint, or one checkpoint in it
    #[arg(value_name = "DIR[/ckpt-N]", required_unless_present = "copy_of", add = ArgValueCompleter::new(candidates::checkpoints))]
    pub directory: Option<PathBuf>,
    /// Start another job from this checkpoint, and change nothing of the first one, which may run. The copy has its
    /// checkpoints in --ckpt-dir
    #[arg(
        long,
        value_name = "DIR[/ckpt-N]",
        add = ArgValueCompleter::new(candidates::checkpoints),
        env = "STASIS_COPY_OF",
        conflicts_with_all = ["directory", "dry_run"],
        requires = "ckpt_dir"
    )]
    pub copy_of: Option<PathBuf>,
    /// With --copy-of: a new directory for the checkpoints of the copy
    #[arg(long, value_name = "DIR", add = ArgValueCompleter::new(candidates::directories), env = "STASIS_CKPT_DIR")]
    pub ckpt_dir: Option<PathBuf>,
    /// With --copy-of: working directory of the copy. Files that the first job had open below its own one are opened
    /// below this one, and are made there first if they are missing
    #[arg(long, value_name = "DIR", env = "STASIS_WORKDIR", requires = "copy_of")]
    pub workdir: Option<PathBuf>,
    /// Restart from this checkpoint of the directory
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(candidates::sets), env = "STASIS_SET")]
    pub set: Option<String>,
    /// Restore nothing: verify the checkpoint and report the changes that a restart would make to the job's files in
    /// their present state. Needs no mpirun
    #[arg(long, env = "STASIS_DRY_RUN", value_parser = yes_or_no())]
    pub dry_run: bool,
    /// Print JSON, with --dry-run; without it only the reason of a failure
    #[arg(long, env = "STASIS_JSON", value_parser = yes_or_no())]
    pub json: bool,
    /// Options of the run.
    #[command(flatten)]
    pub running: Running,
}

/// Options of `checkpoint`.
#[derive(Args)]
pub struct Checkpoint {
    /// How much is told: with --verbose the stages of the checkpoint.
    #[command(flatten)]
    pub detail: Detail,
    /// The job.
    #[command(flatten)]
    pub job: Job,
    /// End the job once the checkpoint is committed
    #[arg(long, env = "STASIS_STOP", value_parser = yes_or_no())]
    pub stop: bool,
    /// Return as soon as the job has received the request
    #[arg(long, env = "STASIS_NO_WAIT", value_parser = yes_or_no())]
    pub no_wait: bool,
    /// Wait at most this many seconds (or 30m, 12h) for the checkpoint, and as long for a rank that is stuck; then the
    /// job takes it as soon as it can, unless a stuck rank has made it give up
    #[arg(long, value_name = "SECONDS", value_parser = schedule::seconds, env = "STASIS_PATIENCE")]
    pub patience: Option<u64>,
    /// Wait until the checkpoint is committed (the default; overrides --no-wait)
    #[arg(long, env = "STASIS_WAIT", value_parser = yes_or_no())]
    pub wait: bool,
}

/// Options of the commands that connect to a running job.
#[derive(Args)]
pub struct Job {
    /// The job's checkpoint directory [default: the only NAME.ckpt here]
    #[arg(value_name = "DIR", add = ArgValueCompleter::new(candidates::directories), env = "STASIS_CKPT_DIR")]
    directory: Option<PathBuf>,
    /// Print JSON
    #[arg(long, env = "STASIS_JSON", value_parser = yes_or_no())]
    pub json: bool,
}

/// Options of `stacks`.
#[derive(Args)]
pub struct Stacks {
    /// The job.
    #[command(flatten)]
    pub job: Job,
    /// Add the line of the source to each frame, of programs compiled with -g
    #[arg(long, env = "STASIS_LINES", value_parser = yes_or_no())]
    pub lines: bool,
}

/// Options of `profile`.
#[derive(Args)]
pub struct Profile {
    /// The job.
    #[command(flatten)]
    pub job: Job,
    /// Write all of it into FILE, a page for a browser, which needs no other file
    #[arg(long, value_name = "FILE", env = "STASIS_HTML")]
    pub html: Option<PathBuf>,
}

/// Options of `report`.
#[derive(Args)]
pub struct Report {
    /// The job.
    #[command(flatten)]
    pub job: Job,
    /// File of the page [default: report.html in the checkpoint directory]
    #[arg(short, long, value_name = "FILE", env = "STASIS_OUTPUT")]
    pub output: Option<PathBuf>,
}

/// Options of `jobs`.
#[derive(Args)]
pub struct Jobs {
    /// Checkpoint directories, or directories that hold some [default: those of all ranks on this machine]
    #[arg(value_name = "DIR", add = ArgValueCompleter::new(candidates::directories))]
    pub directories: Vec<PathBuf>,
    /// Print JSON
    #[arg(long, env = "STASIS_JSON", value_parser = yes_or_no())]
    pub json: bool,
}

/// Options of `version`.
#[derive(Args)]
pub struct Version {
    /// Print JSON
    #[arg(long, env = "STASIS_JSON", value_parser = yes_or_no())]
    pub json: bool,
}

/// Options of `status`.
#[derive(Args)]
pub struct Status {
    /// The job.
    #[command(flatten)]
    pub job: Job,
    /// Print the last events of each rank; those of a job that has ended are kept if it was started with STASIS_LOG
    #[arg(long, env = "STASIS_TRACE", value_parser = yes_or_no(), conflicts_with = "json")]
    pub trace: bool,
    /// Directory of the job's logs and events, if it was started with this option
    #[arg(long, value_name = "DIR", env = "STASIS_LOG_DIR")]
    pub log_dir: Option<PathBuf>,
    /// Also show the MPI calls so far, of a job that was started with `launch --profile`
    #[arg(long, env = "STASIS_PROFILE", value_parser = yes_or_no())]
    pub profile: bool,
    /// Show the state again and again, every second or in this interval (in seconds), until the job ends
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = schedule::fraction, env = "STASIS_WATCH", conflicts_with_all = ["json", "trace"])]
    pub watch: Option<Duration>,
}

/// Options of `explain`.
#[derive(Args)]
pub struct Explain {
    /// The job.
    #[command(flatten)]
    pub job: Job,
    /// Also draw who needs whom into FILE, as an SVG picture
    #[arg(long, value_name = "FILE", env = "STASIS_SVG")]
    pub svg: Option<PathBuf>,
}

/// Options of `gdb`.
#[derive(Args)]
pub struct Gdb {
    /// The job's checkpoint directory; or, without RANK, the id of a rank's process
    #[arg(value_name = "DIR|PID")]
    pub job: PathBuf,
    /// The rank
    #[arg(value_name = "RANK")]
    pub rank: Option<u32>,
    /// The debugger
    #[arg(long, value_name = "PATH", default_value = "gdb", env = "STASIS_GDB")]
    pub gdb: PathBuf,
    /// File of the program, if it is not where it was
    #[arg(long, value_name = "FILE", env = "STASIS_PROGRAM")]
    pub program: Option<PathBuf>,
    /// Arguments for the debugger
    #[arg(last = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub arguments: Vec<OsString>,
}

/// Options of the commands that only look at checkpoints.
#[derive(Args)]
pub struct Inspect {
    /// The checkpoint directory, or one checkpoint in it [default: the only NAME.ckpt here]
    #[arg(value_name = "DIR[/ckpt-N]", add = ArgValueCompleter::new(candidates::checkpoints), env = "STASIS_CKPT_DIR")]
    directory: Option<PathBuf>,
    /// Key of trusted checkpoints.
    #[command(flatten)]
    pub key: KeyFile,
    /// Print JSON
    #[arg(long, env = "STASIS_JSON", value_parser = yes_or_no())]
    pub json: bool,
}

/// Options of `list`.
#[derive(Args)]
pub struct List {
    /// The checkpoints.
    #[command(flatten)]
    pub of: Inspect,
    /// Also print what took each checkpoint, and where its images are
    #[arg(short, long, env = "STASIS_LONG", value_parser = yes_or_no())]
    pub long: bool,
}

/// Options of `verify`.
#[derive(Args)]
pub struct Verify {
    /// The checkpoints.
    #[command(flatten)]
    pub of: Inspect,
    /// How much is told: with --verbose each image.
    #[command(flatten)]
    pub detail: Detail,
}

/// Options of `diff`.
#[derive(Args)]
pub struct Diff {
    /// The older checkpoint
    #[arg(value_name = "DIR[/ckpt-N]", add = ArgValueCompleter::new(candidates::checkpoints))]
    pub first: PathBuf,
    /// The newer checkpoint
    #[arg(value_name = "DIR[/ckpt-N]", add = ArgValueCompleter::new(candidates::checkpoints))]
    pub second: PathBuf,
    /// Key of trusted checkpoints.
    #[command(flatten)]
    pub key: KeyFile,
    /// Print JSON
    #[arg(long, env = "STASIS_JSON", value_parser = yes_or_no())]
    pub json: bool,
}

/// Options of `compact`.
#[derive(Args)]
pub struct Compact {
    /// The checkpoint directory [default: the only NAME.ckpt here]
    #[arg(value_name = "DIR", add = ArgValueCompleter::new(candidates::directories), env = "STASIS_CKPT_DIR")]
    directory: Option<PathBuf>,
    /// Keep the newest N checkpoints, the new one among them, and those that they need; or `all`
    #[arg(long, value_name = "N", default_value = "all", value_parser = keep, env = "STASIS_KEEP")]
    pub keep: Keep,
    /// Key of trusted checkpoints.
    #[command(flatten)]
    pub key: KeyFile,
    /// Print JSON
    #[arg(long, env = "STASIS_JSON", value_parser = yes_or_no())]
    pub json: bool,
}

/// Options of `drain`.
#[derive(Args)]
pub struct Drain {
    /// The checkpoint directory [default: the only NAME.ckpt here]
    #[arg(value_name = "DIR", add = ArgValueCompleter::new(candidates::directories), env = "STASIS_CKPT_DIR")]
    directory: Option<PathBuf>,
    /// Command of the shell that stores the newest checkpoint elsewhere, such as in an object store: it finds the
    /// checkpoint in the directory `$STASIS_CHECKPOINT`, and those from which that inherits in calls before
    #[arg(long, value_name = "CMD", env = "STASIS_WITH")]
    pub with: Option<OsString>,
    /// Key of trusted checkpoints.
    #[command(flatten)]
    pub key: KeyFile,
    /// Print JSON
    #[arg(long, env = "STASIS_JSON", value_parser = yes_or_no())]
    pub json: bool,
}

/// Options of `doctor`.
#[derive(Args)]
#[command(after_help = DOCTOR_CODES)]
pub struct Doctor {
    /// A program to check, or a library that programs load: prints its front, the MPI symbols that it and its libraries
    /// (and those in LD_PRELOAD) import, and whether that front has them
    pub app: Option<PathBuf>,
    /// Print every imported MPI symbol, with a file that imports it
    #[arg(long, env = "STASIS_SYMBOLS", value_parser = yes_or_no())]
    pub symbols: bool,
    /// Directory for checkpoints: prints its file system and the number of checkpoints that fit [default: that of APP,
    /// or the current directory]
    #[arg(long, value_name = "DIR", add = ArgValueCompleter::new(candidates::directories), env = "STASIS_CKPT_DIR")]
    pub ckpt_dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long, env = "STASIS_JSON", value_parser = yes_or_no())]
    pub json: bool,
}

impl Launch {
    /// The directory for its checkpoints.
    pub fn directory(&self) -> PathBuf {
        let named = self.ckpt_dir.clone();
        named.unwrap_or_else(|| default_dir::of_program(&self.app))
    }
}

impl Doctor {
    /// The directory for checkpoints.
    pub fn directory(&self) -> PathBuf {
        let of = |app: &PathBuf| default_dir::of_program(&[app.clone().into()]);
        let named = self.ckpt_dir.clone().or_else(|| self.app.as_ref().map(of));
        named.unwrap_or_else(|| ".".into())
    }
}

/// Commands on one checkpoint directory, which may be omitted if the current directory has only one.
macro_rules! of_one_directory {
    ($($options:ident),*) => {$(
        impl $options {
            /// The directory of the command line, or the only one here.
            pub fn directory(&self) -> exit::Result<PathBuf> {
                let directory = self.directory.clone().map_or_else(default_dir::only_one_here, Ok)?;
                default_dir::check_owner(&directory)?;
                Ok(directory)
            }
        }
    )*};
}

of_one_directory!(Job, Inspect, Compact, Drain);

impl Job {
    /// The same, for a command that reads what the job has left there.
    pub fn existing_directory(&self) -> exit::Result<PathBuf> {
        let directory = self.directory()?;
        default_dir::check(&directory)?;
        Ok(directory)
    }
}

const DOCTOR_CODES: &str = "\
Exit codes: 0 no problem found; 2 wrong usage; 3 something is BAD: Stasis cannot work here, no checkpoint can \
be written there, the program was not found or is not supported, or the listed symbols are missing.";

/// Options of `build-lower`.
#[derive(Args)]
pub struct BuildLower {
    /// The C compiler of the MPI library: a path, or a name to look for in PATH
    #[arg(
        long,
        value_name = "PATH",
        default_value = "mpicc",
        env = "STASIS_MPICC"
    )]
    pub mpicc: PathBuf,
    /// Name for `--mpi` [default: the library's name and version, such as openmpi-5.0.11]
    #[arg(long, env = "STASIS_NAME")]
    pub name: Option<String>,
    /// Directory of the Stasis sources [default: those of the package, or those that this command was built from]
    #[arg(long, value_name = "DIR", env = "STASIS_SOURCE")]
    pub source: Option<PathBuf>,
    /// How much is told: with --verbose and on a terminal, what is compiled.
    #[command(flatten)]
    pub detail: Detail,
}

/// Options of `compare`.
#[derive(Args)]
pub struct Compare {
    /// Directory of the first record
    #[arg(value_name = "REC")]
    pub first: PathBuf,
    /// Directory of the second
    #[arg(value_name = "REC")]
    pub second: PathBuf,
    /// Print JSON
    #[arg(long, env = "STASIS_JSON", value_parser = yes_or_no())]
    pub json: bool,
}

/// Options of `solo`.
#[derive(Args)]
pub struct Solo {
    /// Directory of the record, which was made with --contents
    #[arg(value_name = "REC", value_hint = ValueHint::DirPath)]
    pub record: PathBuf,
    /// The rank
    #[arg(long, value_name = "N", env = "STASIS_RANK")]
    pub rank: u32,
    /// Stop the rank before its MPI call with this number, as `launch --break` does [default: none; 1 with gdb]
    #[arg(long, value_name = "CALL", env = "STASIS_STOP_AT", value_parser = clap::value_parser!(u64).range(1..))]
    pub stop_at: Option<u64>,
    /// Command that runs the rank: `gdb` with its arguments looks at it from its first MPI call on; any other one gets
    /// the rank's command line behind its own arguments
    #[arg(last = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// Options of `record-info`.
#[derive(Args)]
pub struct RecordInfo {
    /// Directory of the record
    #[arg(value_name = "REC")]
    pub record: PathBuf,
    /// Print JSON
    #[arg(long, env = "STASIS_JSON", value_parser = yes_or_no())]
    pub json: bool,
}

/// Options of `completions`.
#[derive(Args)]
pub struct Completions {
    /// The shell; the output belongs in its folder for completions
    pub shell: clap_complete::Shell,
}

/// Options of `man`.
#[derive(Args)]
pub struct Man {
    /// The command [default: stasis itself]
    #[arg(add = ArgValueCandidates::new(commands))]
    pub command: Option<String>,
    /// Write all pages to a directory instead
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with = "command",
        env = "STASIS_DIRECTORY"
    )]
    pub directory: Option<PathBuf>,
}

/// The commands, for `man`.
fn commands() -> Vec<CompletionCandidate> {
    let stasis = Arguments::command();
    let commands = stasis.get_subcommands();
    let named = |command: &clap::Command| {
        CompletionCandidate::new(command.get_name()).help(command.get_about().cloned())
    };
    commands.map(named).collect()
}

/// Splits `DIR/ckpt-N` into the directory and the set. Any other path is a directory.
pub fn directory_and_set(path: &std::path::Path) -> (PathBuf, Option<String>) {
    let is_set = |name: &str| {
        name.strip_prefix("ckpt-")
            .is_some_and(|n| n.parse::<u64>().is_ok())
    };
    match (path.file_name().and_then(|n| n.to_str()), path.parent()) {
        // A checkpoint directory may itself be named like a set. It then holds sets instead of a manifest.
        (Some(name), Some(parent)) if is_set(name) && !holds_sets(path) => {
            let parent = if parent.as_os_str().is_empty() {
                ".".as_ref()
            } else {
                parent
            };
            (parent.to_owned(), Some(name.to_owned()))
        }
        _ => (path.to_owned(), None),
    }
}

fn holds_sets(path: &std::path::Path) -> bool {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut names = entries.map(|e| e.file_name());
    names.any(|n| n.to_str().is_some_and(|n| n.starts_with("ckpt-")))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::num::NonZeroUsize;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_flag_has_its_variable() {
        let command = Arguments::command();
        let commands = command.get_subcommands();
        for flag in commands.flat_map(|c| c.get_opts()) {
            let Some(long) = flag.get_long() else {
                panic!("{flag} has no long form")
            };
            let variable = format!("STASIS_{}", long.replace('-', "_").to_uppercase());
            assert_eq!(
                flag.get_env().and_then(|e| e.to_str()),
                Some(&*variable),
                "--{long}"
            );
        }
    }

    #[test]
    fn the_readme_names_every_command() {
        let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
        let readme = std::fs::read_to_string(readme).unwrap();
        for command in Arguments::command().get_subcommands() {
            let name = format!("`stasis {}", command.get_name());
            assert!(readme.contains(&name), "README.md does not have {name}");
        }
    }

    #[test]
    fn the_program_keeps_its_options() {
        let line = [
            "stasis",
            "launch",
            "-i",
            "5",
            "./app",
            "-i",
            "--ckpt-dir",
            "x",
            "--",
            "y",
        ];
        let Command::Launch(launch) = Arguments::parse_from(line).command else {
            panic!()
        };
        assert_eq!(launch.app, ["./app", "-i", "--ckpt-dir", "x", "--", "y"]);
        assert_eq!(
            (
                launch.running.checkpoints.schedule.interval,
                launch.ckpt_dir
            ),
            (Some(Interval::Seconds(5)), None)
        );
    }

    /// Options of `stasis restart` with these flags; none if they are wrong.
    pub(crate) fn running(flags: &[&str]) -> Option<Running> {
        let line = ["stasis", "restart", "ck"].iter().chain(flags);
        let Command::Restart(restart) = Arguments::try_parse_from(line).ok()?.command else {
            panic!()
        };
        Some(restart.running)
    }

    /// Settings for the lower half with these flags; none if they are wrong.
    pub(crate) fn spec(flags: &[&str]) -> Option<job_spec::Checkpoints> {
        let running = running(flags)?;
        let schedule = running.checkpoints.schedule.spec().unwrap();
        Some(running.spec("/ck".into(), schedule))
    }

    #[test]
    fn without_flags_the_defaults_apply() {
        let usual = job_spec::Checkpoints {
            dir: "/ck".into(),
            schedule: job_spec::Schedule::default(),
            keep: Keep::Newest(NonZeroUsize::new(2).unwrap()),
            full_every: 1,
            patience: 60,
            compression: Compression::Probe,
            pause: Pause::Copy,
            key_file: None,
            local_dir: None,
            partner: false,
            files: FilePolicy::Undo,
            undo_limit: 16 << 30,
            log_dir: None,
            metrics: None,
            quiet: false,
            incarnation: None,
            stages: None,
            for_cpu: None,
            tools: Tools::default(),
            mpi_library: None,
            announced: None,
        };
        assert_eq!(spec(&[]).unwrap(), usual);
        assert_eq!(
            running(&[]).unwrap().changed_files,
            ChangedFilePolicy::Refuse
        );
    }

    #[test]
    fn reduce_takes_a_selection() {
        let reduce = |which: &str| spec(&["--reduce", which]).map(|spec| spec.tools.reduce);
        assert_eq!(reduce("all,-Barrier"), Some(Some("all,-Barrier".into())));
        assert_eq!(reduce("Bcst"), None);
    }

    #[test]
    fn only_messages_that_there_are_can_be_visible() {
        let visible = |flags: &[&str]| spec(flags).map(|spec| spec.tools.reduce_visible);
        assert_eq!(visible(&["--reduce", "all"]), Some(false));
        assert_eq!(
            visible(&["--reduce", "all", "--reduce-visible"]),
            Some(true)
        );
        assert_eq!(visible(&["--reduce-visible"]), None);
    }

    #[test]
    fn a_run_is_recorded_or_replayed() {
        let record = |flags: &[&str]| spec(flags).map(|spec| spec.tools.record);
        let replay = Record::Replay { dir: "/r".into() };
        assert_eq!(record(&["--replay", "/r"]), Some(Some(replay)));
        let write = Record::Write {
            dir: "/r".into(),
            digests: Digests::Small,
            sends: true,
            contents: true,
            time: true,
        };
        let flags = [
            "--record",
            "/r",
            "--digests",
            "small",
            "--sends",
            "--contents",
            "--time",
        ];
        assert_eq!(record(&flags), Some(Some(write)));
        assert_eq!(record(&["--record", "/r", "--replay", "/r"]), None);
    }

    #[test]
    fn keep_takes_a_positive_number_or_all() {
        let keep = |keep: &str| Some(spec(&["--keep", keep])?.keep);
        assert_eq!(keep("3"), NonZeroUsize::new(3).map(Keep::Newest));
        assert_eq!(keep("all"), Some(Keep::All));
        assert_eq!((keep("0"), keep("few")), (None, None));
    }

    #[test]
    fn files_flags_set_the_policy() {
        let files = |flags: &[&str]| spec(flags).unwrap().files;
        assert_eq!(files(&["--files", "cut"]), FilePolicy::Cut);
        assert_eq!(files(&["--closed-files", "leave"]), FilePolicy::Leave);
        assert_eq!(files(&["--closed-files", "cut"]), FilePolicy::Undo);
        let limit = |size: &str| Some(spec(&["--undo-limit", size])?.undo_limit);
        assert_eq!(limit("16G"), Some(16 << 30));
        assert_eq!(limit("3M"), Some(3_145_728));
        assert_eq!(limit("3MG"), None);
    }

    #[test]
    fn compress_flags_set_the_compression() {
        let compression = |flag: &str| spec(&[flag]).unwrap().compression;
        assert_eq!(compression("--compress"), Compression::Always);
        assert_eq!(compression("--no-compress"), Compression::Off);
        assert_eq!(spec(&["--compress", "--no-compress"]), None);
    }

    #[test]
    fn full_every_has_a_range() {
        let full_every = |every: &str| Some(spec(&["--full-every", every])?.full_every);
        assert_eq!(full_every("8"), Some(8));
        assert_eq!((full_every("0"), full_every("101")), (None, None));
    }

    #[test]
    fn relative_paths_become_absolute() {
        let spec = spec(&["--key-file", "k", "--local-dir", "l/%t"]).unwrap();
        assert!(spec.key_file.unwrap().is_absolute());
        let local = spec.local_dir.unwrap();
        assert!(local.is_absolute() && local.ends_with("l/0"), "{local:?}");
    }

    #[test]
    fn sets_are_split_from_their_directory() {
        let split = |p: &str| directory_and_set(p.as_ref());
        assert_eq!(split("a/ckpt-3"), ("a".into(), Some("ckpt-3".into())));
        assert_eq!(split("ckpt-3/"), (".".into(), Some("ckpt-3".into())));
        assert_eq!(split("a/ckpt"), ("a/ckpt".into(), None));
    }
}
