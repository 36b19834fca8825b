//! This rank's flight recorder (`contract::recorder`) and its log.
//!
//! The recorder is always there. With `STASIS_LOG` it lies in a file beside the log, where it outlives a rank that is
//! killed; otherwise in anonymous memory.
//!
//! [`attach`] gives its address to the upper half, [`detach`] takes it away before memory is copied.
//!
//! # Safety
//! The mapping is as large as a [`Recorder`], page-aligned, never unmapped, and starts as zeros or as an older
//! recorder; all fields are atomics, for which any content is valid.
#![allow(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use contract::gate;
use contract::recorder::{now, Event, Recorder, MAGIC};
use job_spec::Checkpoints;

use crate::console;

static RECORDER: OnceLock<&'static Recorder> = OnceLock::new();

/// Makes the recorder and opens the log, if one is wanted. Call it after [`loader::start_own_fd_table`]. The rank is
/// that of the launcher's environment, because MPI is not initialised yet. After a failure the job runs without them,
/// and a message gives the reason.
pub fn start(checkpoints: &Checkpoints) {
    let rank = launcher::rank().unwrap_or(0);
    if let Err(why) = try_start(checkpoints, rank) {
        console::tell(&why.context("this rank runs without a log"));
    }
}

fn try_start(checkpoints: &Checkpoints, rank: u32) -> Result<()> {
    if RECORDER.get().is_some() {
        return Ok(());
    }
    let file = match trace::log::wanted()? {
        Some(filter) => {
            let directory = checkpoints.log_dir();
            trace::log::to_file(&directory, rank, filter, |thread| {
                loader::spawn_on_own_fd_table("ckpt-log", thread)
            })?;
            Some(file(&directory, rank)?)
        }
        None => None,
    };
    let recorder = map(file.as_ref())?;
    recorder.rank.store(rank, Ordering::Relaxed);
    recorder
        .process
        .store(std::process::id(), Ordering::Relaxed);
    recorder.magic.store(MAGIC, Ordering::Release);
    take_moment(recorder, 0);
    RECORDER.get_or_init(|| recorder);
    Ok(())
}

/// The recorder's file is made anew: a restarted rank's process has ids and a clock of its own.
fn file(directory: &Path, rank: u32) -> Result<File> {
    let path = directory.join(trace::recorder::file_name(rank));
    let _ = fs::rename(&path, path.with_extension("events.old"));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&path)
        .and_then(|file| file.set_len(size_of::<Recorder>() as u64).map(|()| file));
    file.with_context(|| {
        format!(
            "the flight recorder cannot be written to {}",
            path.display()
        )
    })
}

fn map(file: Option<&File>) -> Result<&'static Recorder> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let (flags, descriptor) = match file {
        Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
        // Not copied on write by the child that writes an image.
        None => (libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1),
    };
    let (anywhere, length) = (std::ptr::null_mut(), size_of::<Recorder>());
    // SAFETY: a new mapping at a place of the kernel's choice; for the reference see the head of this file.
    unsafe {
        match libc::mmap(anywhere, length, protection, flags, descriptor, 0) {
            libc::MAP_FAILED => Err(std::io::Error::last_os_error())
                .context("there is no memory for the flight recorder"),
            at => Ok(&*at.cast::<Recorder>()),
        }
    }
}

/// Stores a time by both clocks. Two such times give the speed of the time stamp counter.
fn take_moment(recorder: &Recorder, which: usize) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanoseconds = since.map_or(0, |since| since.as_nanos() as u64);
    recorder.moments[which][0].store(now(), Ordering::Relaxed);
    recorder.moments[which][1].store(nanoseconds, Ordering::Relaxed);
}

/// Starts recording by the upper half, unless the application has forbidden reading the time stamp counter.
pub fn attach() {
    let recorder = RECORDER.get().filter(|_| loader::time_stamps_allowed());
    let address = recorder.map_or(0, |recorder| std::ptr::from_ref(*recorder) as usize);
    gate().recorder.store(address, Ordering::Release);
    if let Some(recorder) = recorder {
        take_moment(recorder, 1);
    }
}

/// Stops recording by the upper half, whose memory is about to be copied.
pub fn detach() {
    gate().recorder.store(0, Ordering::Release);
}

/// The last events, at most `most`, oldest first, one line for each.
pub fn last(most: usize) -> Vec<String> {
    let recorder = RECORDER.get().filter(|_| most > 0);
    recorder.map_or_else(Vec::new, |recorder| {
        take_moment(recorder, 1);
        trace::recorder::lines(recorder, most, SystemTime::now())
    })
}

/// Records an event of the agent.
pub fn note(event: Event, arguments: [u64; 2]) {
    if let Some(recorder) = RECORDER.get() {
        recorder.add(now(), 0, event, arguments);
        take_moment(recorder, 1);
    }
}
