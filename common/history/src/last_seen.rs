//! The last sign of life of a run, for one that is killed whole: then no process is left to note its end.
//!
//! The coordinator writes the time into the file `last-seen` in the checkpoint directory again and again. The time is
//! in the file, because copies of a directory have other times of modification.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use crate::event::{self, Entry, Event};
use crate::file;

/// Name of the file in the checkpoint directory.
pub const NAME: &str = "last-seen";
/// Time between two signs. What a killed run did after its last one is not known.
pub const EVERY: Duration = Duration::from_secs(10);
/// Most bytes of the file.
const LONGEST: u64 = 64;

/// Writes the present time.
///
/// # Errors
/// That of the file system.
pub fn write(directory: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    // All times have the same length for the next centuries: one write replaces the other.
    let text = format!("{:.3}\n", event::now());
    options
        .open(directory.join(NAME))?
        .write_all_at(text.as_bytes(), 0)
}

/// Removes the file if the job is over with this event. After a failure it stays for the next run, in a directory that
/// may be full.
pub fn ends(directory: &Path, event: &Event) {
    if event.ends_job() {
        // One that stays is ignored: the run has an end.
        let _ = std::fs::remove_file(directory.join(NAME));
    }
}

/// The time in the file; none if there is no such file.
pub fn read(directory: &Path) -> Option<f64> {
    let mut options = OpenOptions::new();
    options.read(true);
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let mut text = String::new();
    let file = options.open(directory.join(NAME)).ok()?;
    file.take(LONGEST).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// The end of a run that no event tells: the last sign of life in the directory, if the newest run of these events has
/// no end.
pub fn unnoted_end(directory: &Path, entries: &[Entry]) -> Option<Entry> {
    let begin = entries
        .iter()
        .rposition(|entry| entry.event.start().is_some())?;
    let of_run = &entries[begin..];
    if of_run.iter().any(|entry| entry.event.ends_run()) {
        return None;
    }
    let lived = of_run.iter().filter(|entry| entry.event.is_of_run());
    let newest = lived.map(|entry| entry.time).fold(0.0, f64::max);
    let seen = read(directory).unwrap_or(newest);
    Some(Entry::at(seen.max(newest), Event::Gone))
}

/// Notes an event in the place of a job that cannot do it any more, and counts it in the job's metrics.
///
/// # Errors
/// That of the file system.
pub fn note(directory: &Path, event: Event) -> io::Result<()> {
    let entry = Entry::now(event);
    file::append(directory, &entry)?;
    ends(directory, &entry.event);
    let entries = file::read(directory)?.entries;
    let start = event::newest_start(&entries);
    match start.and_then(|start| start.metrics.as_ref()) {
        Some(path) => crate::metrics::of(&entries).write(path),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Start;

    #[test]
    fn a_run_without_an_end_ends_with_its_last_sign_of_life() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path();
        let launch = Entry::at(5.0, Event::Launch(Start::default()));
        let gone = |entries: &[Entry]| unnoted_end(directory, entries).map(|entry| entry.time);
        // Without a sign, the newest event is one.
        assert_eq!(gone(std::slice::from_ref(&launch)), Some(5.0));
        write(directory).unwrap();
        let seen = read(directory).unwrap();
        assert_eq!(gone(std::slice::from_ref(&launch)), Some(seen));
        let killed = Entry::at(
            7.0,
            Event::RanksLost {
                lost_ranks: vec![1],
                count: 1,
            },
        );
        assert_eq!(gone(&[launch.clone(), killed]), Some(seen));
        let stopped = Entry::at(8.0, Event::Stopped);
        assert_eq!(gone(&[launch.clone(), stopped.clone()]), None);
        assert_eq!(gone(&[launch.clone(), stopped, launch.clone()]), Some(seen));
        assert_eq!(gone(&[]), None);
        let refused = Event::RestartRefused {
            rank: None,
            why: "no room".into(),
        };
        let later = Entry::at(seen + 9.0, refused);
        assert_eq!(gone(&[launch.clone(), later]), Some(seen));
    }

    #[test]
    fn an_event_is_counted_in_the_metrics_of_the_newest_run() {
        let place = tempfile::tempdir().unwrap();
        let metrics = place.path().join("job.prom");
        let start = Start {
            metrics: Some(metrics.clone()),
            ..Start::default()
        };
        file::append(place.path(), &Entry::now(Event::Launch(start))).unwrap();
        note(place.path(), Event::Stopped).unwrap();
        let text = std::fs::read_to_string(metrics).unwrap();
        let up = text.lines().find(|line| line.starts_with("stasis_up{"));
        assert!(up.unwrap().ends_with(" 0.0"), "{text}");
    }
}
