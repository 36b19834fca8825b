//! What has no content of its own, and is opened again by its name: directories, devices, files
//! that the kernel makes up.

use super::descriptor::{file_system, kept_flags, open, seek, Look};
use crate::error::{CaptureError, RestoreError};
use crate::raw;
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A name, and the position there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    path: PathBuf,
    offset: u64,
    terminal: bool,
}

/// File systems whose files are made up when they are read: /proc, /sys, control groups, debugging,
/// tracing, security.
const MADE_UP: [i64; 8] = [
    0x9fa0,
    0x6265_6572,
    0x0027_e0eb,
    0x6367_7270,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0xf97c_ff8c,
];

/// Whether the file is one of those.
pub fn is_made_up(fd: i32) -> bool {
    MADE_UP.contains(&file_system(fd))
}

/// Whether the file is a POSIX message queue.
pub fn is_message_queue(fd: i32) -> bool {
    const QUEUES: i64 = 0x1980_0202;
    file_system(fd) == QUEUES
}

/// Whether this device is a terminal that somebody can sit at.
pub fn is_terminal(device: u64) -> bool {
    let (major, minor) = (libc::major(device), libc::minor(device));
    matches!(major, 4 | 136..=143) || major == 5 && minor != MULTIPLEXER
}

/// Minor number of /dev/ptmx among the devices of major number 5.
const MULTIPLEXER: u32 = 2;

/// A device, if opening it again is all that it takes.
pub fn capture_device(look: &Look) -> Result<Place, CaptureError> {
    const MEMORY: u32 = 1; // null, zero, full, random, urandom, kmsg; and mem, port
    let device = look.facts.st_rdev;
    let harmless = libc::major(device) == MEMORY && !matches!(libc::minor(device), 1 | 2 | 4);
    if !harmless && !is_terminal(device) {
        return look.refuse(format!("the device {}", look.link.display()));
    }
    Ok(Place {
        terminal: is_terminal(device),
        ..named(look, look.link.clone())
    })
}

/// A directory.
pub fn capture_directory(look: &Look) -> Result<Place, CaptureError> {
    if look.facts.st_nlink == 0 {
        return look.refuse(format!("the deleted directory {}", look.link.display()));
    }
    Ok(named(look, own_process(look)?))
}

/// A file that the kernel makes up.
pub fn capture_made_up(look: &Look) -> Result<Place, CaptureError> {
    Ok(named(look, own_process(look)?))
}

fn named(look: &Look, path: PathBuf) -> Place {
    Place {
        path,
        offset: look.offset(),
        terminal: false,
    }
}

/// The path, with /proc/self for this process, which has another number after a restart.
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
    if process != raw::getpid() || rest.starts_with("task") {
        return look.refuse(format!(
            "{}, which is about one process or thread and gone after a restart",
            look.link.display()
        ));
    }
    Ok(Path::new("/proc/self").join(rest))
}

impl Place {
    /// Its name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it again.
    pub fn open(
        &self,
        fd: i32,
        flags: i32,
        warnings: &mut Vec<String>,
    ) -> Result<OwnedFd, RestoreError> {
        let directory = flags & libc::O_DIRECTORY;
        let flags = kept_flags(flags) | directory | libc::O_NOCTTY;
        let opened = match open(&self.path, flags) {
            // Another terminal, or none.
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
