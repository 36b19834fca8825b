//! The history of the job, as the coordinator sees it. The file thread appends events to `events.jsonl` and replaces
//! the file of metrics. It tells the user once if that fails: the job runs on without a history.
//!
//! Checkpoints in memory are not in the history. They come in quick succession, and the file is in the directory that
//! they spare.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Instant;

use history::event::{self, Checkpoint, Entry, Event, RankTime, Slowest, Start, MOST_LISTED};
use history::metrics::{self, Metrics};
use history::{file, last_seen, text};
use launcher::message;

use crate::protocol::messages::{Level, Report, Summary, Times};

/// Most ranks that are named as the slowest ones of a phase.
const MOST_SLOW: usize = 3;

/// Settings of the history.
pub struct Options {
    /// The event with which this run begins.
    pub begin: Event,
    /// File of the metrics.
    pub metrics: Option<PathBuf>,
    /// Whether no line is printed about a checkpoint.
    pub quiet: bool,
}

/// The history.
pub struct Chronicle {
    directory: PathBuf,
    metrics: Option<(PathBuf, Metrics)>,
    /// Last sign of life.
    seen: Option<Instant>,
    quiet: bool,
    /// Slowest ranks and notes of the newest images.
    images: (Slowest, Vec<String>),
    /// Whether the user knows that something cannot be written.
    said: bool,
}

impl Chronicle {
    /// The history in this directory, with the event with which the run begins.
    pub fn begin(directory: PathBuf, options: Options) -> Chronicle {
        let before = file::read(&directory).unwrap_or_default().entries;
        let gone = last_seen::unnoted_end(&directory, &before);
        let gone = gone.filter(|_| !goes_on(&before, &options.begin));
        let mut chronicle = Chronicle {
            directory,
            metrics: options.metrics.map(|file| (file, metrics::of(&before))),
            seen: None,
            quiet: options.quiet,
            images: Default::default(),
            said: false,
        };
        if let Some(gone) = gone {
            chronicle.append(&gone);
        }
        chronicle.note(options.begin);
        chronicle.lives();
        chronicle
    }

    /// Notes an event that happens now.
    pub fn note(&mut self, event: Event) {
        self.append(&Entry::now(event));
    }

    fn append(&mut self, entry: &Entry) {
        if let Err(why) = file::append(&self.directory, entry) {
            // A directory that is gone is made again, or the user is told.
            let is_gone = why.kind() == ErrorKind::NotFound;
            self.failed(&self.directory.join(file::NAME), &why, is_gone);
        }
        last_seen::ends(&self.directory, &entry.event);
        if let Some((_, metrics)) = &mut self.metrics {
            metrics.count(entry);
        }
        self.write_metrics();
    }

    fn write_metrics(&mut self) {
        if let Some((file, metrics)) = &self.metrics {
            let (file, written) = (file.clone(), metrics.write(file));
            if let Err(why) = written {
                self.failed(&file, &why, false);
            }
        }
    }

    fn failed(&mut self, path: &Path, why: &io::Error, is_told_otherwise: bool) {
        tracing::warn!(path = %path.display(), %why, "event not noted");
        if !is_told_otherwise && !std::mem::replace(&mut self.said, true) {
            message::say(format_args!(
                "cannot write {}: {why}; the job runs on, and events are missing there",
                path.display()
            ));
        }
    }

    /// Gives a sign of life, unless the last one is not long ago.
    pub fn lives(&mut self) {
        if self
            .seen
            .is_some_and(|seen| seen.elapsed() < last_seen::EVERY)
        {
            return;
        }
        self.seen = Some(Instant::now());
        if let Err(why) = last_seen::write(&self.directory) {
            // An event that cannot be noted is told.
            tracing::warn!(%why, "no sign of life");
        }
        if let Some((_, metrics)) = &mut self.metrics {
            metrics.lives();
        }
        self.write_metrics();
    }

    /// Keeps the slowest ranks and the notes of images until the checkpoint is noted.
    pub fn images(&mut self, images: &[Summary]) {
        let slowest = Slowest {
            drain: slowest(images, |times| times.drain),
            copy: slowest(images, |times| times.copy),
            save: slowest(images, |times| times.save),
        };
        let of_rank = |(rank, summary): (usize, &Summary)| {
            let notes = summary.notes.iter();
            let notes = notes.map(move |note| event::shortened(&format!("rank {rank}: {note}")));
            notes.collect::<Vec<_>>()
        };
        let notes = images.iter().enumerate().flat_map(of_rank);
        self.images = (slowest, notes.take(MOST_LISTED).collect());
    }

    /// Notes a committed checkpoint, and prints a line about it.
    pub fn committed(&mut self, report: Report) {
        if report.level == Level::Memory {
            return;
        }
        if !self.quiet {
            let moment = text::moment(event::now() as u64).unwrap_or_default();
            let stood = text::duration(report.pause);
            let done = format!(
                "{moment} {} committed: {} in {}, the job stood still for {stood}",
                report.set,
                text::bytes(report.bytes),
                text::duration(report.total)
            );
            message::say(done);
        }
        let (slowest, warnings) = std::mem::take(&mut self.images);
        self.note(Event::Checkpoint(Box::new(Checkpoint {
            set: report.set,
            increment_of: report.increment_of,
            level: report.level.word().to_owned(),
            asked_by: report.asked_by,
            stop: report.stop,
            bytes: report.bytes,
            memory_bytes: report.memory,
            cut: event::rounded(event::now() - seconds(report.since_cut)),
            total_seconds: seconds(report.total),
            approach_seconds: seconds(report.approach),
            pause_seconds: seconds(report.pause),
            pause_because: report.stood.as_deref().map(event::shortened),
            slowest,
            warnings,
        })));
    }
}

/// Whether the process that begins this run is that of the newest one: its program has executed another one.
fn goes_on(before: &[Entry], begin: &Event) -> bool {
    let process = |start: &Start| (start.host.clone(), start.pid);
    event::newest_start(before).map(process) == begin.start().map(process)
}

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// The ranks that took longest.
fn slowest(images: &[Summary], time: fn(&Times) -> u64) -> Vec<RankTime> {
    let times = (0..).zip(images).map(|(rank, summary)| RankTime {
        rank,
        seconds: seconds(time(&summary.times)),
    });
    let mut times: Vec<RankTime> = times.collect();
    times.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    times.truncate(MOST_SLOW);
    times
}
