//! `stasis status`: the state of the running job and of its ranks.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use ::profile::Job;
use anyhow::Context;
use coordinator::client::{self, Client};
use coordinator::job_file::{self, JobFile};
use coordinator::protocol::{self, Details, RankState, RankStatus};
use serde_json::{json, Value};
use supervisor::run_file::RunFile;

use crate::args::Status;
use crate::commands::{checkpoint, profile};
use crate::ui::exit::{self, Code, WithCode};
use crate::ui::live::Live;
use crate::ui::{json, text};

/// Runs the command.
pub fn run(options: &Status) -> exit::Result<()> {
    let directory = options.job.directory()?;
    if options.trace {
        return trace(&directory, options.log_dir.as_deref());
    }
    if let Some(interval) = options.watch {
        return watch(&directory, interval, options.profile);
    }
    let (job, status) = ask(&directory, options.profile)?;
    match options.job.json {
        true => {
            let profile = options.profile.then(|| profile::read(&directory));
            let profile = profile.transpose()?.flatten();
            json::print(to_json(&job, &status, profile.as_ref()));
        }
        false => {
            say!("{}", shown(&job, &status));
            if options.profile {
                say!("{}", shown_profile(&directory)?);
            }
        }
    }
    Ok(())
}

/// Asks the job. With `profile` its ranks write the files of their profiles, before they answer.
fn ask(directory: &Path, profile: bool) -> exit::Result<(JobFile, protocol::Status)> {
    let client = checkpoint::connect(directory)?;
    let job = client.job.clone();
    let details = Details {
        profile,
        ..Details::default()
    };
    let status = client.details(details).map_err(checkpoint::failure)?;
    Ok((job, status))
}

fn shown_profile(directory: &Path) -> exit::Result<String> {
    Ok(match profile::read(directory)? {
        Some(job) => ::profile::text::of(&job),
        None => profile::none(directory).to_string(),
    })
}

fn to_json(job: &JobFile, status: &protocol::Status, profile: Option<&Job>) -> Value {
    let ranks: Vec<_> = status
        .ranks
        .iter()
        .map(|r| {
            json!({
                "rank": r.rank,
                "host": r.host,
                "pid": r.pid,
                "state": r.state,
                "doing": r.doing.as_ref().map(|d| &d.what),
                "doing_seconds": r.doing.as_ref().map(|d| json::seconds(d.since)),
            })
        })
        .collect();
    json!({
        "job": job.id,
        "program": job.program,
        "mpi": job.mpi,
        "host": job.host,
        "pid": job.pid,
        "started": job.started,
        "size": status.size,
        "stage": status.stage,
        "waiting": status.waiting,
        "committed": status.committed,
        "last": status.last.as_ref().map(checkpoint::to_json),
        "in_memory": status.in_memory.as_deref().map(checkpoint::to_json),
        "failure": status.failure,
        "next": status.next.as_ref().map(|next| json!({
            "seconds": json::seconds(next.after),
            "because": next.why,
        })),
        "ranks": ranks,
        "profile": profile,
    })
}

/// The state for the user, in lines.
fn shown(job: &JobFile, status: &protocol::Status) -> String {
    let mut lines = vec![
        format!("job {}: {}", job.id, job.command()),
        format!(
            "  {} under {}",
            text::ranks(status.size),
            text::library(&job.mpi)
        ),
        // A line of its own, for a terminal of 80 columns.
        format!("  started {}", text::when(job.started)),
        format!(
            "  now: {}; checkpoints committed: {}",
            status.stage, status.committed
        ),
    ];
    if let Some(waiting) = &status.waiting {
        lines.push(format!("  it waits: {waiting}"));
    }
    if let Some(last) = &status.last {
        let (size, pause) = (text::bytes(last.bytes), text::duration(last.pause));
        lines.push(format!(
            "  last: {} ({size}, the job stood still for {pause})",
            last.set
        ));
    }
    if let Some(held) = &status.in_memory {
        let pause = text::duration(held.pause);
        lines.push(format!(
            "  in memory: {} (the job stood still for {pause})",
            held.set
        ));
    }
    if let Some(next) = &status.next {
        let after = text::duration(next.after);
        lines.push(format!("  next: in {after} ({})", next.why));
    }
    if let Some(reason) = &status.failure {
        lines.push(format!("  last one that was given up: {reason}"));
    }
    for rank in &status.ranks {
        lines.push(match rank.host.as_str() {
            "" => format!("  rank {}: has not called MPI_Init", rank.rank),
            host => format!(
                "  rank {}: {}{} (process {} on {host})",
                rank.rank,
                rank.state,
                doing(rank),
                rank.pid
            ),
        });
    }
    lines.join("\n")
}

