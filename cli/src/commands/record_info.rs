//! `stasis record-info`: what is in the record of a run.

use record::clocks::Reads;
use record::{describe, files, Log, Summary};
use serde_json::json;

use crate::args::RecordInfo;
use crate::ui::exit::{self, Code, WithCode};
use crate::ui::{functions, json, text};

/// Runs `stasis record-info`.
pub fn run(options: &RecordInfo) -> exit::Result<()> {
    let ranks = summaries(options).code(Code::Image)?;
    if options.json {
        let ranks: Vec<_> = ranks
            .iter()
            .map(|Rank { rank, library, all, clock_reads }| {
                json!({ "rank": rank, "library": text::library(library), "calls": all.calls, "misses": all.misses, "wildcards": all.wildcards,
                    "sources": all.sources.len(), "races": all.races, "probes": all.probes, "choices": all.choices,
                    "cancelled": all.cancelled, "digests": all.digests, "threads": all.threads.len(), "clock_reads": clock_reads, "checkpoints": all.marks, "bytes": all.bytes,
                    "damaged_bytes": all.damaged, "last_call": all.last.map(|call| describe(&call, functions::name)) })
            })
            .collect();
        json::print(json!({ "ranks": ranks }));
        return Ok(());
    }
    let head = [
        "rank", "threads", "calls", "misses", "wildcard", "sources", "races", "choices", "clocks",
        "size",
    ];
    let line = |cells: [String; 10]| {
        let [a, t, b, c, d, e, f, g, h, i] = cells;
        say!("{a:>5} {t:>7} {b:>10} {c:>10} {d:>9} {e:>8} {f:>8} {g:>8} {h:>8} {i:>10}");
    };
    line(head.map(str::to_owned));
    for Rank {
        rank,
        all,
        clock_reads,
        ..
    } in &ranks
    {
        let wildcards = all.wildcards + all.probes;
        line([
            rank.to_string(),
            all.threads.len().to_string(),
            all.calls.to_string(),
            all.misses.to_string(),
            wildcards.to_string(),
            all.sources.len().to_string(),
            all.races.to_string(),
            all.choices.to_string(),
            clock_reads.to_string(),
            text::bytes(all.bytes),
        ]);
    }
    for Rank { rank, all, .. } in &ranks {
        if let Some(last) = &all.last {
            say!("rank {rank} ends with {}", describe(last, functions::name));
        }
        if all.damaged > 0 {
            say!(
                "rank {rank}: the last {} are damaged",
                text::bytes(all.damaged)
            );
        }
    }
    if let Some(Rank { library, .. }) = ranks.first() {
        say!("recorded over {}", text::library(library));
    }
    let marks = ranks.first().map_or(&[][..], |rank| &rank.all.marks);
    for mark in marks {
        say!("ckpt-{mark} was taken of this run");
    }
    Ok(())
}

/// The record of a rank.
struct Rank {
    rank: u32,
    /// The MPI library of the run.
    library: String,
    all: Summary,
    /// Values of clocks.
    clock_reads: usize,
}

fn summaries(options: &RecordInfo) -> record::Result<Vec<Rank>> {
    let summary = |(rank, path): (u32, std::path::PathBuf)| {
        let log = Log::open(&path)?;
        functions::check(&log)?;
        let clocks = Log::of_clocks(&options.record, rank)?;
        Ok(Rank {
            rank,
            library: log.header.library.clone(),
            all: Summary::of(&log),
            clock_reads: clocks.map_or(0, |clocks| Reads::of(clocks.bytes()).count()),
        })
    };
    files(&options.record)?.into_iter().map(summary).collect()
}
