//! `stasis status`: the state of the running job and of its ranks.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use anyhow::Context;
use coordinator::client::Client;
use coordinator::protocol::{Details, RankState, RankStatus};
use serde_json::json;

use crate::args::Status;
use crate::commands::checkpoint;
use crate::ui::exit::{self, Code, WithCode};
use crate::ui::text;

/// Runs the command.
pub fn run(options: &Status) -> exit::Result<()> {
    let directory = options.job.directory()?;
    if options.trace {
        return trace(&directory, options.log_dir.as_deref());
    }
    let client = checkpoint::connect(&directory)?;
    let job = client.job.clone();
    let status = client.status().map_err(checkpoint::failure)?;
    if options.job.json {
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
                    "doing_seconds": r.doing.as_ref().map(|d| d.since as f64 / 1e6),
                })
            })
            .collect();
        let all = json!({
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
                "seconds": next.after as f64 / 1e6,
                "because": next.why,
            })),
            "ranks": ranks,
        });
        crate::ui::json::print(all);
        return Ok(());
    }
    say!("job {}: {}", job.id, job.command());
    say!(
        "  {} ranks under {}, started {}",
        status.size,
        text::library(&job.mpi),
        text::ago(job.started)
    );
    say!(
        "  now: {}; checkpoints committed: {}",
        status.stage,
        status.committed
    );
    if let Some(waiting) = &status.waiting {
        say!("  it waits: {waiting}");
    }
    if let Some(last) = &status.last {
        let (size, pause) = (text::bytes(last.bytes), text::duration(last.pause));
        say!(
            "  last: {} ({size}, the job stood still for {pause})",
            last.set
        );
    }
    if let Some(held) = &status.in_memory {
        let pause = text::duration(held.pause);
        say!(
            "  in memory: {} (the job stood still for {pause})",
            held.set
        );
    }
    if let Some(next) = &status.next {
        say!("  next: in {} ({})", text::duration(next.after), next.why);
    }
    if let Some(reason) = &status.failure {
        say!("  last one that was given up: {reason}");
    }
    for rank in &status.ranks {
        match rank.host.as_str() {
            "" => say!("  rank {}: has not called MPI_Init", rank.rank),
            host => say!(
                "  rank {}: {}{} (process {} on {host})",
                rank.rank,
                rank.state,
                doing(rank),
                rank.pid
            ),
        }
    }
    Ok(())
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
    if let Ok(status) = asked {
        told(status);
        return Ok(());
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
