//! Files that are opened again by their path because they have no content of their own: directories, devices, files
//! that the kernel generates.

use crate::error::{CaptureError, RestoreError};
use crate::process_state::files::look::Look;
use crate::sys::descriptor::{kept_flags, open, seek};
use crate::sys::syscall;
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Path and position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReopenByPath {
    path: PathBuf,
    offset: u64,
    terminal: bool,
}

/// Whether this device is an interactive terminal.
pub fn is_terminal(device: u64) -> bool {
    let (major, minor) = (libc::major(device), libc::minor(device));
    matches!(major, 4 | 136..=143) || major == 5 && minor != MULTIPLEXER
}

/// Minor number of /dev/ptmx among the devices of major number 5.
const MULTIPLEXER: u32 = 2;

/// Captures a device whose state is restored by opening it again.
pub fn capture_device(look: &Look) -> Result<ReopenByPath, CaptureError> {
    const MEMORY: u32 = 1; // null, zero, full, random, urandom, kmsg; and mem, port
    let device = look.facts.st_rdev;
    let harmless = libc::major(device) == MEMORY && !matches!(libc::minor(device), 1 | 2 | 4);
    if !harmless && !is_terminal(device) {
        return look.refuse(format!("the device {}", look.link.display()));
    }
    Ok(ReopenByPath {
        terminal: is_terminal(device),
        ..named(look, look.link.clone())
    })
}

/// Captures a directory.
pub fn capture_directory(look: &Look) -> Result<ReopenByPath, CaptureError> {
    if look.facts.st_nlink == 0 {
        return look.refuse(format!("the deleted directory {}", look.link.display()));
    }
    Ok(named(look, own_process(look)?))
}

/// Captures a file that the kernel generates.
pub fn capture_made_up(look: &Look) -> Result<ReopenByPath, CaptureError> {
    Ok(named(look, own_process(look)?))
}

fn named(look: &Look, path: PathBuf) -> ReopenByPath {
    ReopenByPath {
        path,
        offset: look.offset(),
        terminal: false,
    }
}

/// The path with /proc/self for this process, whose id differs after a restart.
fn own_process(look: &Look) -> Result<PathBuf, CaptureError> {
    let Ok(inside) = look.link.strip_prefix("/proc") else {
        return Ok(look.link.clone());
    };
    let mut parts = inside.components();
    let number = parts.next().and_then(|part| part.as_os_str().to_str());
    let Some(process) = number.and_then(|number| number.parse::<u32>().ok()) else {
        return Ok(look.link.clone());
    };
    let rest = parts.as_path();
    if process != syscall::getpid() || rest.starts_with("task") {
        return look.refuse(format!(
            "{}, which is about one process or thread and gone after a restart",
            look.link.display()
        ));
    }
    Ok(Path::new("/proc/self").join(rest))
}

impl ReopenByPath {
    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it another path.
    pub fn move_to(&mut self, path: PathBuf) {
        self.path = path;
    }

    /// Opens the file again.
    pub fn open(
        &self,
        fd: i32,
        flags: i32,
        warnings: &mut Vec<String>,
    ) -> Result<OwnedFd, RestoreError> {
        let directory = flags & libc::O_DIRECTORY;
        let flags = kept_flags(flags) | directory | libc::O_NOCTTY;
        let opened = match open(&self.path, flags) {
            // The job runs on another terminal, or without one.
            Err(_) if self.terminal => open(Path::new("/dev/tty"), flags).or_else(|_| {
                warnings.push(format!(
                    "file descriptor {fd} was {}; there is no terminal here, /dev/null takes its \
                     place",
                    self.path.display()
                ));
                open(Path::new("/dev/null"), flags)
            }),
            result => result,
        };
        let opened = opened.map_err(|source| RestoreError::File {
            fd,
            path: self.path.clone(),
            source,
        })?;
        if self.offset != 0 {
            seek(&opened, self.offset);
        }
        Ok(opened)
    }
}
