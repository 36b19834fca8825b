//! The job's place, its checkpoint directory, which somebody may remove or rename while the job runs. It is made
//! again, with the job file by which commands find the job, so that no other job takes the place for free; where one
//! has it by then, this one takes no checkpoints there, and says so.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::client::Client;
use crate::door::Entrance;
use crate::job::JobFile;

/// See the head of this file.
pub struct Place {
    job: JobFile,
    directory: PathBuf,
    /// The directory as it was last seen, whatever its name is by now.
    held: Option<File>,
    door: Entrance,
    /// What was said last of what cannot be done.
    said: Option<String>,
}

/// What is found of the place.
enum Seen {
    /// The directory and the job file in it.
    Whole,
    /// The directory without this job's file.
    WithoutFile,
    /// Another directory of this name, or none.
    Another,
}

impl Place {
    /// The directory, in which the job has just left its file.
    pub fn new(job: JobFile, directory: PathBuf, door: Entrance) -> Place {
        Place {
            held: hold(&directory),
            job,
            directory,
            door,
            said: None,
        }
    }

    /// Makes sure that the job has its place; `make` makes the directory if there is none.
    pub fn look(&mut self, make: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
        let taken = match self.seen() {
            Ok(Seen::Whole) => return Ok(()),
            Ok(Seen::WithoutFile) => self.take(make, true),
            Ok(Seen::Another) => self.take(make, false),
            Err(why) => Err(why),
        };
        if let Err(why) = &taken {
            if self.said.as_ref() != Some(why) {
                eprintln!("stasis: no checkpoint can be taken: {why}");
                self.said = Some(why.clone());
            }
        }
        taken
    }

    /// What is there now. An error that does not tell whether something is there (want of memory or of descriptors,
    /// a server of files that does not answer) is one of this moment: the directory is not given up for it.
    fn seen(&mut self) -> Result<Seen, String> {
        let directory = &self.directory;
        let fail = |e| format!("cannot look at {}: {e}", directory.display());
        let identity = |facts: Metadata| (facts.dev(), facts.ino());
        let now = match fs::metadata(directory) {
            Ok(facts) => identity(facts),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(Seen::Another);
            }
            Err(e) => return Err(fail(e)),
        };
        let there = self.job.is_in(directory).map_err(|e| e.to_string())?;
        let held = match &self.held {
            Some(held) => Some(identity(held.metadata().map_err(fail)?)),
            None => None,
        };
        Ok(match held {
            Some(held) if held != now => Seen::Another,
            Some(_) if there => Seen::Whole,
            Some(_) => Seen::WithoutFile,
            None if there => {
                self.held = hold(directory);
                Seen::Whole
            }
            None => Seen::Another,
        })
    }

    fn take(
        &mut self,
        make: impl FnOnce() -> Result<(), String>,
        same: bool,
    ) -> Result<(), String> {
        let directory = &self.directory;
        make()?;
        if !self.job.is_in(directory).map_err(|e| e.to_string())? {
            Client::claim(&self.job, directory).map_err(|why| why.to_string())?;
        }
        if let Some(socket) = &self.job.address.socket {
            if !same || !socket.exists() {
                let _ = fs::remove_file(socket);
                let listening = self.door.listen_again(socket);
                listening.map_err(|why| format!("cannot listen at {}: {why}", socket.display()))?;
            }
        }
        let shown = directory.display();
        if same {
            eprintln!(
                "stasis: {shown}: job.json was removed while the job runs, and is made again"
            );
        } else {
            let renamed = self.held.take().and_then(|held| {
                let held = PathBuf::from(format!("/proc/thread-self/fd/{}", held.as_raw_fd()));
                // It is not where this job is found any more.
                self.job.remove(&held);
                fs::read_link(held).ok()
            });
            let renamed = renamed.filter(|path| path.exists());
            let what = renamed.map_or("removed".to_owned(), |path| {
                format!("renamed to {}", path.display())
            });
            eprintln!(
                "stasis: the checkpoint directory {shown} was {what} while the job runs: it is made again, and \
                 the next checkpoint goes there"
            );
            self.held = hold(directory);
        }
        self.said = None;
        Ok(())
    }
}

fn hold(directory: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    options
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY)
        .open(directory)
        .ok()
}
