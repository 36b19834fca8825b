//! Regular files. Their content stays on disk: an image holds their length and a checksum, and a restart truncates what
//! was written later.

use crate::error::{CaptureError, RestoreError};
use crate::interpose::file_changes::opened_for_write;
use crate::process_state::files::look::Look;
use crate::process_state::files::truncate::Truncator;
use crate::process_state::files::Checks;
use crate::sys::descriptor::{kept_flags, open, seek, stat, writable};
use job_spec::ChangedFilePolicy;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use undo::View;

/// Longest file, in bytes, whose whole content is checked.
const WHOLE: u64 = 1 << 20;
/// Number of pieces checked in a longer file: the first, the last, and some in between.
const PIECES: u64 = 16;
const PIECE: u64 = 16 << 10;

/// A file with a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegularFile {
    path: PathBuf,
    offset: u64,
    size: u64,
    /// Checksum of the content. None if the application may not read the file, or writes it through a mapping; the
    /// mapped content is then saved with the memory.
    checksum: Option<u32>,
}

/// Whether the path leads to this inode.
pub fn is_named(look: &Look) -> bool {
    let named = std::fs::metadata(&look.link);
    named.is_ok_and(|facts| (facts.dev(), facts.ino()) == look.identity())
}

/// Captures the file; `mapped`: it is mapped shared.
pub fn capture(look: &Look, mapped: bool) -> Result<RegularFile, CaptureError> {
    let size = look.facts.st_size as u64;
    let checksum = match look.reader() {
        _ if mapped => None,
        Ok(file) => Some(checksum(&file, size).map_err(|e| look.failed_content(e))?),
        Err(stale @ CaptureError::Stale { .. }) => return Err(stale),
        Err(_) => None,
    };
    Ok(RegularFile {
        path: look.link.clone(),
        offset: look.offset(),
        size,
        checksum,
    })
}

/// Checksum of the first `size` bytes.
pub fn checksum(file: &File, size: u64) -> io::Result<u32> {
    checksum_by(&|bytes, at| file.read_exact_at(bytes, at), size)
}

/// Checksum of the first `size` bytes that `read` returns by offset.
fn checksum_by(read: &dyn Fn(&mut [u8], u64) -> io::Result<()>, size: u64) -> io::Result<u32> {
    let mut hasher = crc32fast::Hasher::new();
    let mut piece = vec![0; PIECE as usize];
    let whole = size <= WHOLE;
    let count = if whole { size.div_ceil(PIECE) } else { PIECES };
    for n in 0..count {
        let start = match whole {
            true => n * PIECE,
            false => n * (size - PIECE) / (PIECES - 1),
        };
        let bytes = &mut piece[..(size - start).min(PIECE) as usize];
        read(bytes, start)?;
        hasher.update(bytes);
    }
    Ok(hasher.finalize())
}

impl RegularFile {
    /// Opens the file again and checks that it has its old content, or will have it after `undo`. None if another file
    /// has this name until then. Changes nothing.
    pub fn open(
        &self,
        fd: i32,
        flags: i32,
        checks: &Checks<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<OwnedFd>, RestoreError> {
        let view = match checks.undo {
            Some((plan, _)) if plan.renames_directories() => return Ok(None),
            Some((plan, host)) => plan.view(&self.path, host),
            None => None,
        };
        let Some(view) = view else {
            return self.open_now(fd, flags, checks.changed, warnings).map(Some);
        };
        if checks.changed != ChangedFilePolicy::Ignore {
            let how = self.difference_of(&view).map_err(self.failed(fd))?;
            self.judge(fd, how, checks.changed, warnings)?;
        }
        if !view.in_place {
            return Ok(None);
        }
        self.open_now(fd, flags, ChangedFilePolicy::Ignore, warnings)
            .map(Some)
    }

    /// Checks that the file has its old content, or will have it. Its name is now `now`, if it exists at all; `undone`
    /// is the result of the undo.
    pub fn look(
        &self,
        fd: i32,
        flags: i32,
        changed: ChangedFilePolicy,
        now: Option<&Path>,
        undone: Option<&View<'_>>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<OwnedFd>, RestoreError> {
        let open = |changed, warnings| {
            let there = |now: &Path| {
                let path = now.to_owned();
                RegularFile {
                    path,
                    ..self.clone()
                }
                .open_now(fd, flags, changed, warnings)
            };
            now.map(there).transpose()
        };
        let Some(view) = undone else {
            return open(changed, warnings);
        };
        if changed != ChangedFilePolicy::Ignore {
            let how = self.difference_of(view).map_err(self.failed(fd))?;
            self.judge(fd, how, changed, warnings)?;
        }
        open(ChangedFilePolicy::Ignore, warnings)
    }

    /// Opens the file as it is and checks that it has its old content.
    pub fn open_now(
        &self,
        fd: i32,
        flags: i32,
        changed: ChangedFilePolicy,
        warnings: &mut Vec<String>,
    ) -> Result<OwnedFd, RestoreError> {
        let opened = open(&self.path, kept_flags(flags)).map_err(self.failed(fd))?;
        if changed != ChangedFilePolicy::Ignore {
            let how = self.difference(&opened).map_err(self.failed(fd))?;
            self.judge(fd, how, changed, warnings)?;
        }
        seek(&opened, self.offset);
        Ok(opened)
    }

    fn failed(&self, fd: i32) -> impl Fn(io::Error) -> RestoreError + '_ {
        move |source| RestoreError::File {
            fd,
            path: self.path.clone(),
            source,
        }
    }

