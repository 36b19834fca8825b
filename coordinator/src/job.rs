//! The job file: how commands find a running job. Rank 0 leaves it in the checkpoint directory and
//! takes it away at the end, unless the job ends with a checkpoint: then the file says so. One that a
//! killed job left behind is told by nobody answering there.

use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::process;
use crate::socket;
use crate::stream::Stream;

/// Name of the job file in the checkpoint directory.
pub const JOB_FILE: &str = "job.json";

const FORMAT: u32 = 1;
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Where the coordinator or a relay listens, and the word that opens it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Address {
    /// Addresses of its machine; none where it listens at a socket.
    pub addresses: Vec<IpAddr>,
    /// Its port.
    pub port: u16,
    /// A Unix socket in the checkpoint directory, where all ranks are on one machine.
    #[serde(default)]
    pub socket: Option<PathBuf>,
    /// Random; who knows it belongs to the job or to its owner.
    pub token: String,
}

/// What a rank is told through MPI, so that it can find its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// The coordinator's address, or a relay's.
    pub address: Address,
    /// See [`crate::tree`].
    pub fan_out: u32,
    /// Ranks keep copies of each other's images: see [`crate::partner`].
    pub partners: bool,
}

impl Contact {
    /// For MPI.
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// The other way.
    pub fn from_bytes(bytes: &[u8]) -> Option<Contact> {
        postcard::from_bytes(bytes).ok()
    }
}

impl Address {
    /// Connects to the socket or to the first address that answers.
    pub fn connect(&self) -> io::Result<Stream> {
        if let Some(path) = &self.socket {
            let stream = socket::by_short_path(path, |path| UnixStream::connect(path));
            return stream.map(Stream::Unix);
        }
        let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for ip in &self.addresses {
            match TcpStream::connect_timeout(&SocketAddr::new(*ip, self.port), CONNECT_LIMIT) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Stream::Tcp(stream));
                }
                Err(e) => last = e,
            }
        }
        Err(last)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Some(path) => write!(f, "socket {}", path.display()),
            None => {
                let addresses = self.addresses.iter().map(ToString::to_string);
                let addresses: Vec<_> = addresses.collect();
                write!(f, "port {} on {}", self.port, addresses.join(" or "))
            }
        }
    }
}

/// What the job file says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobFile {
    format: u32,
    /// The job's id.
    pub id: String,
    /// Rank 0's host.
    pub host: String,
    /// Rank 0's process id.
    pub pid: u32,
    /// Where the coordinator listens.
    #[serde(flatten)]
    pub address: Address,
    /// Number of ranks.
    pub ranks: u32,
    /// The program and its arguments.
    pub program: Vec<String>,
    /// The MPI library below.
    pub mpi: String,
    /// When the job started or was restarted, in seconds since 1970.
    pub started: u64,
    /// The checkpoint with which it has ended, to be continued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_with: Option<String>,
}

/// Why there is no job to talk to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no job file.
    #[error(
        "no job runs in {} (there is no {JOB_FILE}); start one with `mpirun -n RANKS stasis launch \
         --ckpt-dir {} PROGRAM`",
        .0.display(), .0.display()
    )]
    None(PathBuf),
    /// The job file cannot be used.
    #[error("{} {}; remove it if no job runs in that directory", .0.display(), .1)]
    Bad(PathBuf, String),
    /// Reading or writing failed.
    #[error("cannot {} {}: {}", .1, .0.display(), .2)]
    Io(PathBuf, &'static str, io::Error),
    /// The job does not answer.
    #[error(
        "the job in {} does not answer any more: {program} was process {pid} on {host}, and was \
         probably killed ({why}). If it has a checkpoint, continue it with `mpirun -n {ranks} \
         stasis restart {}`",
        directory.display(), directory.display()
    )]
    Dead {
        /// Checkpoint directory.
        directory: PathBuf,
        /// What it ran.
        program: String,
        /// Rank 0's process id.
        pid: u32,
        /// Rank 0's host.
        host: String,
        /// Number of ranks.
        ranks: u32,
        /// What happened.
        why: io::Error,
    },
    /// The job has ended, to be continued.
    #[error(
        "the job in {} ({program}) has ended with {set}, as it was told to. Continue it with `mpirun -n \
         {ranks} stasis restart {}`",
        directory.display(), directory.display()
    )]
    Ended {
        /// Checkpoint directory.
        directory: PathBuf,
        /// What it ran.
        program: String,
        /// Number of ranks.
        ranks: u32,
        /// The checkpoint.
        set: String,
    },
    /// Another job uses the directory.
    #[error(
        "{} is used by a job that runs already ({program}, process {pid} on {host}); give another \
         --ckpt-dir",
        directory.display()
    )]
    Taken {
        /// Checkpoint directory.
        directory: PathBuf,
        /// What it runs.
        program: String,
        /// Rank 0's process id.
        pid: u32,
        /// Rank 0's host.
        host: String,
    },
}

