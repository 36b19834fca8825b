//! What the job has done to its files since the checkpoint: undoing it, cutting back what has grown, and what is
//! said of that.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{anyhow, Context, Result};
use loader::{ClosedFiles, Cuts, GrownFiles, Length, OpenedFiles, ProcessState};
use undo::{Cut, Done, Plan, Share};

use crate::mpi::world;
use crate::BAD_IMAGE;

/// Where, in the checkpoint directory, what is cut off is kept.
const KEPT: &str = "cut-off";

/// Undoes what the journals of all ranks tell, when all ranks can be brought back, and returns when all have done
/// their share. Without a `world` nobody else has to be waited for.
pub fn undo(plan: &Plan, cut: &Cut, place: &Place<'_>, world: Option<u32>) -> Result<()> {
    let host = coordinator::addresses::host();
    let kept = place.dir.join(KEPT);
    if place.rank == 0 {
        if let Err(why) = loader::bound_kept(&kept) {
            let kept = kept.display();
            launcher::message::say(format_args!("what is kept in {kept} grows: {why}"));
        }
    }
    let some = match world {
        // One rank may see less of the directory than another, for a moment.
        Some(_) => world::minimum(-i64::from(!plan.is_empty()))? != 0,
        None => !plan.is_empty(),
    };
    if !some {
        // Files stay as they are: journals of an earlier restart, or of a run whose changes are kept, tell the way back
        // from another state. No rank changes a file before rank 0 goes on.
        return match place.rank {
            0 => forget(place, cut),
            _ => Ok(()),
        };
    }
    let all = match world {
        Some(size) => world::gather_values::<String>(&host, size)?,
        None => vec![host.clone()],
    };
    let first_here = all.iter().position(|other| *other == host) == Some(place.rank as usize);
    let first = place.rank == 0;
    let share = Share {
        host: &host,
        hosts: &all,
        first_here: first_here || world.is_none(),
        first: first || world.is_none(),
    };
    let who = format!("rank {}, {}", place.rank, place.set);
    let (done, cuts) = loader::undo_changes(plan, &share, (&kept, &who));
    let own = (done, cuts);
    let each = match world {
        Some(size) => world::gather_values::<(Done, Cuts)>(&own, size)?,
        None => vec![own],
    };
    let failed: u64 = each.iter().map(|(done, _)| done.failed).sum();
    if share.first {
        for why in &plan.damaged {
            launcher::message::say(format_args!(
                "an undo journal cannot be read, and is passed over: {why}"
            ));
        }
        for line in undone(&each, &kept) {
            launcher::message::say(line);
        }
    }
    if failed > 0 {
        if share.first {
            crate::tell(&anyhow!(
                "{failed} files or directories could not be brought back to what they were at {} ({} says why): \
                 nothing was restored. Mend that and restart again; or leave what the job has overwritten and removed \
                 as it is: stasis restart --files cut",
                place.set,
                kept.join("list").display()
            ));
        }
        if world.is_some() {
            // It is said before the first of them ends.
            world::minimum(0)?;
            world::finalize();
        }
        std::process::exit(BAD_IMAGE);
    }
    if share.first {
        forget(place, cut)?;
    }
    if world.is_some() {
        // No rank opens a file that another is bringing back.
        world::minimum(0)?;
    }
    Ok(())
}

fn forget(place: &Place<'_>, cut: &Cut) -> Result<()> {
    ::undo::forget(place.dir, cut).with_context(|| {
        format!(
            "the undo journals in {} cannot be removed",
            place.dir.display()
        )
    })
}