/// Shows the state again and again until the job has ended. A job of `stasis run` is waited for while it is started
/// again.
fn watch(directory: &Path, interval: Duration, profile: bool) -> exit::Result<()> {
    let screen = Live::new();
    let mut seen = false;
    loop {
        let text = match ask(directory, profile) {
            Ok((job, status)) => {
                seen = true;
                let state = shown(&job, &status);
                match profile {
                    true => format!("{state}\n{}", shown_profile(directory)?),
                    false => state,
                }
            }
            Err(why) if is_kept(directory) => {
                format!("the job is being started again: {}", why.error)
            }
            Err(why) if seen => {
                match why.error.downcast_ref() {
                    Some(client::Error::Job(job_file::Error::None(_))) => {
                        say!("the job in {} has ended", directory.display());
                    }
                    _ => say!("{}", why.error),
                }
                return Ok(());
            }
            Err(why) => return Err(why),
        };
        screen.show(&text);
        std::thread::sleep(interval);
    }
}

/// Whether a `stasis run` keeps the job.
fn is_kept(directory: &Path) -> bool {
    matches!(RunFile::of_living(directory), Ok(Some(_)))
}

/// Events that are shown of each rank.
const EVENTS: usize = 40;

/// Prints the last events of each rank: from the files that a job with a log has, otherwise from the running job.
fn trace(directory: &Path, log: Option<&Path>) -> exit::Result<()> {
    let log = job_spec::log_dir(log, directory);
    let why = match ::trace::recorder::files(&log) {
        Ok(files) => return kept(files),
        Err(why) => why,
    };
    let details = Details {
        events: EVENTS as u32,
        ..Details::default()
    };
    // A job that is being killed may still accept the connection.
    let asked = Client::connect(directory).and_then(|client| client.details(details));
    match asked {
        Ok(status) => {
            told(status);
            return Ok(());
        }
        Err(silent @ client::Error::Silent { .. }) => return Err(checkpoint::failure(silent)),
        // No job runs there.
        Err(_) => {}
    }
    let advice = format!(
        "no job runs there, and there are no events of one in {}: they are kept for a job that was started \
         with STASIS_LOG=info. If the job has another --log-dir, give it here too",
        log.display()
    );
    Err(why).context(advice).code(Code::NoJob)
}

/// Prints the events that a running job tells.
fn told(status: coordinator::protocol::Status) {
    for rank in status.ranks {
        match rank.doing {
            Some(doing) => {
                say!("rank {} (process {}):", rank.rank, rank.pid);
                doing.events.iter().for_each(|line| say!("{line}"));
            }
            None => say!("rank {}: {}, does not answer", rank.rank, rank.state),
        }
    }
}

/// Prints the events in the files of recorders.
fn kept(files: Vec<(u32, PathBuf)>) -> exit::Result<()> {
    for (rank, path) in files {
        let recorder = ::trace::recorder::Mapped::open(&path)
            .with_context(|| {
                format!(
                    "the events of rank {rank} cannot be read: {}",
                    path.display()
                )
            })
            .code(Code::NoJob)?;
        let recorder = recorder.recorder();
        let process = recorder.process.load(Ordering::Relaxed);
        say!("rank {rank} (process {process}):");
        for line in ::trace::recorder::lines(recorder, EVENTS, SystemTime::now()) {
            say!("{line}");
        }
    }
    Ok(())
}

/// Suffix such as `, in MPI_Recv for 12.0 s at least`.
fn doing(rank: &RankStatus) -> String {
    match (&rank.doing, rank.state) {
        (Some(doing), state) => {
            let what = match doing.what == state.as_str() {
                true => String::new(),
                false => format!(", {}", doing.what),
            };
            match doing.since {
                0..1_000_000 => what,
                since => format!("{what} for {} at least", text::duration(since)),
            }
        }
        (None, RankState::Finished | RankState::Lost) => String::new(),
        (None, _) => ", does not answer".to_owned(),
    }
}
