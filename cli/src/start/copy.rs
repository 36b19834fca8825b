//! The directories of a copy of a job (`restart --copy-of`).

use std::path::{Path, PathBuf};

use anyhow::{anyhow, ensure, Context, Result};
use ckpt_image::{any_finished, Set};
use job_spec::{shell, CopyOf};

use crate::args::Restart;
use crate::start::end_job;
use crate::ui::exit::{self, Code, WithCode};

/// The directory of the copy's checkpoints and the job that is copied, whose directory this is; none without
/// `--copy-of`.
pub fn prepare(
    options: &Restart,
    directory: &Path,
    set: &Set,
) -> exit::Result<Option<(PathBuf, CopyOf)>> {
    let given = options.ckpt_dir.as_deref();
    if options.copy_of.is_none() {
        let same = |given: &Path| given.canonicalize().ok() == directory.canonicalize().ok();
        return match given.filter(|given| !same(given)) {
            None => Ok(None),
            Some(given) => Err(anyhow!(
                "a restart goes on in the directory of its checkpoint. With --ckpt-dir {}, give --copy-of {} to start \
                 a copy of the job there (STASIS_CKPT_DIR counts as --ckpt-dir)",
                shell::word(given),
                shell::word(directory)
            ))
            .code(Code::Usage),
        };
    }
    let own = given
        .context("--copy-of needs --ckpt-dir")
        .code(Code::Usage)?;
    if launcher::is_first() {
        end_job::on_error(check(own, set), Code::Directory, &options.running)?;
    }
    let workdir = options.workdir.as_deref().map(directory_at);
    let first = CopyOf {
        dir: directory_at(directory).code(Code::Image)?,
        workdir: workdir.transpose().code(Code::Directory)?,
    };
    Ok(Some((own.to_owned(), first)))
}

/// Checks that a copy has a directory of its own, and that all images are in that of the first job.
fn check(own: &Path, set: &Set) -> Result<()> {
    ensure!(
        !own.exists() || !any_finished(own)?,
        "{} has checkpoints: give a new directory for those of the copy",
        own.display()
    );
    ensure!(
        set.undrained().next().is_none(),
        "images of {} are in local directories still: wait until the first job has copied them to its checkpoint \
         directory (`stasis list`), or give an older checkpoint",
        set.name()
    );
    Ok(())
}

/// Absolute path of a directory that exists.
fn directory_at(path: &Path) -> Result<PathBuf> {
    let absolute = path
        .canonicalize()
        .with_context(|| path.display().to_string())?;
    ensure!(absolute.is_dir(), "{} is not a directory", path.display());
    Ok(absolute)
}
