//! The directory of a record, before the job starts.

use std::fs;

use anyhow::{Context, Result};
use job_spec::Record;
use record::{files, files_of, Error};

use crate::args::Running;

/// Makes the directory of a new record, or checks that there is one to replay.
pub fn prepare(running: &Running) -> Result<()> {
    match running.recording.spec() {
        None | Some(Record::Solo { .. }) => Ok(()),
        Some(Record::Replay { dir }) => files(&dir).map(drop).context("nothing can be replayed"),
        Some(Record::Write { dir, .. }) => fs::create_dir_all(&dir)
            .with_context(|| format!("the directory {} of the record", dir.display())),
    }
}

/// Checks that the program may begin a record. The one of a run of this job that was lost before its first checkpoint
/// is set aside, with `resume`. Only the first rank checks: others may see the files of this run.
pub fn make_free(running: &Running, resume: bool) -> Result<()> {
    let Some(Record::Write { dir, .. }) = running.recording.spec() else {
        return Ok(());
    };
    for (rank, _) in files(&dir).unwrap_or_default() {
        if !resume {
            return Err(Error::Exists(dir).into());
        }
        for path in files_of(&dir, rank) {
            let mut aside = path.clone().into_os_string();
            aside.push(".old");
            fs::rename(&path, &aside)
                .with_context(|| format!("{} cannot be set aside", path.display()))?;
        }
    }
    Ok(())
}