impl JobFile {
    /// Describes a job.
    pub fn new(address: Address, ranks: u32, program: Vec<String>, mpi: String) -> JobFile {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        JobFile {
            format: FORMAT,
            id: random_word().unwrap_or_default()[..8].to_string(),
            host: crate::addresses::host(),
            pid: std::process::id(),
            address,
            ranks,
            program,
            mpi,
            started: since.map_or(0, |s| s.as_secs()),
            ended_with: None,
        }
    }

    /// Leaves the file in `directory`, readable for its owner alone.
    pub fn write(&self, directory: &Path) -> Result<(), Error> {
        self.put(directory, |new, path| fs::rename(new, path))
    }

    /// The same where there is none: of two that do that at the same time one fails (`AlreadyExists`).
    pub(crate) fn write_new(&self, directory: &Path) -> Result<(), Error> {
        self.put(directory, |new, path| match fs::hard_link(new, path) {
            Ok(()) => fs::remove_file(new),
            // The file system has no links.
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
        let new = directory.join(format!(".{JOB_FILE}.{}", self.id));
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)
            .map_err(fail)?;
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| place(&new, &path));
        written.map_err(|e| {
            let _ = fs::remove_file(&new);
            fail(e)
        })
    }

    /// Reads the file in `directory`.
    pub fn read(directory: &Path) -> Result<JobFile, Error> {
        Self::read_at(&directory.join(JOB_FILE))
    }

