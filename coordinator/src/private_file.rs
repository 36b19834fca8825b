//! Small files of the owner alone by which processes of a job find each other. A token in them admits to the job, so
//! one that another user could have written is refused.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Bytes of the longest file that is read.
const LONGEST: u64 = 16 << 20;

/// Reason why a file cannot be read.
#[derive(Debug)]
pub enum Unreadable {
    /// The file is not trusted: what is wrong with it.
    Bad(&'static str),
    /// Opening or reading failed.
    Io(io::Error),
}

/// Reads a file that only its owner can write. A symbolic link is not followed, and no other than a regular file is
/// waited for.
///
/// # Errors
/// [`Unreadable::Bad`] if the file is not safe to use, [`Unreadable::Io`].
pub fn read(path: &Path) -> Result<String, Unreadable> {
    let mut options = OpenOptions::new();
    let options = options
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = options.open(path).map_err(|why| match why.raw_os_error() {
        Some(libc::ELOOP) => Unreadable::Bad("is a symbolic link, which is not followed"),
        _ => Unreadable::Io(why),
    })?;
    let meta = file.metadata().map_err(Unreadable::Io)?;
    if !meta.is_file() {
        return Err(Unreadable::Bad("is not a regular file"));
    }
    if meta.mode() & 0o022 != 0 {
        return Err(Unreadable::Bad(
            "can be written by others, so it is not trusted",
        ));
    }
    let mut text = String::new();
    let read = file.take(LONGEST).read_to_string(&mut text);
    read.map(|_| text).map_err(Unreadable::Io)
}

/// Writes a file that its owner alone can read. The text is complete before it gets its name: `place` moves the new
/// file to `path`. `tag` differs from that of any other process that writes at this time.
///
/// # Errors
/// That of the write, or of `place`. Nothing is left at `path` that was not there before.
pub fn write(
    path: &Path,
    tag: &str,
    text: &str,
    place: impl FnOnce(&Path, &Path) -> io::Result<()>,
) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.{tag}"));
    let mut options = OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(&new)?;
    let written = file.write_all(text.as_bytes());
    written.and_then(|()| place(&new, path)).inspect_err(|_| {
        let _ = fs::remove_file(&new);
    })
}