/// What is said of undoing, of all ranks together.
fn undone(all: &[(Done, Cuts)], kept: &Path) -> Vec<String> {
    let sum = |of: fn(&(Done, Cuts)) -> u64| all.iter().map(of).sum::<u64>();
    let [removed, restored, rewritten] = [
        sum(|(done, _)| done.removed),
        sum(|(done, _)| done.restored),
        sum(|(done, _)| done.rewritten),
    ];
    let mut lines = Vec::new();
    if removed + restored + rewritten > 0 {
        let unkept = match sum(|(_, cuts)| cuts.unkept) {
            0 => String::new(),
            n => format!(", but for {n} of them"),
        };
        lines.push(format!(
            "files are as they were at the checkpoint: {rewritten} overwritten since, {restored} removed or renamed, \
             {removed} made; what the job had in them is kept in {}{unkept} ({})",
            kept.display(),
            kept.join("list").display()
        ));
    }
    // Its name may be told, and its content.
    let left = all.iter().flat_map(|(_, cuts)| &cuts.left);
    let left = left.collect::<BTreeSet<_>>().len();
    if left > 0 {
        lines.push(format!(
            "files that could not be brought back to what they were at the checkpoint: {left} ({} says why)",
            kept.join("list").display()
        ));
    }
    lines
}

/// Cuts back the files of this rank, when all ranks can be brought back, and returns when all have: no rank may
/// write to one before. Without a `world` nobody else has to be waited for.
pub fn cut_back(
    files: &OpenedFiles,
    process: &ProcessState,
    closed: &ClosedFiles,
    grown: GrownFiles,
    place: &Place<'_>,
    world: Option<u32>,
) -> Result<()> {
    let kept = place.dir.join(KEPT);
    let who = format!("rank {}, {}", place.rank, place.set);
    let lengths = seen_by_all(&OpenedFiles::lengths(process, closed), world)?;
    let own = files.cut_back(process, closed, grown, &lengths, (&kept, &who))?;
    let all = match world {
        Some(size) => world::gather_values::<Cuts>(&own, size)?,
        None => vec![own],
    };
    for line in words(&all, &kept) {
        match world {
            None => crate::say(place.rank, line),
            Some(_) if place.rank == 0 => launcher::message::say(line),
            Some(_) => {}
        }
    }
    Ok(())
}

/// How long the files that have grown were, as far as any rank has seen: where ranks of several machines append
/// to one file, the network's file system may have told one of them less than another.
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

/// Which rank is brought back, and from what.
pub struct Place<'a> {
    /// The checkpoint directory.
    pub dir: &'a Path,
    /// The set's name.
    pub set: &'a str,
    /// The rank.
    pub rank: u32,
}

/// What is said, of all ranks together.
fn words(all: &[Cuts], kept: &Path) -> Vec<String> {
    let sum = |of: fn(&Cuts) -> u64| all.iter().map(of).sum::<u64>();
    let [cut, bytes, unkept] = [sum(|c| c.files), sum(|c| c.bytes), sum(|c| c.unkept)];
    // A file that several ranks have written is one.
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
        let files: ClosedFiles = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(
            format!("{files:?}"),
            "ClosedFiles { files: [Closed { path: [47, 97, 255], device: 7, inode: 300, size: 4, \
             checksum: Some(1) }] }"
        );
        assert_eq!(postcard::to_stdvec(&files).unwrap(), bytes);
        assert_eq!(
            ClosedFiles::VERSION,
            1,
            "then an older one is to be read, too"
        );
    }

    #[test]
    fn one_line_tells_of_all_ranks() {
        let dir = Path::new("ck/cut-off");
        assert!(words(&[Cuts::default(), Cuts::default()], dir).is_empty());
        let cut = |files, bytes, unkept, left: &[u64]| Cuts {
            files,
            bytes,
            unkept,
            left: left.to_vec(),
        };
        let said = words(&[cut(2, 70, 0, &[4, 5]), cut(1, 7, 0, &[5])], dir);
        assert_eq!(
            said,
            [
                "files cut back to their length at the checkpoint: 3, by 77 bytes in all; what is cut off is \
                 kept in ck/cut-off (ck/cut-off/list)",
                "files that the job had written to and closed before the checkpoint, and that have another \
                 content now or cannot be cut back, stay as they are: 2 (ck/cut-off/list)"
            ]
        );
        let said = words(&[cut(2, 70, 1, &[])], dir);
        assert!(
            said[0].contains("ck/cut-off, but for 1 of them ("),
            "{said:?}"
        );
        let said = words(&[cut(1, 70, 1, &[])], dir);
        assert!(said[0].contains("is not kept ("), "{said:?}");
    }
}
