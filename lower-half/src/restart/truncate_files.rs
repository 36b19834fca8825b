//! The files of the job at a restart. Changes since the checkpoint are undone, and files that have grown are truncated.
//! Rank 0 reports the results of all ranks.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{anyhow, Context, Result};
use job_spec::ExitCode;
use loader::{ClosedFileList, ClosedFilePolicy, Length, OpenedFiles, ProcessState, TruncateReport};
use undo::{Cut, Done, Plan, Share};

use crate::console;
use crate::mpi::world;

/// Directory, in the checkpoint directory, for bytes that are cut off and for content that is undone.
const KEPT: &str = "cut-off";

/// Undoes the changes in the journals of all ranks. Called when all ranks have verified their images. Returns when all
/// ranks have done their share. `world` is the number of ranks; without it no other rank is waited for.
pub fn undo(
    plan: &Plan,
    cut: &Cut,
    restarted: &RestartedRank<'_>,
    world: Option<u32>,
) -> Result<()> {
    let host = coordinator::net::addresses::host();
    let kept = restarted.dir.join(KEPT);
    if restarted.rank == 0 {
        if let Err(why) = loader::bound_kept(&kept) {
            let kept = kept.display();
            launcher::message::say(format_args!("cannot bound the size of {kept}: {why}"));
        }
    }
    let some = match world {
        // On a network file system the ranks may see different contents of the directory.
        Some(_) => world::minimum(-i64::from(!plan.is_empty()))? != 0,
        None => !plan.is_empty(),
    };
    if !some {
        // No change is undone. The remaining journals are of an earlier restart, or of a run whose changes are kept.
        // They lead back from another state of the files, so they are removed. No rank changes a file before rank 0
        // goes on.
        return match restarted.rank {
            0 => forget(restarted, cut),
            _ => Ok(()),
        };
    }
    let all = match world {
        Some(size) => world::gather_values::<String>(&host, size)?,
        None => vec![host.clone()],
    };
    let first_here = all.iter().position(|other| *other == host) == Some(restarted.rank as usize);
    let first = restarted.rank == 0;
    let share = Share {
        host: &host,
        hosts: &all,
        first_here: first_here || world.is_none(),
        first: first || world.is_none(),
    };
    let who = format!("rank {}, {}", restarted.rank, restarted.set);
    let (done, cuts) = loader::undo_changes(plan, &share, (&kept, &who));
    let own = (done, cuts);
    let each = match world {
        Some(size) => world::gather_values::<(Done, TruncateReport)>(&own, size)?,
        None => vec![own],
    };
    let failed: u64 = each.iter().map(|(done, _)| done.failed).sum();
    if share.first {
        for why in &plan.damaged {
            launcher::message::say(format_args!(
                "cannot read an undo journal, it is skipped: {why}"
            ));
        }
        for line in undone(&each, &kept) {
            launcher::message::say(line);
        }
    }
    if failed > 0 {
        if share.first {
            console::tell(&anyhow!(
                "cannot restore {failed} files or directories to their state at {} ({} has the reasons); \
                 no process was restored. Remove the causes and restart again, or keep the files that the job has \
                 overwritten and removed as they are: stasis restart --files cut",
                restarted.set,
                kept.join("list").display()
            ));
        }
        if world.is_some() {
            // Rank 0 has printed the message before the first rank ends.
            world::minimum(0)?;
            world::finalize();
        }
        std::process::exit(ExitCode::Image.number());
    }
    if share.first {
        forget(restarted, cut)?;
    }
    if world.is_some() {
        // No rank opens a file while another rank restores it.
        world::minimum(0)?;
    }
    Ok(())
}

fn forget(restarted: &RestartedRank<'_>, cut: &Cut) -> Result<()> {
    ::undo::forget(restarted.dir, cut, restarted.newer).with_context(|| {
        format!(
            "cannot remove the undo journals in {}",
            restarted.dir.display()
        )
    })
}

/// The messages about undone changes, for all ranks together.
fn undone(all: &[(Done, TruncateReport)], kept: &Path) -> Vec<String> {
    let sum = |of: fn(&(Done, TruncateReport)) -> u64| all.iter().map(of).sum::<u64>();
    let [removed, restored, rewritten] = [
        sum(|(done, _)| done.removed),
        sum(|(done, _)| done.restored),
        sum(|(done, _)| done.rewritten),
    ];
    let mut lines = Vec::new();
    if removed + restored + rewritten > 0 {
        let unkept = match sum(|(_, cuts)| cuts.unkept) {
            0 => String::new(),
            n => format!(", except for {n} of them"),
        };
        lines.push(format!(
            "files are as they were at the checkpoint: {rewritten} overwritten since, {restored} removed or renamed, \
             {removed} made; what the job had in them is kept in {}{unkept} ({})",
            kept.display(),
            kept.join("list").display()
        ));
    }
    // A file may be listed twice, for its name and for its content.
    let left = all.iter().flat_map(|(_, cuts)| &cuts.left);
    let left = left.collect::<BTreeSet<_>>().len();
    if left > 0 {
        lines.push(format!(
            "files that cannot be restored to their state at the checkpoint: {left} ({} has the reasons)",
            kept.join("list").display()
        ));
    }
    lines
}

