//! The interface between `stasis` and the lower half: the settings of a job, passed as one JSON argument, and the exit
//! codes of both programs.
//!
//! `stasis` executes `lower-NAME launch SPEC -- PROGRAM ARGUMENTS` or `lower-NAME restart SPEC`. `SPEC` is a
//! [`LaunchSpec`] or a [`RestartSpec`], written by [`to_argument`] and read by [`from_argument`]. The lower half writes
//! the same argument when its program executes another one.
//!
//! To add a setting: a field here and an increase of [`VERSION`]; then the flag in `cli/src/args/mod.rs`.

mod exit_code;
mod path;
pub mod shell;

use std::ffi::OsStr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

pub use exit_code::ExitCode;

/// Version of the argument. It increases with every change of the types here: the two programs must agree on it.
pub const VERSION: u32 = 13;

/// Settings of `launch`. `L` is the lineage of the run (`ckpt_image::Lineage`), which `stasis` does not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaunchSpec<L> {
    /// The checkpoints of the job.
    pub checkpoints: Checkpoints,
    /// Lineage of the run, if this program was executed by another program of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lineage: Option<L>,
}

/// Settings of `restart`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RestartSpec {
    /// The checkpoints of the job, including the one to restart from.
    pub checkpoints: Checkpoints,
    /// Name of the checkpoint (`ckpt-3`); the newest whole one if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<String>,
    /// Treatment of open files whose content differs from the checkpoint.
    pub changed_files: ChangedFilePolicy,
    /// The first job, if this one is a copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy_of: Option<CopyOf>,
}

/// The first job of a copy. Nothing of it is changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyOf {
    /// Absolute path of its checkpoint directory, from which the copy restarts.
    #[serde(with = "path")]
    pub dir: PathBuf,
    /// Absolute path of the copy's working directory, if it has one of its own.
    #[serde(
        with = "path::optional",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub workdir: Option<PathBuf>,
}

/// Place, time and number of the checkpoints of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoints {
    /// Absolute path of the checkpoint directory.
    #[serde(with = "path")]
    pub dir: PathBuf,
    /// Times of checkpoints without a command.
    pub schedule: Schedule,
    /// Number of checkpoints that are kept.
    pub keep: Keep,
    /// Distance of full checkpoints; those between are increments.
    pub full_every: u32,
    /// Seconds for which a checkpoint waits for a rank that is stuck in a call or does not answer.
    pub patience: u32,
    /// Compression of memory.
    pub compression: Compression,
    /// Time at which the ranks go on.
    pub pause: Pause,
    /// Absolute path of the file of the key that seals checkpoints.
    #[serde(
        with = "path::optional",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub key_file: Option<PathBuf>,
    /// Directory of this rank into which images are written first, to be drained to `dir`.
    #[serde(
        with = "path::optional",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub local_dir: Option<PathBuf>,
    /// Whether ranks on other machines keep copies of the images in `local_dir`.
    pub partner: bool,
    /// Treatment of the changes that the job makes to its files.
    pub files: FilePolicy,
    /// Limit in bytes of a rank's undo journal between two checkpoints.
    pub undo_limit: u64,
    /// Absolute path of the directory of the ranks' logs, if it is not `log` in `dir`.
    #[serde(
        with = "path::optional",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub log_dir: Option<PathBuf>,
    /// Absolute path of the file into which the job's metrics are written.
    #[serde(
        with = "path::optional",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub metrics: Option<PathBuf>,
    /// Whether no line is printed about a committed checkpoint.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub quiet: bool,
    /// Incarnation of the job that this rank belongs to, if `stasis run` has started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<u32>,
    /// Epoch from which a job of MPI Stages goes on; 0 at its beginning. Absent if the job is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<u64>,
    /// The lesser processor that the program sees, if it is not to see the whole one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_cpu: Option<ForCpu>,
    /// The debugging tools that are on.
    #[serde(default, skip_serializing_if = "Tools::are_off")]
    pub tools: Tools,
    /// The MPI library that a lower half for the standard ABI loads.
    #[serde(
        with = "path::optional",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub mpi_library: Option<PathBuf>,
    /// Descriptor of the connection by which `stasis launch` has announced the rank to `stasis run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub announced: Option<i32>,
}