    fn read_at(path: &Path) -> Result<JobFile, Error> {
        const LONGEST: u64 = 16 << 20;
        let path = path.to_owned();
        let directory = path.parent().unwrap_or(&path);
        let bad = |why: &str| Error::Bad(path.clone(), why.into());
        let file = match fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&path)
        {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                return Err(Error::None(directory.to_owned()));
            }
            Err(e) if e.raw_os_error() == Some(libc::ELOOP) => {
                return Err(bad("is a link, which is not followed"));
            }
            Err(e) => return Err(Error::Io(path, "read", e)),
        };
        let meta = file
            .metadata()
            .map_err(|e| Error::Io(path.clone(), "read", e))?;
        if !meta.is_file() {
            return Err(bad("is no regular file"));
        }
        if meta.mode() & 0o022 != 0 {
            return Err(bad("can be written by others, so it is not believed"));
        }
        let mut text = String::new();
        file.take(LONGEST)
            .read_to_string(&mut text)
            .map_err(|e| Error::Io(path.clone(), "read", e))?;
        let job: JobFile =
            serde_json::from_str(&text).map_err(|e| bad(&format!("cannot be understood ({e})")))?;
        match job.format {
            FORMAT => Ok(job),
            other => Err(bad(&format!(
                "was written by another version of Stasis (format {other})"
            ))),
        }
    }

    /// Takes the file away, if it is still this job's.
    pub fn remove(&self, directory: &Path) {
        if self.is_in(directory).unwrap_or(false) {
            let _ = fs::remove_file(directory.join(JOB_FILE));
        }
    }

    /// Notes in the file, if it is still this job's, with which checkpoint the job ends.
    pub fn end_with(&self, directory: &Path, set: &str) -> Result<(), Error> {
        if !self.is_in(directory)? {
            return Ok(());
        }
        let ended = JobFile {
            ended_with: Some(set.to_owned()),
            ..self.clone()
        };
        ended.write(directory)
    }

    /// Takes the file away that is there, unless that is another one than this, or than what is no job file if
    /// there is none.
    pub(crate) fn clear(directory: &Path, seen: Option<&JobFile>) -> Result<(), Error> {
        let path = directory.join(JOB_FILE);
        let word = random_word().unwrap_or_default();
        let aside = directory.join(format!(".{JOB_FILE}.{word}"));
        match fs::rename(&path, &aside) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            renamed => renamed.map_err(|e| Error::Io(path.clone(), "replace", e))?,
        }
        // Somebody may have been quicker.
        let taken = Self::read_at(&aside).ok();
        if taken.is_some() && taken.as_ref() != seen {
            let _ = fs::hard_link(&aside, &path);
        }
        let _ = fs::remove_file(&aside);
        Ok(())
    }

    /// Whether the file in the directory is this job's; an error where that cannot be found out just now.
    pub(crate) fn is_in(&self, directory: &Path) -> Result<bool, Error> {
        match Self::read(directory) {
            Ok(job) => Ok(job.id == self.id),
            Err(why @ Error::Io(..)) => Err(why),
            Err(_) => Ok(false),
        }
    }

    /// Connects to the job that the file names.
    pub fn connect(&self, directory: &Path) -> Result<Stream, Error> {
        if let Some(set) = &self.ended_with {
            return Err(Error::Ended {
                directory: directory.to_owned(),
                program: self.command(),
                ranks: self.ranks,
                set: set.clone(),
            });
        }
        let mut address = self.address.clone();
        // The directory may have another name since, or here.
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

    /// Whether the job, which has just broken a connection, goes on all the same: one that is being killed is gone
    /// soon.
    pub(crate) fn lives(&self) -> bool {
        const SOON: Duration = Duration::from_secs(1);
        match self.host == crate::addresses::host() {
            true => process::outlives(self.pid, self.started, SOON),
            false => self.address.connect().is_ok(),
        }
    }

    /// The program and its arguments, for people.
    pub fn command(&self) -> String {
        self.program.join(" ")
    }

    /// The error for somebody who wants the directory for a job of his own.
    pub(crate) fn taken(self, directory: &Path) -> Error {
        Error::Taken {
            directory: directory.to_owned(),
            program: self.command(),
            pid: self.pid,
            host: self.host,
        }
    }
}

/// 128 random bits in hexadecimal.
pub fn random_word() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(port: u16) -> JobFile {
        let address = Address {
            addresses: vec![[127, 0, 0, 1].into()],
            port,
            socket: None,
            token: random_word().unwrap(),
        };
        JobFile::new(address, 2, vec!["./a".into(), "x".into()], "mpich".into())
    }

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("stasis-job-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn goes_through_the_disk_in_private() {
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
    fn a_job_that_is_to_be_continued_is_told_from_one_that_is_over() {
        let dir = directory("ended");
        let job = job(1);
        job.write(&dir).unwrap();
        job.end_with(&dir, "ckpt-3").unwrap();
        let ended = JobFile::read(&dir).unwrap();
        let error = ended.connect(&dir).unwrap_err();
        assert!(matches!(&error, Error::Ended { set, .. } if set == "ckpt-3"));
        assert!(error.to_string().contains("-n 2 stasis restart"), "{error}");
        // The next one in this directory has its own file.
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
    fn a_dead_job_is_named() {
        let dir = directory("dead");
        let job = job(1);
        job.write(&dir).unwrap();
        let text = job.connect(&dir).unwrap_err().to_string();
        assert!(text.contains("stasis restart"), "{text}");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn what_others_can_write_is_not_believed() {
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
    fn what_is_no_job_file_is_named() {
        let dir = directory("bad");
        fs::write(dir.join(JOB_FILE), "{").unwrap();
        assert!(matches!(JobFile::read(&dir), Err(Error::Bad(..))));
        fs::remove_dir_all(dir).unwrap();
    }
}
