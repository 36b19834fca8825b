//! Files with content. They stay where they are: an image notes how long one was and what was in
//! it, and a restart cuts off what was written later.

use super::cut::Cutter;
use super::descriptor::{kept_flags, open, seek, stat, writable, Look};
use super::{written, ChangedFiles, Checks};
use crate::error::{CaptureError, RestoreError};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use undo::View;

/// A file up to this length is looked at as a whole.
const WHOLE: u64 = 1 << 20;
/// Of a longer one, so many pieces of so many bytes: the first, the last, and some in between.
const PIECES: u64 = 16;
const PIECE: u64 = 16 << 10;

/// A file with a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Regular {
    path: PathBuf,
    offset: u64,
    size: u64,
    /// Of its content; none where the application may not read it, or writes it as memory.
    /// What it has mapped is then in the image of that.
    checksum: Option<u32>,
}

/// Whether the path leads to this very file.
pub fn is_named(look: &Look) -> bool {
    let named = std::fs::metadata(&look.link);
    named.is_ok_and(|facts| (facts.dev(), facts.ino()) == look.identity())
}

/// Notes the file; `mapped`: it is mapped shared.
pub fn capture(look: &Look, mapped: bool) -> Result<Regular, CaptureError> {
    let size = look.facts.st_size as u64;
    let checksum = match look.reader() {
        _ if mapped => None,
        Ok(file) => Some(
            checksum(&file, size).map_err(|source| CaptureError::System {
                what: look.link.display().to_string(),
                source,
            })?,
        ),
        Err(_) => None,
    };
    Ok(Regular {
        path: look.link.clone(),
        offset: look.offset(),
        size,
        checksum,
    })
}

/// Of the first `size` bytes.
pub fn checksum(file: &File, size: u64) -> io::Result<u32> {
    checksum_by(&|bytes, at| file.read_exact_at(bytes, at), size)
}

/// Of the first `size` bytes of what is read from a position on.
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

impl Regular {
    /// Opens it again and looks whether it is what it was, or will be when `undo` is done; none where the file of
    /// this name is another one until then. Nothing is changed yet.
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
        if checks.changed != ChangedFiles::Ignore {
            let how = self.difference_of(&view).map_err(self.failed(fd))?;
            self.judge(fd, how, checks.changed, warnings)?;
        }
        if !view.in_place {
            return Ok(None);
        }
        self.open_now(fd, flags, ChangedFiles::Ignore, warnings)
            .map(Some)
    }

    /// Looks whether it is what it was, or will be: it has the name `now`, if it is there at all, and `undone` is what
    /// the undo makes of it.
    pub fn look(
        &self,
        fd: i32,
        flags: i32,
        changed: ChangedFiles,
        now: Option<&Path>,
        undone: Option<&View<'_>>,
        warnings: &mut Vec<String>,
    ) -> Result<Option<OwnedFd>, RestoreError> {
        let open = |changed, warnings| {
            let there = |now: &Path| {
                let path = now.to_owned();
                Regular {
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
        if changed != ChangedFiles::Ignore {
            let how = self.difference_of(view).map_err(self.failed(fd))?;
            self.judge(fd, how, changed, warnings)?;
        }
        open(ChangedFiles::Ignore, warnings)
    }

    /// Opens it as it is, and looks whether it is what it was.
    pub fn open_now(
        &self,
        fd: i32,
        flags: i32,
        changed: ChangedFiles,
        warnings: &mut Vec<String>,
    ) -> Result<OwnedFd, RestoreError> {
        let opened = open(&self.path, kept_flags(flags)).map_err(self.failed(fd))?;
        if changed != ChangedFiles::Ignore {
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

    /// What to do about a content that differs in some way.
    fn judge(
        &self,
        fd: i32,
        how: Option<String>,
        changed: ChangedFiles,
        warnings: &mut Vec<String>,
    ) -> Result<(), RestoreError> {
        let Some(how) = how else { return Ok(()) };
        let path = self.path.clone();
        if changed == ChangedFiles::Refuse {
            return Err(RestoreError::FileChanged { fd, path, how });
        }
        warnings.push(format!(
            "{} (file descriptor {fd}) {how}; the program goes on with it as it is (--changed-files warn)",
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

    /// The same for what the file will be.
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

    /// What it is called, and how long it was.
    pub fn length(&self) -> (&Path, u64) {
        (&self.path, self.size)
    }

    /// Cuts off what was written after the checkpoint, and remembers that it is written to.
    pub fn cut(
        &self,
        fd: i32,
        flags: i32,
        opened: &OwnedFd,
        cutter: &mut Cutter<'_>,
    ) -> Result<(), RestoreError> {
        let mut cut = || {
            if writable(flags) {
                let file = File::from(opened.try_clone()?);
                cutter.cut_open(&self.path, &file, self.size)?;
                written::note_opened(opened.as_raw_fd());
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
    fn a_changed_byte_is_seen_and_growth_is_not() {
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