/// The lesser processor that a program sees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForCpu {
    /// Name that the user gave: a level of the psABI, or a file.
    pub name: String,
    /// Its features, sorted, with the names of /proc/cpuinfo (crate `processor`).
    pub features: Vec<String>,
}

/// Options of the debugging tools. Those of rank 0 hold for all ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tools {
    /// Collective operations that are reduced to messages (`reduction::Selection`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reduce: Option<String>,
    /// Whether a profiler between the program and MPI sees their messages.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reduce_visible: bool,
    /// What is done with the record of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Record>,
    /// Seed with which candidates of receives and probes are held back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub perturb: Option<u64>,
    /// Place at which a rank stops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_at: Option<Breakpoint>,
    /// Whether MPI calls are counted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub profile: bool,
}

/// A place in a rank's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Breakpoint {
    /// The rank.
    pub rank: u32,
    /// Number of an MPI call, from 1 on.
    pub call: u64,
}

impl FromStr for Breakpoint {
    type Err = String;

    /// Reads `RANK:CALL`.
    fn from_str(text: &str) -> Result<Breakpoint, String> {
        let parse = || {
            let (rank, call) = text.split_once(':')?;
            Some(Breakpoint {
                rank: rank.parse().ok()?,
                call: call.parse().ok().filter(|call| *call > 0)?,
            })
        };
        parse().ok_or_else(|| {
            "expected RANK:CALL, such as 3:1200; calls are counted from 1".to_owned()
        })
    }
}

impl Tools {
    /// Whether no tool is on.
    pub fn are_off(&self) -> bool {
        *self == Tools::default()
    }
}

/// What is done with the record of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Record {
    /// The run is recorded.
    Write {
        /// Absolute path of the record's directory.
        #[serde(with = "path")]
        dir: PathBuf,
        /// The messages whose digests are recorded, too.
        digests: Digests,
        /// Whether those of sent messages are.
        sends: bool,
        /// Whether all that calls return is recorded, so that a rank can be run alone.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        contents: bool,
        /// Whether the values of the program's clocks are recorded.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        time: bool,
    },
    /// One rank of a recorded run is run alone.
    Solo {
        /// Absolute path of the record's directory.
        #[serde(with = "path")]
        dir: PathBuf,
        /// The rank.
        rank: u32,
    },
    /// The run is replayed.
    Replay {
        /// Absolute path of the record's directory.
        #[serde(with = "path")]
        dir: PathBuf,
    },
}

/// The messages whose digests are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Digests {
    /// None
    Off,
    /// Those of up to 4 KiB
    Small,
    /// All
    All,
}

impl Digests {
    /// Most bytes of a message whose digest is taken, plus one; 0 for none.
    pub fn limit(self) -> u64 {
        match self {
            Digests::Off => 0,
            Digests::Small => 4096 + 1,
            Digests::All => u64::MAX,
        }
    }
}

impl Checkpoints {
    /// The directory of the ranks' logs.
    pub fn log_dir(&self) -> PathBuf {
        log_dir(self.log_dir.as_deref(), &self.dir)
    }
}

/// The directory of the ranks' logs: the given one, or `log` in the checkpoint directory.
pub fn log_dir(given: Option<&Path>, checkpoints: &Path) -> PathBuf {
    given.map_or_else(|| checkpoints.join("log"), Path::to_owned)
}

/// Times of checkpoints without a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Interval of periodic checkpoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// Interval in seconds of checkpoints that stay in memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Checkpoint before the end of the allocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<LastCheckpoint>,
    /// Signals that request checkpoints.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<SignalRequest>,
}

/// Interval of periodic checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interval {
    /// Fixed time in seconds from the start of one checkpoint to the start of the next.
    Seconds(u64),
    /// The interval that loses the least time to checkpoints and to work that failures undo. The value is the job's
    /// mean time between failures in seconds.
    Mtbf(u64),
}

/// Checkpoint before the end of the allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastCheckpoint {
    /// Seconds since 1970.
    pub at: u64,
    /// Action after it.
    pub then: Then,
}

