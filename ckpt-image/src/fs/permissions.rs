//! Checks of owner and mode. An image holds code and secrets. A directory or file that another user owns or
//! can write is refused. Links are not followed, and new files are private.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::unistd::geteuid;

use crate::error::{ImageError, Result};

/// Creates a checkpoint directory (0700, with its parents), or checks an existing one. New directories are
/// synced: otherwise a power cut could remove the directory together with its sets.
///
/// # Errors
/// [`ImageError::Io`] if it cannot be made or synced, [`ImageError::Access`] if others can write to it.
pub fn create_checkpoint_dir(path: &Path) -> Result<()> {
    let failed = |e| ImageError::io("make the checkpoint directory", path, e);
    let absent = |dir: &&Path| {
        dir.metadata()
            .is_err_and(|e| e.kind() == io::ErrorKind::NotFound)
    };
    let missing: Vec<&Path> = path
        .ancestors()
        .filter(|dir| !dir.as_os_str().is_empty())
        .take_while(absent)
        .collect();
    if !missing.is_empty() {
        let mut builder = DirBuilder::new();
        builder.mode(0o700).recursive(true);
        builder.create(path).map_err(failed)?;
    }
    for made in missing {
        let parent = made.parent().filter(|dir| !dir.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        // Directories of other users need not permit reads, only searches.
        match File::open(parent).and_then(|dir| dir.sync_all()) {
            Err(e) if e.kind() != io::ErrorKind::PermissionDenied => return Err(failed(e)),
            _ => {}
        }
    }
    check_checkpoint_dir(path)
}

/// Checks that no other user can put files into a checkpoint directory.
///
/// # Errors
/// [`ImageError::Io`] if it does not exist, [`ImageError::Access`] if it is no directory, or belongs to another user,
/// or others can write to it.
pub fn check_checkpoint_dir(path: &Path) -> Result<()> {
    // A link is accepted if its target passes the check: the user has named it.
    let meta = path
        .metadata()
        .map_err(|e| ImageError::io("look at the checkpoint directory", path, e))?;
    check_dir(path, &meta)
}

/// Checks the directory of one set.
pub(crate) fn check_set_dir(path: &Path) -> Result<()> {
    let meta = path
        .symlink_metadata()
        .map_err(|e| ImageError::io("look at the set", path, e))?;
    check_dir(path, &meta)
}

fn check_dir(path: &Path, meta: &Metadata) -> Result<()> {
    if !meta.is_dir() {
        return Err(ImageError::access(path, "it is not a directory"));
    }
    check_owner(path, meta)
}

fn check_owner(path: &Path, meta: &Metadata) -> Result<()> {
    let me = geteuid().as_raw();
    if meta.uid() != me {
        return Err(ImageError::access(
            path,
            format!(
                "it belongs to user {}, this process runs as user {me}. \
                 Use a checkpoint directory of your own",
                meta.uid()
            ),
        ));
    }
    if meta.mode() & 0o022 != 0 {
        return Err(ImageError::access(
            path,
            format!(
                "others can write it (mode {:04o}), and a restart runs the code in it. \
                 If its content can be trusted: chmod go-w",
                meta.mode() & 0o7777
            ),
        ));
    }
    Ok(())
}

/// Opens an image or a manifest for reading, after a check of its owner and mode.
pub(crate) fn open(path: &Path) -> Result<File> {
    let (file, meta) = open_regular(path)?;
    check_owner(path, &meta)?;
    Ok(file)
}

/// Opens a file that no other user may read.
pub(crate) fn open_secret(path: &Path) -> Result<File> {
    let (file, meta) = open_regular(path)?;
    let me = geteuid().as_raw();
    let why = match (meta.uid(), meta.mode() & 0o7777) {
        (owner, _) if owner != me => {
            format!("it belongs to user {owner}, this process runs as user {me}")
        }
        (_, mode) if mode & 0o077 != 0 => {
            format!("others can read or write it (mode {mode:04o}): chmod 600")
        }
        _ => return Ok(file),
    };
    Err(ImageError::access(path, why))
}

fn open_regular(path: &Path) -> Result<(File, Metadata)> {
    let file = OpenOptions::new()
        .read(true)
        // Without O_NONBLOCK, a pipe in its place would block the open.
        .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
        .open(path)
        .map_err(|e| match e.raw_os_error() == Some(Errno::ELOOP as i32) {
            true => ImageError::access(path, "it is a symbolic link"),
            false => ImageError::io("open", path, e),
        })?;
    let meta = file
        .metadata()
        .map_err(|e| ImageError::io("look at", path, e))?;
    if !meta.is_file() {
        return Err(ImageError::access(path, "it is not a regular file"));
    }
    Ok((file, meta))
}
