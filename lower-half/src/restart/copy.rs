//! A copy of a job (`restart --copy-of`): it restarts from a checkpoint in the directory of the first job, which may
//! run, and changes nothing of that.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use ::restart::Opened;
use anyhow::{anyhow, ensure, Result};
use ckpt_image::{Backing, SharedKind};
use job_spec::{CopyOf, ExitCode, RestartSpec};
use launcher::message;
use loader::{ClosedFileList, Copying, ProcessState, SharedFiles};
use serde::{Deserialize, Serialize};

use super::cut_of;
use crate::console;
use crate::mpi::world::{self, World};

/// Number of files that are named in a message.
const NAMED: usize = 5;

/// The findings of a rank of a copy.
#[derive(Serialize, Deserialize)]
pub struct Copied {
    /// Working directory of the first job's rank.
    from: PathBuf,
    shared: SharedFiles,
}

/// The directory of the checkpoint: that of the first job, or the own one.
pub fn directory(options: &RestartSpec) -> &Path {
    let first = options.copy_of.as_ref().map(|copy| &copy.dir);
    first.unwrap_or(&options.checkpoints.dir)
}

/// Gives the rank the files of a copy, once its image is verified.
pub fn files(
    copy: &CopyOf,
    opened: &Opened,
    process: &mut ProcessState,
    closed: &mut ClosedFileList,
) -> Result<Copied> {
    memory(opened)?;
    let from = process.cwd.clone();
    let copying = Copying {
        checkpoints: &copy.dir,
        cut: &cut_of(opened.set()),
        host: &coordinator::net::addresses::host(),
        workdir: copy.workdir.as_deref(),
    };
    let shared = process.copied(closed, &copying)?;
    Ok(Copied { from, shared })
}

/// Refuses memory that has a name, by which the copy would reach that of the first job.
fn memory(opened: &Opened) -> Result<()> {
    let named = opened
        .image()
        .shared()
        .iter()
        .find(|object| match &object.kind {
            SharedKind::Memory { .. } => false,
            SharedKind::SystemV { key, .. } => *key != 0,
            SharedKind::Named { .. } | SharedKind::File { .. } => true,
        });
    let mapped = opened
        .image()
        .regions()
        .iter()
        .find_map(|region| match &region.backing {
            Backing::SharedFile {
                path,
                writable: true,
                ..
            } => Some(PathBuf::from(OsString::from_vec(path.clone()))),
            _ => None,
        });
    let what = named.map(|object| object.kind.describe());
    let what = what.or(mapped.map(|path| format!("{}, mapped for writing", path.display())));
    ensure!(
        what.is_none(),
        "the first job has {}, and its copy would share it; nothing was restored. A copy is possible from a checkpoint \
         at which that is not mapped",
        what.unwrap_or_default()
    );
    Ok(())
}

/// Compares the working directories of all ranks, and prints what the copy shares with the first job.
pub fn agree(copied: Copied, copy: &CopyOf, rank: u32, world: Option<&World>) -> Result<()> {
    let all = match world {
        Some(world) => world::gather_values::<Copied>(&copied, world.size)?,
        None => vec![copied],
    };
    let other = all.iter().position(|other| other.from != all[0].from);
    if let (Some(other), true) = (other, copy.workdir.is_some()) {
        if rank == 0 {
            console::tell(&anyhow!(
                "the first job's ranks are in different working directories ({} of rank 0, {} of rank {other}), and \
                 --workdir would put all of the copy into one. Nothing was restored",
                all[0].from.display(),
                all[other].from.display()
            ));
        }
        // Rank 0 has printed the message before the first rank ends.
        world::minimum(0)?;
        world::finalize();
        std::process::exit(ExitCode::Image.number());
    }
    if rank != 0 && world.is_some() {
        return Ok(());
    }
    tell(
        all.iter().flat_map(|one| &one.shared.read),
        "opened for reading, as the first job has them",
    );
    tell(
        all.iter().flat_map(|one| &one.shared.closed),
        "which the first job had written and closed, and both may write again",
    );
    let left: BTreeSet<_> = all.iter().flat_map(|one| &one.shared.left).collect();
    left.into_iter().for_each(message::say);
    Ok(())
}

/// Prints which files are shared, if any are.
fn tell<'a>(files: impl Iterator<Item = &'a PathBuf>, how: &str) {
    let files: BTreeSet<&PathBuf> = files.collect();
    if !files.is_empty() {
        let named = listed(&files);
        message::say(format_args!(
            "files shared with the first job, {how}: {named}"
        ));
    }
}

fn listed(files: &BTreeSet<&PathBuf>) -> String {
    let named = files
        .iter()
        .take(NAMED)
        .map(|path| path.display().to_string());
    let mut text = named.collect::<Vec<_>>().join(", ");
    if files.len() > NAMED {
        text += &format!(" and {} more", files.len() - NAMED);
    }
    text
}
