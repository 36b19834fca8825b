//! The command line: the one table of commands and flags. Help, man pages and completions come from
//! it (`pages.rs`).
//!
//! To add a flag: a field here, with `env = "STASIS_..."` after its name, so that job scripts need no
//! editing; a test below holds that.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use ckpt_image::{Key, LONGEST_CHAIN};
use clap::builder::FalseyValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::local::Local;
use crate::schedule::{self, Interval, Signal, Then};
use crate::{directory, exit};

/// Freezes a running MPI job to disk and brings it back, under any MPI library.
#[derive(Parser)]
#[command(name = "stasis", version, after_help = crate::exit::HELP)]
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
    /// Tell how the job that runs with this directory stands
    Status(Job),
    /// List the checkpoints in a directory
    List(Inspect),
    /// Read checkpoints to the last byte and tell whether they are sound
    Verify(Inspect),
    /// Show what a checkpoint holds and where its bytes are
    Inspect(Inspect),
    /// Compare two checkpoints of a job, page by page
    Diff(Diff),
    /// Make the newest checkpoint, an increment, a full one that needs no other; no job may be running
    Compact(Compact),
    /// Bring images that lie on this node to the checkpoint directory: when a job has died, before its nodes go
    Drain(Drain),
    /// Tell whether Stasis can work here, and with this program
    Doctor(Doctor),
    /// Build what Stasis needs to run jobs over an MPI library, with that library's mpicc
    BuildLower(BuildLower),
    /// Print what makes a shell complete commands and flags
    Completions(Completions),
    /// Print the manual page of stasis or of one of its commands: stasis man launch | man -l -
    Man(Man),
}

/// A flag's variable says no as `0`, `no`, `off`, `false` or nothing, and yes otherwise.
fn yes_or_no() -> FalseyValueParser {
    FalseyValueParser::new()
}

/// What to do where a file that the job had open is not what it was at the checkpoint. That it has
/// grown is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ChangedFiles {
    /// Restore nothing
    Refuse,
    /// Say so and go on with the file as it is
    Warn,
    /// Do not look
    Ignore,
}

impl ChangedFiles {
    /// As the lower half is told.
    pub fn word(self) -> &'static str {
        match self {
            ChangedFiles::Refuse => "refuse",
            ChangedFiles::Warn => "warn",
            ChangedFiles::Ignore => "ignore",
        }
    }
}

/// How a restart treats changes that the job has made to its files since the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Files {
    /// Undo it all. The job keeps a journal of what it overwrites, removes and renames
    Undo,
    /// Cut off what was appended. There is no journal
    Cut,
    /// As `cut`, but leave files alone that the job had closed
    Leave,
}

impl Files {
    /// As the lower half is told.
    fn word(self) -> &'static str {
        match self {
            Files::Undo => "undo",
            Files::Cut => "cut",
            Files::Leave => "leave",
        }
    }
}

/// The same, by its older name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ClosedFiles {
    Cut,
    Leave,
}

/// Which checkpoints are trusted.
#[derive(Args)]
pub struct KeyFile {
    /// Seal checkpoints with the key in FILE (32 bytes or more, yours alone), and take only those that
    /// it seals
    #[arg(long, value_name = "FILE", env = "STASIS_KEY_FILE")]
    key_file: Option<PathBuf>,
}

impl KeyFile {
    /// The key, if one was given.
    pub fn read(&self) -> ckpt_image::Result<Option<Key>> {
        self.key_file.as_deref().map(Key::read).transpose()
    }
}

/// Options of `launch` and `restart`: how the job runs.
#[derive(Args)]
pub struct Running {
    /// When, and how many.
    #[command(flatten)]
    pub checkpoints: Checkpoints,
    /// Lower half to run over, by name [default: that of the launcher's MPI library]
    #[arg(long, value_name = "NAME", env = "STASIS_MPI")]
    pub mpi: Option<String>,
    /// At a restart: where a file that was open has another content than at the checkpoint (it may have
    /// grown)
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "refuse",
        env = "STASIS_CHANGED_FILES"
    )]
    pub changed_files: ChangedFiles,
}

