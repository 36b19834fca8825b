//! The checkpoint directory of a running job. If it is removed or renamed meanwhile, the job creates it
//! again, with the job file by which commands find the job. Otherwise another job would take the directory
//! for free. If another job has it by then, this job takes no checkpoints there, and prints a message.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::claim::{check_free, claim};
use crate::job_file::JobFile;
use crate::net::listener::ListenerHandle;

/// The job's directory and job file.
pub struct JobDirectory {
    job: JobFile,
    directory: PathBuf,
    /// Descriptor of the directory as last seen; it survives a rename.
    held: Option<File>,
    listener: ListenerHandle,
    /// Whether the job file was ever there.
    written: bool,
    /// Last message about a failure.
    said: Option<String>,
}

/// State of the directory.
enum Seen {
    /// The directory and the job file in it.
    Whole,
    /// The directory without this job's file.
    WithoutFile,
    /// Another directory of this name, or none.
    Another,
}

impl JobDirectory {
    /// The directory into which the job has just written its file, or why it could not. Then the job tries again.
    pub fn new(
        job: JobFile,
        directory: PathBuf,
        listener: ListenerHandle,
        written: Result<(), String>,
    ) -> JobDirectory {
        let said = written.err();
        if let Some(why) = &said {
            eprintln!(
                "stasis: {why}. The job runs on, and no command finds it until its file can be written: that is tried \
                 every few seconds"
            );
        }
        JobDirectory {
            held: hold(&directory),
            job,
            directory,
            listener,
            written: said.is_none(),
            said,
        }
    }

    /// Ensures that the job has its directory. `make` creates the directory if it does not exist.
    pub fn ensure(&mut self, make: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
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

    /// The present state. An error that leaves the existence of the directory open is temporary: a lack of
    /// memory or of descriptors, or a file server that does not answer. The directory is not given up for
    /// it.
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
        let there = self.job.is_in(directory).map_err(|e| e.to_string())?;
        if !there {
            check_free(directory).map_err(|why| why.to_string())?;
        }
        // A command that reads the file connects at once, so the socket is there before it.
        if let Some(socket) = &self.job.address.socket {
            if !same || !socket.exists() {
                let _ = fs::remove_file(socket);
                let listening = self.listener.listen_again(socket);
                listening.map_err(|why| format!("cannot listen at {}: {why}", socket.display()))?;
            }
        }
        if !there {
            claim(&self.job, directory).map_err(|why| why.to_string())?;
        }
        let shown = directory.display();
        if same {
            let what = match self.written {
                true => "was removed while the job runs, and is made again",
                false => "could be written now, so commands find the job",
            };
            eprintln!("stasis: {shown}: job.json {what}");
        } else {
            let renamed = self.held.take().and_then(|held| {
                let held = PathBuf::from(format!("/proc/thread-self/fd/{}", held.as_raw_fd()));
                // This directory no longer belongs to the job.
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
        self.written = true;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::contact::random_token;
    use crate::net::listener::{Listener, NetEvent, Reach};
    use std::sync::mpsc;

    #[test]
    fn a_job_file_that_could_not_be_written_is_written_later() {
        let name = format!("stasis-later-{}", std::process::id());
        let directory = &std::env::temp_dir().join(name);
        fs::create_dir_all(directory).unwrap();
        let reach = Reach::Machine(Some(directory));
        let listener = Listener::open(&reach, random_token().unwrap()).unwrap();
        let job = JobFile::new(
            listener.address.clone(),
            1,
            vec!["./a".into()],
            "none".into(),
        );
        let (events, _incoming) = mpsc::channel::<NetEvent>();
        let listener = listener.serve(events, 1).unwrap();
        let written = Err("no room".to_owned());
        let mut place = JobDirectory::new(job, directory.to_owned(), listener, written);
        assert!(JobFile::read(directory).is_err());
        place.ensure(|| Ok(())).unwrap();
        JobFile::read(directory).unwrap();
        fs::remove_dir_all(directory).unwrap();
    }
}
