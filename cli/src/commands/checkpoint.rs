//! `stasis checkpoint`: requests a checkpoint of the running job and, without `--no-wait`, waits until it is committed.

use std::path::Path;
use std::time::{Duration, Instant};

use coordinator::client::{Client, Error, News};
use coordinator::job_file;
use coordinator::protocol::{Level, Report};
use serde_json::json;

use crate::args::Checkpoint;
use crate::explain::findings::findings;
use crate::ui::exit::{self, Code};
use crate::ui::json::{self, seconds};
use crate::ui::progress_bar::CheckpointBar;
use crate::ui::text;

/// Runs the command.
pub fn run(options: &Checkpoint) -> exit::Result<()> {
    let directory = options.job.directory()?;
    let client = connect(&directory)?;
    let client = client.patient(options.patience.map(Duration::from_secs));
    let (ranks, command) = (client.job.ranks, client.job.command());
    let shown = CheckpointBar::new(ranks);
    let (begun, mut stage) = (Instant::now(), None);
    let tell = |news: News| {
        if let News::Progress(progress) = &news {
            if stage.replace(progress.stage) != Some(progress.stage) {
                let after = text::duration(begun.elapsed().as_micros() as u64);
                shown.beside(|| {
                    options
                        .detail
                        .tell(format_args!("after {after}: {}", progress.stage))
                });
            }
        }
        shown.tell(news);
    };
    if options.no_wait && !options.wait {
        let asked = client.request(options.stop, tell);
        drop(shown);
        asked.map_err(failure)?;
        match options.job.json {
            true => json::print(json!({ "set": null })),
            false => say!("a checkpoint will be taken ({command})"),
        }
        return Ok(());
    }
    let result = client.checkpoint(options.stop, tell);
    drop(shown);
    if let Err(Error::Late(_) | Error::Impatient(_)) = &result {
        for found in findings(&directory) {
            eprintln!("stasis: {found}");
        }
    }
    let report = result.map_err(failure)?;
    // A short checkpoint is over before the job has told of its stages.
    options.detail.tell(format_args!(
        "after {}: committed. The slowest ranks took {} for messages, {} for the copy, {} for the images",
        text::duration(report.total),
        text::duration(report.slowest.drain),
        text::duration(report.slowest.copy),
        text::duration(report.slowest.save)
    ));
    if options.job.json {
        json::print(to_json(&report));
    } else {
        say!(
            "{}: {} on disk{}{}, {} of memory in {} ({command}); the job stood still for \
             {} ({}), all took {}{}",
            report.set,
            text::bytes(report.bytes),
            match &report.increment_of {
                Some(parent) => format!(" (an increment of {parent})"),
                None => String::new(),
            },
            match report.level {
                Level::Memory => " in memory",
                Level::Shared => "",
                Level::Local => " in local directories (they are drained in the background)",
                Level::Partner =>
                    " in local directories, with a copy on another node (they are drained in the background)",
            },
            text::bytes(report.memory),
            text::ranks(ranks),
            text::duration(report.pause),
            how(&report),
            text::duration(report.total),
            if report.stop { "; the job ends" } else { "" }
        );
    }
    Ok(())
}

/// Reason for the length of the pause.
fn how(report: &Report) -> String {
    match &report.stood {
        None => "its memory was copied on write".to_owned(),
        Some(why) => format!("while images were written; {why}"),
    }
}

/// Connects to the job of a directory.
pub fn connect(directory: &Path) -> exit::Result<Client> {
    Client::connect(directory).map_err(failure)
}

/// Exit code of an error.
pub fn failure(error: Error) -> exit::Failure {
    let code = match &error {
        Error::Job(job_file::Error::Ended { .. }) => Code::Unfinished,
        Error::Job(_) | Error::Lost(_) => Code::NoJob,
        Error::Rejected(_)
        | Error::Failed(_)
        | Error::Late(_)
        | Error::Impatient(_)
        | Error::Silent { .. }
        | Error::Closed { .. } => Code::Checkpoint,
    };
    exit::Failure {
        error: error.into(),
        code,
    }
}

/// A checkpoint as JSON, with times in seconds.
pub fn to_json(report: &Report) -> serde_json::Value {
    json!({
        "set": report.set,
        "increment_of": report.increment_of,
        "bytes": report.bytes,
        "memory_bytes": report.memory,
        "total_seconds": seconds(report.total),
        "approach_seconds": seconds(report.approach),
        "pause_seconds": seconds(report.pause),
        "pause": if report.stood.is_none() { "copy" } else { "stop" },
        "pause_because": report.stood,
        "drain_seconds": seconds(report.slowest.drain),
        "copy_seconds": seconds(report.slowest.copy),
        "save_seconds": seconds(report.slowest.save),
        "level": report.level.word(),
        "stop": report.stop,
    })
}
