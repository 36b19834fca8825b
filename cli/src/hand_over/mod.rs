//! Committed checkpoints, handed over to a command of the user's that stores them elsewhere, such as in an object store
//! (`stasis drain --with CMD`, `stasis run --drain-with CMD`).
//!
//! The job has no part in this, so nothing that the command does can harm it. The command gets a directory of hard
//! links to the set's files, which stays when the job removes the set (`--keep`).

mod record;
pub mod run_beside;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{bail, Context, Result};
use ckpt_image::{list_sets, SealKey, SetInfo, SetState};
use record::Record;

/// Variable that names the set for the command.
const VARIABLE: &str = "STASIS_CHECKPOINT";
/// Directory of the links, in the checkpoint directory.
const LINKS: &str = ".handing-over";

/// A command, and the sets that it has stored.
pub struct HandOver {
    directory: PathBuf,
    command: OsString,
    key: Option<SealKey>,
    record: Record,
}

/// A set that the command stores at present.
pub struct Handed {
    set: SetInfo,
    shell: Child,
}

impl Handed {
    /// The shell's process.
    pub fn process(&self) -> u32 {
        self.shell.id()
    }

    /// Name of the set.
    pub fn name(&self) -> &str {
        &self.set.name
    }
}

impl HandOver {
    /// Takes the directory's checkpoints over.
    ///
    /// # Errors
    /// Another process has done so, or a file of this module cannot be used.
    pub fn new(directory: &Path, command: &OsStr, key: Option<SealKey>) -> Result<HandOver> {
        let record = Record::open(directory, command)?;
        let hand_over = HandOver {
            directory: directory.to_owned(),
            command: command.to_owned(),
            key,
            record,
        };
        // A process that was killed has left them.
        hand_over.remove_links()?;
        Ok(hand_over)
    }

    /// The set to be handed over next: the newest whole one, after those that it inherits from.
    ///
    /// # Errors
    /// The directory cannot be read.
    pub fn next(&self) -> Result<Option<SetInfo>> {
        let mut sets = list_sets(&self.directory, self.key.as_ref())?;
        let complete =
            |set: &SetInfo| matches!(set.state, SetState::Whole) && set.undrained.is_empty();
        let mut next = None;
        let mut at = sets.iter().position(complete);
        while let Some(found) = at.take() {
            let set = sets.swap_remove(found);
            let parent = set.parent().map(str::to_owned);
            if !self.record.has(&set) {
                next = Some(set);
            }
            at = parent.and_then(|parent| sets.iter().position(|set| set.name == parent));
        }
        Ok(next)
    }

    /// Starts the command for a set.
    ///
    /// # Errors
    /// There is no shell, or the set is gone.
    pub fn start(&self, set: SetInfo) -> Result<Handed> {
        let from = self.directory.join(&set.name);
        let links = self.directory.join(LINKS).join(&set.name);
        let given = match link_all(&from, &links) {
            Ok(()) => links,
            Err(why) if why.kind() == io::ErrorKind::NotFound => {
                return Err(why).with_context(|| format!("cannot read {}", from.display()));
            }
            // The file system has no hard links.
            Err(_) => from,
        };
        let given = given.canonicalize();
        let given = given.with_context(|| format!("cannot find {}", set.name))?;
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(&self.command).env(VARIABLE, given);
        // A terminal's interrupt is for the job. What the command prints is not the job's output.
        shell.process_group(0).stdin(Stdio::null());
        shell.stdout(io::stderr());
        let shell = supervisor::unblocked::spawn(&mut shell);
        let shell = shell.with_context(|| self.cannot("start a shell for"))?;
        Ok(Handed { set, shell })
    }

    /// Waits for the command, and notes that the set is stored.
    ///
    /// # Errors
    /// It is not stored, or that cannot be noted.
    pub fn finish(&mut self, mut handed: Handed) -> Result<()> {
        let status = handed.shell.wait();
        let status = status.with_context(|| self.cannot("wait for"))?;
        self.remove_links()?;
        if !status.success() {
            bail!(
                "`{}` has not stored {} ({status}): the checkpoint stays in {}. It is handed over again with the next \
                 one, at the end of the job, or by `stasis drain --with`",
                self.command.display(),
                handed.set.name,
                self.directory.display()
            );
        }
        self.record.add(&handed.set)
    }

    fn cannot(&self, what: &str) -> String {
        format!("cannot {what} `{}`", self.command.display())
    }

    fn remove_links(&self) -> Result<()> {
        let links = self.directory.join(LINKS);
        match fs::remove_dir_all(&links) {
            Err(why) if why.kind() != io::ErrorKind::NotFound => {
                Err(why).with_context(|| format!("cannot remove {}", links.display()))
            }
            _ => Ok(()),
        }
    }
}

/// Makes a directory of hard links to the files of another one.
fn link_all(from: &Path, to: &Path) -> io::Result<()> {
    let mut private = fs::DirBuilder::new();
    private.recursive(true).mode(0o700).create(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => link_all(&entry.path(), &target)?,
            false => fs::hard_link(entry.path(), &target)?,
        }
    }
    Ok(())
}
