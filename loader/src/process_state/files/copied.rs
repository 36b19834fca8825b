//! Files of a copy of a job (`restart --copy-of`), which runs beside the first job and must not change its files.
//!
//! If the copy has a working directory of its own, what lies below the old one is opened below the new one. A file that
//! is not there yet is made there, as it was at the checkpoint: what the first job has overwritten since is in its undo
//! journals. All other files are shared. A copy is refused if it has one of them open for writing.

use super::closed::ClosedFileList;
use super::kinds::regular::checksum;
use super::Kind;
use crate::error::RestoreError;
use crate::process_state::ProcessState;
use crate::sys::descriptor::writable;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use undo::{Cut, Plan};

/// Bytes that are copied at a time.
const PIECE: u64 = 1 << 20;
/// Number of attempts to read a file while the first job changes it. Each range of bytes is journaled once.
const ATTEMPTS: u32 = 10;

/// The first job, and the place of its copy.
#[derive(Clone, Copy, Debug)]
pub struct Copying<'a> {
    /// Checkpoint directory of the first job.
    pub checkpoints: &'a Path,
    /// The cut from which the copy goes on.
    pub cut: &'a Cut,
    /// Host of this process.
    pub host: &'a str,
    /// Working directory of the copy; none if it has that of the first job.
    pub workdir: Option<&'a Path>,
}

/// Files of a copy outside of its working directory.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct SharedFiles {
    /// Opened for reading.
    pub read: BTreeSet<PathBuf>,
    /// Written and closed by the first job, which may write them again. So may the copy.
    pub closed: BTreeSet<PathBuf>,
    /// Messages about files that could not be copied.
    pub left: Vec<String>,
}

impl ProcessState {
    /// Moves the working directory and the files to those of a copy.
    ///
    /// # Errors
    /// [`RestoreError`] if the copy would write a file of the first job, or a file cannot be made.
    pub fn copied(
        &mut self,
        closed: &mut ClosedFileList,
        copying: &Copying<'_>,
    ) -> Result<SharedFiles, RestoreError> {
        let old = self.cwd.clone();
        let place = |path: &Path| {
            let below = path.strip_prefix(&old).ok()?;
            Some(copying.workdir?.join(below))
        };
        let mut shared = SharedFiles::default();
        let mut both = BTreeSet::new();
        for file in &mut self.files.open {
            match &mut file.kind {
                Kind::Regular(regular) => {
                    let (path, size) = regular.length();
                    let path = path.to_owned();
                    if let Some(to) = place(&path) {
                        copying
                            .make(&path, &to, size, regular.checksum())
                            .map_err(failed(&path))?;
                        regular.move_to(to);
                    } else if writable(file.flags) {
                        both.insert(path);
                    } else {
                        shared.read.insert(path);
                    }
                }
                Kind::ByPath(by_path) => {
                    let path = by_path.path().to_owned();
                    if let Some(to) = place(&path).filter(|_| path.is_dir()) {
                        fs::create_dir_all(&to).map_err(failed(&path))?;
                        by_path.move_to(to);
                    }
                }
                _ => {}
            }
        }
        closed.retain_moved(|path, size, checksum| {
            let Some(to) = place(path) else {
                let own = path.starts_with(&old);
                let set = if own { &mut both } else { &mut shared.closed };
                set.insert(path.to_owned());
                return None;
            };
            match copying.make(path, &to, size, checksum) {
                Ok(()) => Some(to),
                Err(why) => {
                    let path = path.display();
                    shared.left.push(format!("{path} is not copied: {why}"));
                    None
                }
            }
        });
        if !both.is_empty() {
            let files = both.iter().map(|path| path.display().to_string());
            return Err(RestoreError::SharedForWriting {
                files: files.collect::<Vec<_>>().join(", "),
                workdir: old,
            });
        }
        if let Some(workdir) = copying.workdir {
            self.cwd = workdir.to_owned();
        }
        Ok(shared)
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> RestoreError {
    let what = format!("copying {}", path.display());
    move |source| RestoreError::System {
        what: what.clone(),
        source,
    }
}

impl Copying<'_> {
    /// Makes `to` with the content that `from` had at the cut, unless it exists.
    fn make(&self, from: &Path, to: &Path, size: u64, expected: Option<u32>) -> io::Result<()> {
        if fs::symlink_metadata(to).is_ok() {
            return Ok(());
        }
        let folder = to.parent().unwrap_or(to);
        fs::create_dir_all(folder)?;
        let unfinished = folder.join(format!(".stasis-copy-{}", std::process::id()));
        let made = self
            .write(from, &unfinished, size, expected)
            // Other ranks may have made it meanwhile.
            .and_then(|()| match fs::hard_link(&unfinished, to) {
                Err(why) if why.kind() != ErrorKind::AlreadyExists => Err(why),
                _ => Ok(()),
            });
        match fs::remove_file(&unfinished) {
            Err(why) if why.kind() != ErrorKind::NotFound && made.is_ok() => Err(why),
            _ => made,
        }
    }

    fn write(&self, from: &Path, to: &Path, size: u64, expected: Option<u32>) -> io::Result<()> {
        let mode = fs::metadata(from).map_or(0o600, |facts| facts.permissions().mode());
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        let file = options.mode(0o600).open(to)?;
        for left in (0..ATTEMPTS).rev() {
            // Content that the first job overwrote before it was read is in a journal afterwards.
            match self.copy(from, &file, size) {
                Ok(known) if known == self.known(from)? => break,
                Err(why) if left == 0 => return Err(why),
                _ => {}
            }
        }
        if expected.is_some_and(|expected| checksum(&file, size).ok() != Some(expected)) {
            return Err(io::Error::other(
                "it was changed since the checkpoint, and no journal has its former content",
            ));
        }
        file.set_permissions(Permissions::from_mode(mode & 0o7777))
    }

    /// Number of bytes of a file that the journals hold; none if they do not name it.
    fn known(&self, from: &Path) -> io::Result<Option<u64>> {
        let plan = Plan::read(self.checkpoints, self.cut)?;
        Ok(plan.view(from, self.host).map(|view| view.known()))
    }

    /// Copies the content at the cut. Returns the number of bytes that came from journals.
    fn copy(&self, from: &Path, to: &File, size: u64) -> io::Result<Option<u64>> {
        let plan = Plan::read(self.checkpoints, self.cut)?;
        let view = plan.view(from, self.host);
        if let Some(why) = view.as_ref().and_then(|view| view.lost()) {
            return Err(io::Error::other(why));
        }
        let file = match view {
            Some(_) => None,
            None => Some(File::open(from)?),
        };
        to.set_len(0)?;
        let mut at = 0;
        while at < size {
            let mut bytes = vec![0; PIECE.min(size - at) as usize];
            match (&view, &file) {
                (Some(view), _) => view.read_exact_at(&mut bytes, at)?,
                (None, Some(file)) => match file.read_exact_at(&mut bytes, at) {
                    // It was truncated meanwhile, and the journal knows it now.
                    Err(why) if why.kind() == ErrorKind::UnexpectedEof => {}
                    result => result?,
                },
                (None, None) => {}
            }
            to.write_all_at(&bytes, at)?;
            at += bytes.len() as u64;
        }
        Ok(view.map(|view| view.known()))
    }
}
