//! `stasis status`: how the running job stands.

use coordinator::protocol::RankStatus;
use serde_json::json;

use crate::arguments::Job;
use crate::{checkpoint, exit, text};

/// Runs the command.
pub fn run(options: &Job) -> exit::Result<()> {
    let client = checkpoint::connect(&options.directory()?)?;
    let job = client.job.clone();
    let status = client.status().map_err(checkpoint::failure)?;
    if options.json {
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
            "failure": status.failure,
            "next": status.next.as_ref().map(|next| json!({
                "seconds": next.after as f64 / 1e6,
                "because": next.why,
            })),
            "ranks": ranks,
        });
        crate::json::print(all);
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

/// `, in MPI_Recv for 12.0 s at least`.
fn doing(rank: &RankStatus) -> String {
    match (&rank.doing, rank.state.as_str()) {
        (Some(doing), state) => {
            let what = match doing.what == state {
                true => String::new(),
                false => format!(", {}", doing.what),
            };
            match doing.since {
                0..1_000_000 => what,
                since => format!("{what} for {} at least", text::duration(since)),
            }
        }
        (None, "finished" | "lost") => String::new(),
        (None, _) => ", does not answer".to_owned(),
    }
}
