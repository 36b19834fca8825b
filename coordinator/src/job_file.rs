//! The job file, by which commands find a running job. Rank 0 writes it to the checkpoint directory and
//! removes it at the end. If the job ends with a checkpoint, the file stays and names the set. If
//! `stasis stop` has ended the job, the file stays and says so. The file of a killed job is recognised
//! because no process answers at its address.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use job_spec::shell;
use serde::{Deserialize, Serialize};

use crate::net::contact::{random_token, Address};
use crate::net::stream::Stream;
use crate::private_file::{self, Unreadable};
use crate::process_liveness;

/// Name of the job file in the checkpoint directory.
pub const JOB_FILE: &str = "job.json";

const FORMAT: u32 = 1;

/// Content of the job file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFile {
    format: u32,
    /// Id of the job.
    pub id: String,
    /// Host of rank 0.
    pub host: String,
    /// Process id of rank 0.
    pub pid: u32,
    /// Address of the coordinator.
    #[serde(flatten)]
    pub address: Address,
    /// Number of ranks.
    pub ranks: u32,
    /// Program and arguments.
    pub program: Vec<String>,
    /// MPI library of the lower half.
    pub mpi: String,
    /// Time of the job's start or restart, in seconds since 1970.
    pub started: u64,
    /// Set with which the job has ended and from which it can be continued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_with: Option<String>,
    /// Whether `stasis stop` has ended the job.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
}

/// Reason why no job answers, or why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no job file.
    #[error(
        "no job runs in {} (there is no {JOB_FILE}); start one with `mpirun -n RANKS stasis launch \
         --ckpt-dir {} PROGRAM`",
        .0.display(), shell::word(.0)
    )]
    None(PathBuf),
    /// The job file cannot be used.
    #[error("{} {}; remove it if no job runs in that directory", .0.display(), .1)]
    Bad(PathBuf, String),
    /// Reading or writing failed.
    #[error("cannot {} {}: {}", .1, .0.display(), .2)]
    Io(PathBuf, &'static str, io::Error),
    /// No process answers at the job's address.
    #[error(
        "the job in {} does not answer any more: {program} was process {pid} on {host}, and was \
         probably killed ({why}). If it has a checkpoint, continue it with `mpirun -n {ranks} \
         stasis restart {}`",
        directory.display(), shell::word(directory)
    )]
    Dead {
        /// Checkpoint directory.
        directory: PathBuf,
        /// Program of the job.
        program: String,
        /// Process id of rank 0.
        pid: u32,
        /// Host of rank 0.
        host: String,
        /// Number of ranks.
        ranks: u32,
        /// Error of the connection.
        why: io::Error,
    },
    /// The job has ended with a checkpoint.
    #[error(
        "the job in {} ({program}) has ended with {set}, as requested. Continue it with `mpirun -n \
         {ranks} stasis restart {}`",
        directory.display(), shell::word(directory)
    )]
    Ended {
        /// Checkpoint directory.
        directory: PathBuf,
        /// Program of the job.
        program: String,
        /// Number of ranks.
        ranks: u32,
        /// Name of the set.
        set: String,
    },
    /// `stasis stop` has ended the job.
    #[error(
        "the job in {} ({program}) was ended by `stasis stop`. If it has a checkpoint, continue it with `mpirun -n \
         {ranks} stasis restart {}`",
        directory.display(), shell::word(directory)
    )]
    Stopped {
        /// Checkpoint directory.
        directory: PathBuf,
        /// Program of the job.
        program: String,
        /// Number of ranks.
        ranks: u32,
    },
    /// Another job uses the directory.
    #[error(
        "{} is used by a job that runs already ({program}, process {pid} on {host}); end that job \
         with `stasis stop {}`, or give another --ckpt-dir",
        directory.display(), shell::word(directory)
    )]
    Taken {
        /// Checkpoint directory.
        directory: PathBuf,
        /// Program of that job.
        program: String,
        /// Process id of rank 0.
        pid: u32,
        /// Host of rank 0.
        host: String,
    },
}

impl JobFile {
    /// The job file of this process's job.
    pub fn new(address: Address, ranks: u32, program: Vec<String>, mpi: String) -> JobFile {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        JobFile {
            format: FORMAT,
            id: random_token().unwrap_or_default()[..8].to_string(),
            host: crate::net::addresses::host(),
            pid: std::process::id(),
            address,
            ranks,
            program,
            mpi,
            started: since.map_or(0, |s| s.as_secs()),
            ended_with: None,
            stopped: false,
        }
    }

