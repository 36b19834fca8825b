//! The flight recorder as text.
//!
//! A line an event: how long ago it was, the thread, the event's name, its arguments by name.
//!
//! # Safety
//! A file that holds a recorder is mapped for reading. The rank that writes it may live, so the mapping is only read
//! through the recorder's atomics.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use contract::recorder::{Read, Recorder, EVENTS, MAGIC};
use contract::Phase;

/// Name of the file that holds the recorder of a rank, in the directory of the log.
pub fn file_name(rank: u32) -> String {
    format!("rank-{rank}.events")
}

/// The files of recorders in the directory of a log, by rank. There is at least one.
///
/// # Errors
/// If the directory cannot be read, or has no such file.
pub fn files(directory: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let rank = name.and_then(|name| name.strip_prefix("rank-")?.strip_suffix(".events"));
        if let Some(rank) = rank.and_then(|rank| rank.parse().ok()) {
            files.push((rank, path));
        }
    }
    files.sort();
    match files.is_empty() {
        true => Err(io::Error::new(
            io::ErrorKind::NotFound,
            "no rank has a file there",
        )),
        false => Ok(files),
    }
}

/// A recorder that another process writes, or wrote.
pub struct Mapped(memmap2::MmapRaw);

impl Mapped {
    /// Maps the file of a recorder.
    ///
    /// # Errors
    /// If the file cannot be mapped, or is no recorder of this version.
    pub fn open(path: &Path) -> io::Result<Mapped> {
        let map = memmap2::MmapOptions::new().map_raw_read_only(&File::open(path)?)?;
        let mapped = Mapped(map);
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "this is no flight recorder");
        if mapped.0.len() < size_of::<Recorder>() {
            return Err(invalid());
        }
        match mapped.recorder().magic.load(Ordering::Acquire) {
            MAGIC => Ok(mapped),
            _ => Err(invalid()),
        }
    }

    /// The recorder.
    pub fn recorder(&self) -> &Recorder {
        // SAFETY: `open` has compared the length; pages are aligned; all fields are atomics, for which any content is
        // valid, and only loads are done through this reference.
        unsafe { &*self.0.as_ptr().cast::<Recorder>() }
    }
}

/// The last events, at most `most`, oldest first, with their ages at `now`.
pub fn lines(recorder: &Recorder, most: usize, now: SystemTime) -> Vec<String> {
    let clock = Clock::of(recorder);
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let events = recorder.last(most);
    events
        .map(|read| line(&read, clock.as_ref(), now))
        .collect()
}

/// The clock of a recorder. It serves readers on other machines, too.
struct Clock {
    /// Time stamp counter at a moment.
    ticks: u64,
    /// Time since 1970 at that moment.
    at: Duration,
    ticks_a_second: f64,
}

impl Clock {
    /// From the recorder's two moments; none while there is one only.
    fn of(recorder: &Recorder) -> Option<Clock> {
        let load = |moment: &[AtomicU64; 2]| {
            [&moment[0], &moment[1]].map(|one| one.load(Ordering::Relaxed))
        };
        let [[ticks, at], [later, later_at]] = recorder.moments.each_ref().map(load);
        let counted = later.checked_sub(ticks).filter(|counted| *counted > 0)?;
        let passed = later_at.checked_sub(at).filter(|passed| *passed > 0)?;
        Some(Clock {
            ticks,
            at: Duration::from_nanos(at),
            ticks_a_second: counted as f64 / passed as f64 * 1e9,
        })
    }

    /// Time since 1970 of a time stamp after the first moment.
    fn time_of(&self, ticks: u64) -> Duration {
        let since = ticks.saturating_sub(self.ticks) as f64 / self.ticks_a_second;
        self.at + Duration::from_secs_f64(since)
    }
}

fn line(read: &Read, clock: Option<&Clock>, now: Duration) -> String {
    let ago = match clock {
        Some(clock) => {
            let age = now.saturating_sub(clock.time_of(read.time));
            format!("{:>12.6} s ago", age.as_secs_f64())
        }
        None => format!("{:>20}", read.time),
    };
    let thread = match read.thread {
        0 => "agent".to_owned(),
        id => format!("thread {id}"),
    };
    let known = EVENTS
        .iter()
        .find(|(event, ..)| *event as u16 == read.event);
    let Some((event, name, names)) = known else {
        return format!("{ago}  {thread:<12} event {}", read.event);
    };
    let mut text = format!("{ago}  {thread:<12} {name}");
    for (name, value) in names.iter().zip(read.arguments) {
        if !name.is_empty() {
            text.push_str(&format!(" {name}={}", argument(*event, value)));
        }
    }
    text
}

fn argument(event: contract::recorder::Event, value: u64) -> String {
    if event == contract::recorder::Event::Phase {
        let phases = [Phase::Run, Phase::Approach, Phase::Stop, Phase::Explain];
        if let Some(phase) = phases.iter().find(|phase| **phase as u64 == value) {
            return format!("{phase:?}").to_lowercase();
        }
    }
    value.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::recorder::Event;

    #[test]
    fn a_file_is_read_while_it_is_written_and_another_one_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rank-0.events");
        std::fs::write(&path, vec![0; size_of::<Recorder>()]).unwrap();
        assert!(Mapped::open(&path).is_err(), "no magic");
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let written = memmap2::MmapOptions::new().map_raw(&file).unwrap();
        // SAFETY: as for `Mapped::recorder`, with stores.
        let recorder = unsafe { &*written.as_mut_ptr().cast::<Recorder>() };
        recorder.magic.store(MAGIC, Ordering::Release);
        let mapped = Mapped::open(&path).unwrap();
        recorder.moments[0][0].store(1_000, Ordering::Relaxed);
        recorder.moments[0][1].store(1_000_000_000, Ordering::Relaxed);
        recorder.moments[1][0].store(2_000, Ordering::Relaxed);
        recorder.moments[1][1].store(2_000_000_000, Ordering::Relaxed);
        recorder.add(1_000, 0, Event::Phase, [1, 0]);
        recorder.add(2_000, 42, Event::Parked, [5, 17]);
        let lines = lines(mapped.recorder(), 10, UNIX_EPOCH + Duration::from_secs(3));
        assert_eq!(
            lines[0].trim(),
            "2.000000 s ago  agent        phase phase=approach"
        );
        assert_eq!(
            lines[1].trim(),
            "1.000000 s ago  thread 42    parked communicator=5 operation=17"
        );
        std::fs::write(&path, b"short").unwrap();
        assert!(Mapped::open(&path).is_err());
    }
}