/// When checkpoints are taken, and which stay.
#[derive(Args)]
pub struct Checkpoints {
    /// When.
    #[command(flatten)]
    pub schedule: Schedule,
    /// Keep the newest N checkpoints; `all` keeps every one
    #[arg(long, value_name = "N", default_value = "2", value_parser = keep, env = "STASIS_KEEP")]
    pub keep: Keep,
    /// How a restart treats changes that the job has made to its files since the checkpoint
    #[arg(
        long,
        value_name = "WHAT",
        default_value = "undo",
        env = "STASIS_FILES"
    )]
    files: Files,
    /// The older form of --files leave
    #[arg(long, value_name = "WHAT", hide = true, env = "STASIS_CLOSED_FILES")]
    closed_files: Option<ClosedFiles>,
    /// Let each rank's journal for --files undo grow to SIZE between two checkpoints (K, M, G and T are powers of
    /// 1024)
    #[arg(long, value_name = "SIZE", default_value = "16G", value_parser = size, env = "STASIS_UNDO_LIMIT")]
    undo_limit: u64,
    /// Have every M-th checkpoint hold all memory, and those between only what has changed since the one
    /// before; 1 makes each a full one
    #[arg(long, value_name = "M", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=LONGEST_CHAIN as i64), env = "STASIS_FULL_EVERY")]
    pub full_every: u32,
    /// Compress whatever gets smaller, not only where that costs no time
    #[arg(long, conflicts_with = "no_compress", env = "STASIS_COMPRESS", value_parser = yes_or_no())]
    pub compress: bool,
    /// Compress nothing
    #[arg(long, env = "STASIS_NO_COMPRESS", value_parser = yes_or_no())]
    pub no_compress: bool,
    /// How long the job stands still for a checkpoint
    #[arg(long, value_name = "HOW", default_value = "copy", env = "STASIS_PAUSE")]
    pub pause: Pause,
    /// Write images to DIR, which may be each node's own disk or memory (%t stands for the rank, %N for the
    /// host), and copy them from there to the checkpoint directory while the job runs on
    #[arg(long, value_name = "DIR", env = "STASIS_LOCAL_DIR")]
    pub local_dir: Option<Local>,
    /// Have a copy of each image in --local-dir kept on another node until it is in the checkpoint directory:
    /// no checkpoint is lost with one node
    #[arg(long, env = "STASIS_PARTNER", value_parser = yes_or_no())]
    pub partner: bool,
    /// Which are trusted.
    #[command(flatten)]
    pub key: KeyFile,
}

/// When checkpoints are taken that no command asks for.
#[derive(Args)]
pub struct Schedule {
    /// Take a checkpoint every so many seconds (or 30m, 12h, 7d); `auto` finds the interval that loses
    /// least time, from what the last one cost and from --mtbf
    #[arg(short, long, value_name = "SECONDS|auto", value_parser = schedule::interval, env = "STASIS_INTERVAL")]
    pub interval: Option<Interval>,
    /// For `--interval auto`: how long a job of this size runs on average until something fails
    /// [default: 1d]
    #[arg(long, value_name = "SECONDS", value_parser = schedule::seconds, env = "STASIS_MTBF")]
    pub mtbf: Option<u64>,
    /// Take a checkpoint so many minutes (or 90s, 1h) before the allocation ends, as Slurm knows it, and
    /// end the job
    #[arg(long, value_name = "MINUTES", value_parser = schedule::minutes, env = "STASIS_BEFORE_END")]
    pub before_end: Option<u64>,
    /// For `--before-end` where there is no Slurm: how many minutes (or 8h, 2d) the job has from now
    #[arg(long, value_name = "MINUTES", value_parser = schedule::minutes, env = "STASIS_TIME_LIMIT")]
    pub time_limit: Option<u64>,
    /// Take a checkpoint when a rank gets this signal, which the program then never sees (USR1, USR2,
    /// TERM, INT, QUIT, HUP, XCPU, or several between commas). With all but the first two the job ends
    #[arg(long, value_name = "SIGNAL", value_delimiter = ',', value_parser = schedule::signal, env = "STASIS_SIGNAL")]
    pub signal: Vec<Signal>,
    /// What follows a checkpoint that a signal or --before-end asks for
    #[arg(long, value_name = "WHAT", env = "STASIS_THEN")]
    pub then: Option<Then>,
}

/// How long the job stands still for a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Pause {
    /// Until its memory is copied on write, where the machine can bear that; images are written while
    /// it runs on
    Copy,
    /// Until the images are written
    Stop,
}

/// How many checkpoints stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Every one.
    All,
    /// The newest ones.
    Newest(NonZeroUsize),
}