    /// Applies the policy to a file whose content differs.
    fn judge(
        &self,
        fd: i32,
        how: Option<String>,
        changed: ChangedFilePolicy,
        warnings: &mut Vec<String>,
    ) -> Result<(), RestoreError> {
        let Some(how) = how else { return Ok(()) };
        let path = self.path.clone();
        if changed == ChangedFilePolicy::Refuse {
            return Err(RestoreError::FileChanged { fd, path, how });
        }
        warnings.push(format!(
            "{} (file descriptor {fd}) {how}; the program continues with it as it is (--changed-files warn)",
            path.display()
        ));
        Ok(())
    }

    fn difference(&self, opened: &OwnedFd) -> io::Result<Option<String>> {
        let (then, now) = (self.size, stat(opened.as_raw_fd())?.st_size as u64);
        if now < then {
            return Ok(Some(format!(
                "has {now} bytes but had {then} at the checkpoint"
            )));
        }
        let Some(checksum_then) = self.checksum else {
            return Ok(None);
        };
        let same = checksum(&File::open(&self.path)?, then)? == checksum_then;
        Ok((!same).then(|| {
            format!("does not begin with the {then} bytes that were in it at the checkpoint")
        }))
    }

    /// Difference between the checkpoint and the file after the undo.
    fn difference_of(&self, view: &View<'_>) -> io::Result<Option<String>> {
        if let Some(why) = view.lost() {
            return Ok(Some(format!(
                "was changed since the checkpoint, and that cannot be undone: {why}"
            )));
        }
        let Some(checksum_then) = self.checksum else {
            return Ok(None);
        };
        let same =
            checksum_by(&|bytes, at| view.read_exact_at(bytes, at), self.size)? == checksum_then;
        Ok((!same).then(|| {
            "was changed by another program since the checkpoint: it would not be what it was when the job's own \
             changes are undone"
                .to_owned()
        }))
    }

    /// Checksum of the content at the checkpoint, if there is one.
    pub fn checksum(&self) -> Option<u32> {
        self.checksum
    }

    /// Gives it another path.
    pub fn move_to(&mut self, path: PathBuf) {
        self.path = path;
    }

    /// Path, and length in bytes at the checkpoint.
    pub fn length(&self) -> (&Path, u64) {
        (&self.path, self.size)
    }

    /// Truncates what was written after the checkpoint, and records the file as opened for writing.
    pub fn cut(
        &self,
        fd: i32,
        flags: i32,
        opened: &OwnedFd,
        truncator: &mut Truncator<'_>,
    ) -> Result<(), RestoreError> {
        let mut cut = || {
            if writable(flags) {
                let file = File::from(opened.try_clone()?);
                truncator.truncate_open(&self.path, &file, self.size)?;
                opened_for_write::note_opened(opened.as_raw_fd());
            }
            Ok(())
        };
        cut().map_err(|source| RestoreError::File {
            fd,
            path: self.path.clone(),
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_detects_a_changed_byte_and_ignores_growth() {
        for size in [0, 1, PIECE - 1, PIECE, WHOLE, WHOLE + 1, 9 * WHOLE] {
            let file = tempfile::tempfile().unwrap();
            file.write_all_at(&vec![7; size as usize], 0).unwrap();
            let before = checksum(&file, size).unwrap();
            file.write_all_at(b"more", size).unwrap();
            assert_eq!(checksum(&file, size).unwrap(), before);
            for at in [0, size.saturating_sub(1)]
                .into_iter()
                .filter(|at| *at < size)
            {
                file.write_all_at(&[8], at).unwrap();
                assert_ne!(checksum(&file, size).unwrap(), before, "{at} of {size}");
                file.write_all_at(&[7], at).unwrap();
            }
        }
    }
}
