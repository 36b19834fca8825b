//! The events of a job. `docs/json.md` describes each member for readers of the file.
//!
//! A reader ignores members and events that it does not know. [`SCHEMA_VERSION`] grows when a
//! member is removed or changes its meaning. Durations are in seconds, sizes in bytes.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Version of the lines.
pub const SCHEMA_VERSION: u32 = 1;

/// Most elements of a list of ranks, machines or texts in an event.
pub const MOST_LISTED: usize = 32;
/// Most bytes of a text that the job has made, such as the reason of a failure.
const LONGEST_TEXT: usize = 1000;

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// [`SCHEMA_VERSION`] of the writer.
    pub schema_version: u32,
    /// When it happened, in seconds since 1970.
    pub time: f64,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

impl Entry {
    /// An event that happens now.
    pub fn now(event: Event) -> Entry {
        Entry::at(now(), event)
    }

    /// An event of this time.
    pub fn at(time: f64, event: Event) -> Entry {
        Entry {
            schema_version: SCHEMA_VERSION,
            time,
            event,
        }
    }
}

/// A time to the millisecond.
pub fn rounded(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

/// The present time in seconds since 1970, to the millisecond.
pub fn now() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_millis() as f64 / 1e3
}

/// The beginning of a text, as much as an event keeps of it.
pub fn shortened(text: &str) -> String {
    match text.char_indices().find(|(at, _)| *at >= LONGEST_TEXT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The program is started from its beginning, or has executed another one in its place.
    Launch(Start),
    /// The job goes on from a checkpoint.
    Restart {
        /// The run that begins.
        #[serde(flatten)]
        start: Start,
        /// The checkpoint.
        from: String,
    },
    /// A checkpoint is committed.
    Checkpoint(Box<Checkpoint>),
    /// A checkpoint was given up. The job runs on.
    CheckpointFailed {
        /// Reason.
        why: String,
    },
    /// A rank has something to say about its restart, such as that a file has changed. Only the first
    /// [`MOST_LISTED`] ranks note it.
    Warning {
        /// The rank.
        rank: u32,
        /// The text.
        text: String,
    },
    /// A restart was refused before anything of the program ran. Under `stasis run` the failure has the reason.
    RestartRefused {
        /// The rank that says so, if it was one of several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rank: Option<u32>,
        /// Reason.
        why: String,
    },
    /// Connections to ranks broke: they have probably died.
    RanksLost {
        /// The first of these ranks, at most [`MOST_LISTED`].
        lost_ranks: Vec<u32>,
        /// Their number.
        count: usize,
    },
    /// The run before was killed, and no process was left to note that. Its time is that of the last sign of life.
    Gone,
    /// The job has ended in an orderly way.
    End {
        /// The checkpoint with which it has ended; none if it was not asked to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        set: Option<String>,
        /// Exit code of rank 0, if it is not 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
    },
    /// `stasis stop` has ended the job, without a checkpoint.
    Stopped,
    /// `stasis run` has seen a failure, and starts the job again.
    Failure {
        /// The failure.
        what: String,
        /// Number of failures without a new checkpoint.
        failures: u32,
        /// Why ranks could not be started or restored, at most [`MOST_LISTED`] reasons.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        refusals: Vec<String>,
    },
    /// `stasis run` does not start the job again.
    GivenUp {
        /// The failure.
        what: String,
        /// Why the job is not started again.
        why: String,
        /// Why ranks could not be started or restored, at most [`MOST_LISTED`] reasons.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        refusals: Vec<String>,
    },
    /// Older events were removed, because the file had reached its limit.
    Shortened {
        /// Bytes of these events.
        dropped_bytes: u64,
    },
    /// An event of a newer version.
    #[serde(other)]
    Unknown,
}

impl Event {
    /// Whether no run of the job goes on after it.
    pub fn ends_run(&self) -> bool {
        matches!(
            self,
            Event::Gone
                | Event::End { .. }
                | Event::Stopped
                | Event::Failure { .. }
                | Event::GivenUp { .. }
        )
    }

    /// Whether the job is over with it, and not only a run.
    pub fn ends_job(&self) -> bool {
        matches!(self, Event::End { .. } | Event::Stopped)
    }

    /// Whether the job ran when it happened.
    pub fn is_of_run(&self) -> bool {
        !matches!(self, Event::RestartRefused { .. })
    }

    /// The start of a run that it is.
    pub fn start(&self) -> Option<&Start> {
        match self {
            Event::Launch(start) | Event::Restart { start, .. } => Some(start),
            _ => None,
        }
    }
}

/// The newest start among these events.
pub fn newest_start(entries: &[Entry]) -> Option<&Start> {
    entries.iter().rev().find_map(|entry| entry.event.start())
}

/// A start of the job's ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Id of the run, as in the lineage of manifests.
    pub run: String,
    /// Number of ranks.
    pub ranks: u32,
    /// Program and arguments.
    pub program: Vec<String>,
    /// The MPI library.
    pub mpi: String,
    /// Machine of rank 0.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// Number of the start under `stasis run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<u32>,
    /// Id of the allocation that a scheduler has given to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<String>,
    /// File of the metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metrics: Option<PathBuf>,
    /// Version of Stasis.
    pub stasis_version: String,
}