fn keep(text: &str) -> Result<Keep, String> {
    match (text, text.parse()) {
        ("all", _) => Ok(Keep::All),
        (_, Ok(number)) => Ok(Keep::Newest(number)),
        _ => Err("it must be 1, 2, ... or all".to_owned()),
    }
}

impl Checkpoints {
    /// How a restart treats the files of the job.
    pub fn files(&self) -> Files {
        match self.closed_files {
            Some(ClosedFiles::Leave) => Files::Leave,
            _ => self.files,
        }
    }

    /// As the lower half is told.
    pub fn words(&self) -> Vec<OsString> {
        let mut words = Vec::new();
        if let Keep::Newest(number) = self.keep {
            words.extend(["--keep".into(), number.to_string().into()]);
        }
        if self.full_every > 1 {
            words.extend(["--full-every".into(), self.full_every.to_string().into()]);
        }
        if self.compress || self.no_compress {
            let word = if self.compress { "always" } else { "off" };
            words.extend(["--compress".into(), word.into()]);
        }
        let files = self.files();
        if files != Files::Undo {
            words.extend(["--files".into(), files.word().into()]);
        }
        if self.undo_limit != undo::DEFAULT_LIMIT {
            words.extend(["--undo-limit".into(), self.undo_limit.to_string().into()]);
        }
        if let Some(file) = &self.key.key_file {
            // The program may change its working directory.
            let file = std::path::absolute(file).unwrap_or_else(|_| file.clone());
            words.extend(["--key-file".into(), file.into()]);
        }
        if self.pause == Pause::Stop {
            words.extend(["--pause".into(), "stop".into()]);
        }
        if let Some(local) = &self.local_dir {
            words.extend(["--local-dir".into(), local.here().into()]);
        }
        if self.partner {
            words.push("--partner".into());
        }
        words
    }
}

/// Bytes, perhaps in units of 1024.
fn size(text: &str) -> Result<u64, String> {
    const UNITS: [char; 4] = ['K', 'M', 'G', 'T'];
    let unit = UNITS.iter().position(|unit| text.ends_with(*unit));
    let digits = text.trim_end_matches(UNITS);
    let scale = 1024_u64.pow(unit.map_or(0, |place| place as u32 + 1));
    let bytes = digits.parse::<u64>().ok();
    let bytes = bytes.filter(|_| text.len() - digits.len() <= 1);
    bytes
        .and_then(|bytes| bytes.checked_mul(scale))
        .ok_or_else(|| "a number of bytes is wanted, such as 512M or 16G".to_owned())
}

/// Options of `launch`.
#[derive(Args)]
pub struct Launch {
    /// Directory for checkpoints, the same for all ranks and of this job alone [default: ./NAME.ckpt, NAME being
    /// those of the program and of its first argument that is no option]
    #[arg(long, value_name = "DIR", env = "STASIS_CKPT_DIR")]
    pub ckpt_dir: Option<PathBuf>,
    /// How it runs.
    #[command(flatten)]
    pub running: Running,
    /// Continue from the directory's newest whole checkpoint; start the program only if there is none
    #[arg(long, env = "STASIS_RESUME", value_parser = yes_or_no())]
    pub resume: bool,
    /// Start the program from its beginning where the directory holds checkpoints of it, which are kept in a
    /// directory of their own there
    #[arg(long, env = "STASIS_ANEW", value_parser = yes_or_no())]
    pub anew: bool,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "APP"
    )]
    pub app: Vec<OsString>,
}

/// Options of `restart`.
#[derive(Args)]
pub struct Restart {
    /// The checkpoint directory (its newest whole checkpoint is taken), or one checkpoint in it
    #[arg(value_name = "DIR[/ckpt-N]")]
    pub directory: PathBuf,
    /// Take this checkpoint of the directory
    #[arg(long, value_name = "NAME", env = "STASIS_SET")]
    pub set: Option<String>,
    /// Restore nothing: read and verify the checkpoint and tell what a restart would do to the job's files, as they
    /// are now. Needs no mpirun
    #[arg(long, env = "STASIS_DRY_RUN", value_parser = yes_or_no())]
    pub dry_run: bool,
    /// Print JSON, with --dry-run
    #[arg(long, env = "STASIS_JSON", value_parser = yes_or_no())]
    pub json: bool,
    /// How it runs.
    #[command(flatten)]
    pub running: Running,
}

