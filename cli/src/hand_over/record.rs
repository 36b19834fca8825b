//! The file that names the sets which a command has stored.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use ckpt_image::SetInfo;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

/// Name of the file in the checkpoint directory.
const NAME: &str = "handed-over";

/// A line of the file.
#[derive(Serialize, Deserialize, PartialEq)]
struct Line {
    set: String,
    id: [u8; 16],
    /// The command: another one stores elsewhere.
    command: Vec<u8>,
}

/// The file. It is locked, where the file system has locks, so that each set is handed over once.
pub struct Record {
    path: PathBuf,
    file: File,
    _lock: Option<Flock<File>>,
    command: OsString,
    lines: Vec<Line>,
}

impl Record {
    /// Opens the file of a directory.
    ///
    /// # Errors
    /// Another process has opened it, or it cannot be used.
    pub fn open(directory: &Path, command: &OsStr) -> Result<Record> {
        let path = directory.join(NAME);
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true).mode(0o600);
        let named = || format!("cannot use {}", path.display());
        let opened = options.open(&path).with_context(named)?;
        let second = opened.try_clone().with_context(named)?;
        let lock = match Flock::lock(second, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Some(lock),
            Err((_, Errno::EWOULDBLOCK)) => bail!(
                "another `stasis` hands the checkpoints of {} over at present: wait for it",
                directory.display()
            ),
            Err(_) => None,
        };
        let mut lines = Vec::new();
        for line in BufReader::new(&opened).lines() {
            let line = line.with_context(named)?;
            // A process that was killed may have left half a line. That set is handed over again.
            lines.extend(serde_json::from_str::<Line>(&line));
        }
        Ok(Record {
            path,
            file: opened,
            _lock: lock,
            command: command.to_owned(),
            lines,
        })
    }

    fn line(&self, set: &SetInfo) -> Option<Line> {
        let manifest = set.manifest.as_ref()?;
        Some(Line {
            set: set.name.clone(),
            id: manifest.set_id.0,
            command: self.command.clone().into_vec(),
        })
    }

    /// Whether the command has stored a set.
    pub fn has(&self, set: &SetInfo) -> bool {
        self.line(set)
            .is_some_and(|line| self.lines.contains(&line))
    }

    /// Notes that it has.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, set: &SetInfo) -> Result<()> {
        if let Some(line) = self.line(set) {
            let mut text = serde_json::to_vec(&line)?;
            text.push(b'\n');
            // At the begin of a line, whatever a killed process has left.
            text.insert(0, b'\n');
            let written = self.file.write_all(&text);
            written.with_context(|| format!("cannot write {}", self.path.display()))?;
            self.lines.push(line);
        }
        Ok(())
    }
}