/// Signal that requests a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignalRequest {
    /// Number of the signal.
    pub signal: i32,
    /// Action after the checkpoint.
    pub then: Then,
}

/// Action after a checkpoint that a signal or the end of the job's time requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Then {
    /// The job ends
    Stop,
    /// The job goes on
    GoOn,
}

/// Number of checkpoints that are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keep {
    /// Every one.
    All,
    /// The newest ones.
    Newest(NonZeroUsize),
}

/// Compression of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    /// None.
    Off,
    /// If a sample shows that it saves time.
    Probe,
    /// Of every chunk that gets a page shorter: for disks that are slower than the compression.
    Always,
}

/// Duration of the pause for a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Pause {
    /// Until its memory is copied on write, where the machine can bear that; images are written while
    /// it runs on
    Copy,
    /// Until the images are written
    Stop,
}

/// Treatment of the changes that the job has made to its files since the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum FilePolicy {
    /// Undo all of them. The job keeps a journal of what it overwrites, removes and renames
    Undo,
    /// Truncate what was appended. There is no journal
    Cut,
    /// As `cut`, but leave files alone that the job had closed
    Leave,
}

/// Treatment of files that the job had open and that differ from the checkpoint. Growth is expected and no
/// difference: the job ran on, and the program writes that part again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum ChangedFilePolicy {
    /// Restore nothing
    #[default]
    Refuse,
    /// Warn, and use the file as it is
    Warn,
    /// Do not check
    Ignore,
}

/// The argument that contains a spec.
#[derive(Serialize, Deserialize)]
struct Argument<T> {
    version: u32,
    spec: T,
}

/// An argument that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The argument is no spec, or one of another version.
    #[error(
        "this lower half was built for another version of Stasis than the command that starts it: build it again by \
         `stasis build-lower`"
    )]
    OtherVersion,
    /// The argument has the right version but is damaged.
    #[error("the settings of the job cannot be read (a defect in Stasis)")]
    Unreadable(#[from] serde_json::Error),
}

/// The argument for a spec.
///
/// # Errors
/// If the spec has a map whose keys are no strings.
pub fn to_argument<T: Serialize>(spec: &T) -> serde_json::Result<String> {
    serde_json::to_string(&Argument {
        version: VERSION,
        spec,
    })
}