/// Origin of a request for a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A command, such as `stasis checkpoint`.
    Command,
    /// `--interval`.
    Interval,
    /// A signal to a rank, or the program itself.
    Rank,
    /// `--before-end`.
    BeforeEnd,
    /// One that was given up is tried again.
    Retry,
    /// One of a newer version.
    #[serde(other)]
    Other,
}

impl Cause {
    /// The word of the file.
    pub fn word(self) -> &'static str {
        match self {
            Cause::Command => "command",
            Cause::Interval => "interval",
            Cause::Rank => "rank",
            Cause::BeforeEnd => "before_end",
            Cause::Retry => "retry",
            Cause::Other => "other",
        }
    }
}

/// A committed checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Its name.
    pub set: String,
    /// The set from which an increment inherits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub increment_of: Option<String>,
    /// Place of its images at the commit: `shared`, `local` or `partner`.
    pub level: String,
    /// Origins of its requests.
    pub asked_by: Vec<Cause>,
    /// Whether the job ends with it.
    pub stop: bool,
    /// Length of all images.
    pub bytes: u64,
    /// Memory that they hold.
    pub memory_bytes: u64,
    /// The moment to which a restart goes back, in seconds since 1970: the job stood still then.
    pub cut: f64,
    /// From the request to the commit.
    pub total_seconds: f64,
    /// Part of it in which the ranks ran to a common state.
    pub approach_seconds: f64,
    /// Part of it in which the job stood still.
    pub pause_seconds: f64,
    /// Why it stood still until the images were written; none if memory was copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pause_because: Option<String>,
    /// The slowest ranks of each phase.
    pub slowest: Slowest,
    /// Notes of ranks, such as files that were not saved, at most [`MOST_LISTED`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// The slowest ranks of the phases, the slowest first, at most three of each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slowest {
    /// Until no message was in flight.
    pub drain: Vec<RankTime>,
    /// Until the memory was copied.
    pub copy: Vec<RankTime>,
    /// Until the image was written.
    pub save: Vec<RankTime>,
}

/// Time that a rank has needed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankTime {
    /// The rank.
    pub rank: u32,
    /// Its time.
    pub seconds: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_objects_with_their_name_and_time() {
        let checkpoint = Checkpoint {
            set: "ckpt-3".into(),
            bytes: u64::MAX,
            asked_by: vec![Cause::BeforeEnd],
            ..Checkpoint::default()
        };
        let restart = Event::Restart {
            start: Start::default(),
            from: "ckpt-2".into(),
        };
        for event in [Event::Checkpoint(Box::new(checkpoint)), restart] {
            let entry = Entry::at(1.5, event);
            let line = serde_json::to_string(&entry).unwrap();
            let json: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!(json["schema_version"], 1);
            assert_eq!(json["time"], 1.5);
            assert!(json["event"] == "checkpoint" || json["from"] == "ckpt-2");
            assert_eq!(serde_json::from_str::<Entry>(&line).unwrap(), entry);
        }
    }

    #[test]
    fn events_and_members_of_newer_versions_are_ignored() {
        let read = |line: &str| serde_json::from_str::<Entry>(line).map(|entry| entry.event);
        let newer = read(r#"{"schema_version":1,"time":2,"event":"eclipse","of":"moon"}"#);
        assert_eq!(newer.unwrap(), Event::Unknown);
        let stopped = Entry::at(2.0, Event::Stopped);
        let line = serde_json::to_string(&stopped).unwrap();
        assert_eq!(read(&line).unwrap(), Event::Stopped);
        let more = read(
            r#"{"schema_version":1,"time":2,"event":"checkpoint_failed","why":"t","new":[1]}"#,
        );
        assert_eq!(more.unwrap(), Event::CheckpointFailed { why: "t".into() });
        let cause = serde_json::from_str::<Cause>(r#""moon""#);
        assert_eq!(cause.unwrap(), Cause::Other);
        for cause in [Cause::Command, Cause::Interval, Cause::BeforeEnd] {
            assert_eq!(serde_json::to_value(cause).unwrap(), cause.word());
        }
    }

    #[test]
    fn long_texts_are_shortened_between_characters() {
        assert_eq!(shortened("short"), "short");
        let long = shortened(&"ä".repeat(LONGEST_TEXT));
        assert!(long.len() <= LONGEST_TEXT + 4 && long.ends_with("ä…"));
    }
}