/// Options of `checkpoint`.
#[derive(Args)]
pub struct Checkpoint {
    /// Which job.
    #[command(flatten)]
    pub job: Job,
    /// End the job once the checkpoint is committed
    #[arg(long, env = "STASIS_STOP", value_parser = yes_or_no())]
    pub stop: bool,
    /// Return as soon as the job knows that a checkpoint is wanted
    #[arg(long, env = "STASIS_NO_WAIT", value_parser = yes_or_no())]
    pub no_wait: bool,
    /// Wait so many seconds (or 30m, 12h) for the checkpoint, and no longer: the job then takes it when it can
    #[arg(long, value_name = "SECONDS", value_parser = schedule::seconds, env = "STASIS_PATIENCE")]
    pub patience: Option<u64>,
    /// Return when the checkpoint is committed, as is usual; --no-wait has no say then
    #[arg(long, env = "STASIS_WAIT", value_parser = yes_or_no())]
    pub wait: bool,
}

/// Options of the commands that ask a running job.
#[derive(Args)]
pub struct Job {
    /// The job's checkpoint directory [default: the only NAME.ckpt here]
    #[arg(value_name = "DIR", env = "STASIS_CKPT_DIR")]
    directory: Option<PathBuf>,
    /// Print JSON
    #[arg(long, env = "STASIS_JSON", value_parser = yes_or_no())]
    pub json: bool,
}

/// Options of the commands that only look at checkpoints.
#[derive(Args)]
pub struct Inspect {
    /// The checkpoint directory, or one checkpoint in it [default: the only NAME.ckpt here]
    #[arg(value_name = "DIR[/ckpt-N]", env = "STASIS_CKPT_DIR")]
    directory: Option<PathBuf>,
    /// Which are trusted.
    #[command(flatten)]
    pub key: KeyFile,
    /// Print JSON
    #[arg(long, env = "STASIS_JSON", value_parser = yes_or_no())]
    pub json: bool,
}

/// Options of `diff`.
#[derive(Args)]
pub struct Diff {
    /// The one
    #[arg(value_name = "DIR[/ckpt-N]")]
    pub first: PathBuf,
    /// The other
    #[arg(value_name = "DIR[/ckpt-N]")]
    pub second: PathBuf,
    /// Which are trusted.
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
    #[arg(value_name = "DIR", env = "STASIS_CKPT_DIR")]
    directory: Option<PathBuf>,
    /// Keep the newest N checkpoints and those that they need, the new one among them; `all` keeps every
    /// one
    #[arg(long, value_name = "N", default_value = "all", value_parser = keep, env = "STASIS_KEEP")]
    pub keep: Keep,
    /// Which are trusted.
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
    #[arg(value_name = "DIR", env = "STASIS_CKPT_DIR")]
    directory: Option<PathBuf>,
    /// Which are trusted.
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
    /// A program to look at, or a library that programs load: which front it gets, which symbols of MPI
    /// it and its libraries (and those in LD_PRELOAD) import, and whether that front has them
    pub app: Option<PathBuf>,
    /// Print every symbol of MPI that is imported, with a file that does
    #[arg(long, env = "STASIS_SYMBOLS", value_parser = yes_or_no())]
    pub symbols: bool,
    /// Where checkpoints are to go: what it lies on, and how many fit [default: where those of APP go, or the
    /// current directory]
    #[arg(long, value_name = "DIR", env = "STASIS_CKPT_DIR")]
    pub ckpt_dir: Option<PathBuf>,
}

impl Launch {
    /// Where its checkpoints go.
    pub fn directory(&self) -> PathBuf {
        let named = self.ckpt_dir.clone();
        named.unwrap_or_else(|| directory::of_program(&self.app))
    }
}

impl Doctor {
    /// Where checkpoints would go.
    pub fn directory(&self) -> PathBuf {
        let of = |app: &PathBuf| directory::of_program(&[app.clone().into()]);
        let named = self.ckpt_dir.clone().or_else(|| self.app.as_ref().map(of));
        named.unwrap_or_else(|| ".".into())
    }
}

/// Commands that are about one checkpoint directory, and need not be told which where there is one.
macro_rules! of_one_directory {
    ($($options:ident),*) => {$(
        impl $options {
            /// The directory that is meant.
            pub fn directory(&self) -> exit::Result<PathBuf> {
                self.directory.clone().map_or_else(directory::only_one_here, Ok)
            }
        }
    )*};
}