    /// Writes the file to `directory`, readable for its owner alone.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&self, directory: &Path) -> Result<(), Error> {
        self.put(directory, |new, path| fs::rename(new, path))
    }

    /// Writes the file if none exists; of two concurrent calls one fails (`AlreadyExists`).
    pub(crate) fn write_new(&self, directory: &Path) -> Result<(), Error> {
        self.put(directory, |new, path| match fs::hard_link(new, path) {
            Ok(()) => fs::remove_file(new),
            // The file system does not support hard links.
            Err(e) if matches!(e.raw_os_error(), Some(libc::EPERM | libc::EOPNOTSUPP)) => {
                fs::rename(new, path)
            }
            Err(e) => Err(e),
        })
    }

    fn put(
        &self,
        directory: &Path,
        place: impl FnOnce(&Path, &Path) -> io::Result<()>,
    ) -> Result<(), Error> {
        let path = directory.join(JOB_FILE);
        let fail = |e| Error::Io(path.clone(), "write", e);
        let text = serde_json::to_string_pretty(self).map_err(|e| fail(e.into()))?;
        private_file::write(&path, &self.id, &text, place).map_err(fail)
    }

    /// Reads the file in `directory`.
    ///
    /// # Errors
    /// [`Error::None`] if there is none, [`Error::Bad`] if it is not this user's or cannot be understood,
    /// [`Error::Io`].
    pub fn read(directory: &Path) -> Result<JobFile, Error> {
        Self::read_at(&directory.join(JOB_FILE))
    }

    fn read_at(path: &Path) -> Result<JobFile, Error> {
        let path = path.to_owned();
        let directory = path.parent().unwrap_or(&path);
        let bad = |why: &str| Error::Bad(path.clone(), why.into());
        let text = match private_file::read(&path) {
            Ok(text) => text,
            Err(Unreadable::Io(e)) if e.kind() == io::ErrorKind::NotFound => {
                return Err(Error::None(directory.to_owned()));
            }
            Err(Unreadable::Bad(why)) => return Err(bad(why)),
            Err(Unreadable::Io(e)) => return Err(Error::Io(path, "read", e)),
        };
        let job: JobFile =
            serde_json::from_str(&text).map_err(|e| bad(&format!("cannot be understood ({e})")))?;
        match job.format {
            FORMAT => Ok(job),
            other => Err(bad(&format!(
                "was written by another version of Stasis (format {other})"
            ))),
        }
    }

    /// Removes the file, if it is still this job's.
    pub fn remove(&self, directory: &Path) {
        if self.is_in(directory).unwrap_or(false) {
            let _ = fs::remove_file(directory.join(JOB_FILE));
        }
    }

    /// Adds to the file, if it is still this job's, the set with which the job ends.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn end_with(&self, directory: &Path, set: &str) -> Result<(), Error> {
        let ended = JobFile {
            ended_with: Some(set.to_owned()),
            ..self.clone()
        };
        ended.amend(directory)
    }

    /// Adds to the file, if it is still this job's, that `stasis stop` has ended the job.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn end_stopped(&self, directory: &Path) -> Result<(), Error> {
        let ended = JobFile {
            stopped: true,
            ..self.clone()
        };
        ended.amend(directory)
    }

    fn amend(&self, directory: &Path) -> Result<(), Error> {
        match self.is_in(directory)? {
            true => self.write(directory),
            false => Ok(()),
        }
    }

    /// Removes the present file, unless it differs from `seen`. With no `seen`, it removes only a file that
    /// is not a job file.
    pub(crate) fn clear(directory: &Path, seen: Option<&JobFile>) -> Result<(), Error> {
        let path = directory.join(JOB_FILE);
        let token = random_token().unwrap_or_default();
        let moved = directory.join(format!(".{JOB_FILE}.{token}"));
        match fs::rename(&path, &moved) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            renamed => renamed.map_err(|e| Error::Io(path.clone(), "replace", e))?,
        }
        // Another process may have replaced the file meanwhile.
        let taken = Self::read_at(&moved).ok();
        if taken.is_some() && taken.as_ref() != seen {
            let _ = fs::hard_link(&moved, &path);
        }
        let _ = fs::remove_file(&moved);
        Ok(())
    }

    /// Whether the file in the directory is this job's; an error if that cannot be determined at present.
    pub(crate) fn is_in(&self, directory: &Path) -> Result<bool, Error> {
        match Self::read(directory) {
            Ok(job) => Ok(job.id == self.id),
            Err(why @ Error::Io(..)) => Err(why),
            Err(_) => Ok(false),
        }
    }

    /// Connects to the job that the file names.
    ///
    /// # Errors
    /// [`Error::Ended`] if the job has ended with a checkpoint, [`Error::Stopped`] if `stasis stop` has ended it;
    /// otherwise an error that names the job that does not answer.
    pub fn connect(&self, directory: &Path) -> Result<Stream, Error> {
        if let Some(set) = &self.ended_with {
            return Err(Error::Ended {
                directory: directory.to_owned(),
                program: self.command(),
                ranks: self.ranks,
                set: set.clone(),
            });
        }
        if self.stopped {
            return Err(Error::Stopped {
                directory: directory.to_owned(),
                program: self.command(),
                ranks: self.ranks,
            });
        }
        let mut address = self.address.clone();
        // The directory may have been renamed, or may have another path here.
        if let Some(path) = &mut address.socket {
            if let Some(name) = path.file_name() {
                *path = directory.join(name);
            }
        }
        address.connect().map_err(|why| Error::Dead {
            directory: directory.to_owned(),
            program: self.command(),
            pid: self.pid,
            host: self.host.clone(),
            ranks: self.ranks,
            why,
        })
    }

    /// Whether the job is alive although it has just closed a connection. A job that is being killed ends
    /// soon after.
    pub(crate) fn lives(&self) -> bool {
        const SOON: Duration = Duration::from_secs(1);
        match self.host == crate::net::addresses::host() {
            true => process_liveness::outlives(self.pid, self.started, SOON),
            false => self.address.connect().is_ok(),
        }
    }

    /// The program and its arguments, for the user.
    pub fn command(&self) -> String {
        self.program.join(" ")
    }

    /// The error for a user who wants to run another job in the directory.
    pub(crate) fn taken(self, directory: &Path) -> Error {
        Error::Taken {
            directory: directory.to_owned(),
            program: self.command(),
            pid: self.pid,
            host: self.host,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn job(port: u16) -> JobFile {
        let address = Address {
            addresses: vec![[127, 0, 0, 1].into()],
            port,
            socket: None,
            token: random_token().unwrap(),
        };
        JobFile::new(address, 2, vec!["./a".into(), "x".into()], "mpich".into())
    }

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("stasis-job-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn the_file_is_written_and_read_in_private() {
        let dir = directory("disk");
        let job = job(1);
        job.write(&dir).unwrap();
        assert_eq!(JobFile::read(&dir).unwrap(), job);
        let mode = fs::metadata(dir.join(JOB_FILE)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600);
        let other = JobFile {
            id: "other".into(),
            ..job.clone()
        };
        other.remove(&dir);
        assert!(JobFile::read(&dir).is_ok(), "another job's file stays");
        job.remove(&dir);
        assert!(matches!(JobFile::read(&dir), Err(Error::None(_))));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn an_ended_job_names_its_set() {
        let dir = directory("ended");
        let job = job(1);
        job.write(&dir).unwrap();
        job.end_with(&dir, "ckpt-3").unwrap();
        let ended = JobFile::read(&dir).unwrap();
        let error = ended.connect(&dir).unwrap_err();
        assert!(matches!(&error, Error::Ended { set, .. } if set == "ckpt-3"));
        assert!(error.to_string().contains("-n 2 stasis restart"), "{error}");
        // The next job in this directory has its own file.
        let next = JobFile {
            id: "next".into(),
            ..job.clone()
        };
        next.write(&dir).unwrap();
        job.end_with(&dir, "ckpt-4").unwrap();
        assert_eq!(JobFile::read(&dir).unwrap(), next);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_stopped_job_was_not_killed() {
        let dir = directory("stopped");
        let job = job(1);
        job.write(&dir).unwrap();
        job.end_stopped(&dir).unwrap();
        let error = JobFile::read(&dir).unwrap().connect(&dir).unwrap_err();
        assert!(matches!(&error, Error::Stopped { .. }), "{error}");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_dead_job_is_named() {
        let dir = directory("dead");
        let job = job(1);
        job.write(&dir).unwrap();
        let text = job.connect(&dir).unwrap_err().to_string();
        assert!(text.contains("stasis restart"), "{text}");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_file_that_others_can_write_is_rejected() {
        use std::os::unix::fs::{symlink, PermissionsExt};
        let dir = directory("open");
        job(1).write(&dir).unwrap();
        let path = dir.join(JOB_FILE);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
        assert!(matches!(JobFile::read(&dir), Err(Error::Bad(..))));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(&path, dir.join("elsewhere")).unwrap();
        symlink(dir.join("elsewhere"), &path).unwrap();
        assert!(matches!(JobFile::read(&dir), Err(Error::Bad(..))));
        fs::remove_file(&path).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        assert!(matches!(JobFile::read(&dir), Err(Error::Bad(..))));
        let next = job(2);
        next.write(&dir).unwrap();
        assert_eq!(JobFile::read(&dir).unwrap(), next);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn an_invalid_job_file_is_named() {
        let dir = directory("bad");
        fs::write(dir.join(JOB_FILE), "{").unwrap();
        assert!(matches!(JobFile::read(&dir), Err(Error::Bad(..))));
        fs::remove_dir_all(dir).unwrap();
    }
}