/// Truncates the files of this rank to their lengths at the checkpoint. Called when all ranks have verified their
/// images. Returns when all ranks are done, since no rank may write to a file before. `world` is the number of ranks;
/// without it no other rank is waited for.
pub fn truncate(
    files: &OpenedFiles,
    process: &ProcessState,
    closed: &ClosedFileList,
    grown: ClosedFilePolicy,
    restarted: &RestartedRank<'_>,
    world: Option<u32>,
) -> Result<()> {
    let kept = restarted.dir.join(KEPT);
    let who = format!("rank {}, {}", restarted.rank, restarted.set);
    let lengths = seen_by_all(&OpenedFiles::lengths(process, closed), world)?;
    let own = files.truncate(process, closed, grown, &lengths, (&kept, &who))?;
    let all = match world {
        Some(size) => world::gather_values::<TruncateReport>(&own, size)?,
        None => vec![own],
    };
    for line in summary(&all, &kept) {
        match world {
            None => console::say(restarted.rank, line),
            Some(_) if restarted.rank == 0 => launcher::message::say(line),
            Some(_) => {}
        }
    }
    Ok(())
}

/// The largest length that any rank saw at the checkpoint of each file that has grown. If ranks of several machines
/// append to one file, a network file system may have shown them different lengths.
fn seen_by_all(own: &[Length], world: Option<u32>) -> Result<BTreeMap<u64, u64>> {
    let mut seen = BTreeMap::new();
    let Some(size) = world else {
        return Ok(seen);
    };
    let grown = own.iter().filter(|file| file.grown);
    let grown: Vec<u64> = grown.map(|file| file.number).collect();
    let grown: BTreeSet<u64> = world::gather_values::<Vec<u64>>(&grown, size)?
        .concat()
        .into_iter()
        .collect();
    if grown.is_empty() {
        return Ok(seen);
    }
    let told = own.iter().filter(|file| grown.contains(&file.number));
    let told: Vec<(u64, u64)> = told.map(|file| (file.number, file.size)).collect();
    for (number, size) in world::gather_values::<Vec<(u64, u64)>>(&told, size)?.concat() {
        let longest = seen.entry(number).or_insert(size);
        *longest = size.max(*longest);
    }
    Ok(seen)
}

/// The rank that is restarted, and its set.
pub struct RestartedRank<'a> {
    /// The checkpoint directory.
    pub dir: &'a Path,
    /// The set's name.
    pub set: &'a str,
    /// The rank.
    pub rank: u32,
    /// The cuts of newer sets, which this restart leaves behind.
    pub newer: &'a [Cut],
}

/// The messages about truncated files, for all ranks together.
fn summary(all: &[TruncateReport], kept: &Path) -> Vec<String> {
    let sum = |of: fn(&TruncateReport) -> u64| all.iter().map(of).sum::<u64>();
    let [cut, bytes, unkept] = [sum(|c| c.files), sum(|c| c.bytes), sum(|c| c.unkept)];
    // A file that several ranks have written counts once.
    let left = all.iter().flat_map(|cuts| &cuts.left);
    let left = left.collect::<BTreeSet<_>>().len();
    let (place, list) = (kept.display(), kept.join("list"));
    let list = list.display();
    let mut lines = Vec::new();
    if cut > 0 {
        let is_kept = match unkept {
            0 => format!("what is cut off is kept in {place}"),
            n if n == cut => "what is cut off is not kept".to_owned(),
            n => format!("what is cut off is kept in {place}, but for {n} of them"),
        };
        lines.push(format!(
            "files cut back to their length at the checkpoint: {cut}, by {bytes} bytes in all; {is_kept} ({list})"
        ));
    }
    if left > 0 {
        lines.push(format!(
            "files that the job had written to and closed before the checkpoint, and that have another content \
             now or cannot be cut back, stay as they are: {left} ({list})"
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_encoding_of_closed_files_is_that_of_version_1() {
        let bytes = [1, 3, b'/', b'a', 0xff, 7, 0xac, 2, 4, 1, 1];
        let files: ClosedFileList = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(
            format!("{files:?}"),
            "ClosedFileList { files: [Closed { path: [47, 97, 255], device: 7, inode: 300, size: 4, \
             checksum: Some(1) }] }"
        );
        assert_eq!(postcard::to_stdvec(&files).unwrap(), bytes);
        assert_eq!(
            ckpt_image::kind::CLOSED_FILES.version,
            1,
            "a new version must still decode this one"
        );
    }

    #[test]
    fn one_line_tells_of_all_ranks() {
        let dir = Path::new("ck/cut-off");
        assert!(summary(&[TruncateReport::default(), TruncateReport::default()], dir).is_empty());
        let cut = |files, bytes, unkept, left: &[u64]| TruncateReport {
            files,
            bytes,
            unkept,
            left: left.to_vec(),
        };
        let said = summary(&[cut(2, 70, 0, &[4, 5]), cut(1, 7, 0, &[5])], dir);
        assert_eq!(
            said,
            [
                "files cut back to their length at the checkpoint: 3, by 77 bytes in all; what is cut off is \
                 kept in ck/cut-off (ck/cut-off/list)",
                "files that the job had written to and closed before the checkpoint, and that have another \
                 content now or cannot be cut back, stay as they are: 2 (ck/cut-off/list)"
            ]
        );
        let said = summary(&[cut(2, 70, 1, &[])], dir);
        assert!(
            said[0].contains("ck/cut-off, but for 1 of them ("),
            "{said:?}"
        );
        let said = summary(&[cut(1, 70, 1, &[])], dir);
        assert!(said[0].contains("is not kept ("), "{said:?}");
    }
}