of_one_directory!(Job, Inspect, Compact, Drain);

const DOCTOR_CODES: &str = "\
Exit codes: 0 all is well; 2 wrong usage; 3 something is BAD: Stasis cannot work here, no checkpoint can \
be written there, the program was not found or cannot be served, or symbols are missing, which are named.";

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
    /// What `--mpi` is to call it [default: the library's name and version, like openmpi-5.0.11]
    #[arg(long, env = "STASIS_NAME")]
    pub name: Option<String>,
    /// Stasis's sources [default: those of the package, or those that this command was built from]
    #[arg(long, value_name = "DIR", env = "STASIS_SOURCE")]
    pub source: Option<PathBuf>,
}

/// Options of `completions`.
#[derive(Args)]
pub struct Completions {
    /// The shell, into whose folder for completions the output goes
    pub shell: clap_complete::Shell,
}

/// Options of `man`.
#[derive(Args)]
pub struct Man {
    /// The command that the page is of [default: that of stasis itself]
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

/// Splits `DIR/ckpt-N` into the directory and the set; without a set, `DIR` may end in anything.
pub fn directory_and_set(path: &std::path::Path) -> (PathBuf, Option<String>) {
    let is_set = |name: &str| {
        name.strip_prefix("ckpt-")
            .is_some_and(|n| n.parse::<u64>().is_ok())
    };
    match (path.file_name().and_then(|n| n.to_str()), path.parent()) {
        // A checkpoint directory may itself have such a name: then it has no manifest, but sets.
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
    use clap::CommandFactory;

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

    /// What `stasis restart` is told by these flags; none if they are wrong.
    pub(crate) fn running(flags: &[&str]) -> Option<Running> {
        let line = ["stasis", "restart", "ck"].iter().chain(flags);
        let Command::Restart(restart) = Arguments::try_parse_from(line).ok()?.command else {
            panic!()
        };
        Some(restart.running)
    }

    #[test]
    fn old_checkpoints_are_counted_or_all_kept() {
        let words = |keep: &str| Some(running(&["--keep", keep])?.checkpoints.words());
        assert_eq!(words("3").unwrap(), ["--keep", "3"]);
        assert!(words("all").unwrap().is_empty());
        assert_eq!((words("0"), words("few")), (None, None));
    }

    #[test]
    fn what_becomes_of_files_is_told_where_it_is_asked_for() {
        let words = |flags: &[&str]| {
            let flags = [&["--keep", "all"], flags].concat();
            Some(running(&flags)?.checkpoints.words())
        };
        assert!(words(&["--files", "undo", "--undo-limit", "16G"])
            .unwrap()
            .is_empty());
        assert_eq!(words(&["--files", "cut"]).unwrap(), ["--files", "cut"]);
        assert_eq!(
            words(&["--closed-files", "leave"]).unwrap(),
            ["--files", "leave"]
        );
        let limit = words(&["--undo-limit", "3M"]).unwrap();
        assert_eq!(limit, ["--undo-limit", "3145728"]);
        assert_eq!(words(&["--undo-limit", "3MG"]), None);
    }

    #[test]
    fn increments_are_asked_for() {
        let words = |every: &str| {
            let flags = ["--keep", "all", "--full-every", every];
            Some(running(&flags)?.checkpoints.words())
        };
        assert_eq!(words("8").unwrap(), ["--full-every", "8"]);
        assert!(words("1").unwrap().is_empty());
        assert_eq!((words("0"), words("101")), (None, None));
    }

    #[test]
    fn a_key_file_is_named_from_the_root() {
        let line = ["stasis", "launch", "--key-file", "k", "./app"];
        let Command::Launch(launch) = Arguments::parse_from(line).command else {
            panic!()
        };
        let words = launch.running.checkpoints.words();
        let [.., name, file] = &words[..] else {
            panic!()
        };
        assert_eq!(name, "--key-file");
        assert!(PathBuf::from(file).is_absolute());
    }

    #[test]
    fn sets_are_told_from_directories() {
        let split = |p: &str| directory_and_set(p.as_ref());
        assert_eq!(split("a/ckpt-3"), ("a".into(), Some("ckpt-3".into())));
        assert_eq!(split("ckpt-3/"), (".".into(), Some("ckpt-3".into())));
        assert_eq!(split("a/ckpt"), ("a/ckpt".into(), None));
    }
}