/// The spec in an argument.
///
/// # Errors
/// [`Error::OtherVersion`] if another version of Stasis made the argument, [`Error::Unreadable`] if it is damaged.
pub fn from_argument<T: DeserializeOwned>(argument: &OsStr) -> Result<T, Error> {
    let bytes = argument.as_encoded_bytes();
    let version = serde_json::from_slice::<Argument<IgnoredAny>>(bytes);
    if version.map_or(0, |argument| argument.version) != VERSION {
        return Err(Error::OtherVersion);
    }
    Ok(serde_json::from_slice::<Argument<T>>(bytes)?.spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    fn checkpoints() -> Checkpoints {
        Checkpoints {
            dir: "/ck".into(),
            schedule: Schedule::default(),
            keep: Keep::All,
            full_every: 1,
            patience: 60,
            compression: Compression::Probe,
            pause: Pause::Copy,
            key_file: None,
            local_dir: None,
            partner: false,
            files: FilePolicy::Undo,
            undo_limit: 5,
            log_dir: None,
            metrics: None,
            quiet: false,
            incarnation: None,
            stages: None,
            for_cpu: None,
            tools: Tools::default(),
            mpi_library: None,
            announced: None,
        }
    }

    /// If this fails, [`VERSION`] must increase.
    #[test]
    fn the_argument_matches_this_version() {
        let launch = LaunchSpec::<()> {
            checkpoints: checkpoints(),
            lineage: None,
        };
        assert_eq!(
            to_argument(&launch).unwrap(),
            "{\"version\":13,\"spec\":{\"checkpoints\":{\"dir\":\"/ck\",\"schedule\":{},\"keep\":\"all\",\
             \"full_every\":1,\"patience\":60,\"compression\":\"probe\",\"pause\":\"copy\",\"partner\":false,\"files\":\"undo\",\
             \"undo_limit\":5}}}"
        );
        let restart = RestartSpec {
            checkpoints: Checkpoints {
                schedule: Schedule {
                    interval: Some(Interval::Mtbf(60)),
                    memory: Some(30),
                    last: Some(LastCheckpoint {
                        at: 9,
                        then: Then::GoOn,
                    }),
                    signals: vec![SignalRequest {
                        signal: 10,
                        then: Then::Stop,
                    }],
                },
                keep: Keep::Newest(NonZeroUsize::MIN),
                key_file: Some("/k".into()),
                local_dir: Some("/l".into()),
                log_dir: Some("/log".into()),
                metrics: Some("/m".into()),
                quiet: true,
                incarnation: Some(2),
                stages: Some(3),
                for_cpu: Some(ForCpu {
                    name: "x86-64".into(),
                    features: vec!["sse".into()],
                }),
                tools: Tools {
                    reduce: Some("all".into()),
                    reduce_visible: true,
                    record: Some(Record::Replay { dir: "/rec".into() }),
                    profile: true,
                    ..Tools::default()
                },
                mpi_library: Some("/abi".into()),
                announced: Some(3),
                ..checkpoints()
            },
            set: Some("ckpt-3".into()),
            changed_files: ChangedFilePolicy::Warn,
            copy_of: Some(CopyOf {
                dir: "/first".into(),
                workdir: Some("/w".into()),
            }),
        };
        let argument = to_argument(&restart).unwrap();
        assert_eq!(
            argument,
            "{\"version\":13,\"spec\":{\"checkpoints\":{\"dir\":\"/ck\",\"schedule\":{\"interval\":{\"mtbf\":60},\"memory\":30,\
             \"last\":{\"at\":9,\"then\":\"go-on\"},\"signals\":[{\"signal\":10,\"then\":\"stop\"}]},\
             \"keep\":{\"newest\":1},\"full_every\":1,\"patience\":60,\"compression\":\"probe\",\"pause\":\"copy\",\"key_file\":\"/k\",\
             \"local_dir\":\"/l\",\"partner\":false,\"files\":\"undo\",\"undo_limit\":5,\"log_dir\":\"/log\",\"metrics\":\"/m\",\"quiet\":true,\"incarnation\":2,\"stages\":3,\
             \"for_cpu\":{\"name\":\"x86-64\",\"features\":[\"sse\"]},\"tools\":{\"reduce\":\"all\",\"reduce_visible\":true,\"record\":{\"replay\":{\"dir\":\"/rec\"}},\"profile\":true},\"mpi_library\":\"/abi\",\"announced\":3},\
             \"set\":\"ckpt-3\",\
             \"changed_files\":\"warn\",\"copy_of\":{\"dir\":\"/first\",\"workdir\":\"/w\"}}}"
        );
        let read: RestartSpec = from_argument(argument.as_ref()).unwrap();
        assert_eq!(read, restart);
    }

    #[test]
    fn a_path_need_not_be_text() {
        let path = PathBuf::from(OsString::from_vec(b"/a\xff".into()));
        let spec = LaunchSpec {
            checkpoints: Checkpoints {
                dir: path.clone(),
                local_dir: Some(path),
                ..checkpoints()
            },
            lineage: Some(7),
        };
        let argument = to_argument(&spec).unwrap();
        assert_eq!(
            from_argument::<LaunchSpec<i32>>(argument.as_ref()).unwrap(),
            spec
        );
    }

    #[test]
    fn another_version_is_distinguished_from_a_damaged_spec() {
        let read = |argument: &str| from_argument::<RestartSpec>(argument.as_ref()).unwrap_err();
        for other in ["--ckpt-dir", "", "{}", r#"{"version":1,"spec":[0]}"#] {
            assert!(matches!(read(other), Error::OtherVersion), "{other}");
        }
        for damaged in [
            r#"{"version":13,"spec":{}}"#,
            r#"{"version":13,"spec":{"more":1}}"#,
        ] {
            assert!(matches!(read(damaged), Error::Unreadable(_)), "{damaged}");
        }
    }
}
