//! The claim on a set that is being written. It distinguishes the work of a live job from the remains of a dead one.
//!
//! It is a lock on the set's directory (flock(2)), which the kernel releases with its process. Some file systems have
//! no such locks (Lustre mounted without `flock`). There the claim is a file in the set with the name of its process.
//! On the machine of that process it ends with the process. On any other machine it ends when nothing in the set has
//! changed for [`LEASE`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use crate::set::names::WRITER_FILE;

/// Much longer than a rank needs for the next part of its image.
const LEASE: Duration = Duration::from_secs(3600);

/// A claim, which ends when it is dropped.
#[derive(Debug)]
pub(super) enum Claim {
    Locked { _lock: Flock<File> },
    Named(PathBuf),
}

impl Claim {
    /// Claims the directory of a set that this process has made.
    pub(super) fn take(set: &Path) -> io::Result<Claim> {
        match lock(set)? {
            Some(lock) => Ok(Claim::Locked { _lock: lock }),
            None => Claim::by_name(set),
        }
    }

    fn by_name(set: &Path) -> io::Result<Claim> {
        let path = set.join(WRITER_FILE);
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        let claim = Claim::Named(path);
        file.write_all(Process::this()?.text().as_bytes())?;
        Ok(claim)
    }
}

impl Claim {
    /// Removes the file, so that a whole set has none. Without it the set is kept for the lease.
    pub(super) fn end_name(&self) {
        if let Claim::Named(path) = self {
            // A file that stays is removed with its set.
            let _ = fs::remove_file(path);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.end_name();
    }
}

/// Whether no process writes this set any more.
pub(super) fn is_abandoned(set: &Path) -> io::Result<bool> {
    match fs::read_to_string(set.join(WRITER_FILE)) {
        Ok(text) => Ok(
            match Process::named(&text).map(|writer| writer.is_alive()) {
                Some(Some(lives)) => !lives,
                // It belongs to another machine, or was not written to its end.
                Some(None) | None => is_unchanged(set)?,
            },
        ),
        Err(why) if why.kind() == io::ErrorKind::NotFound => match lock(set) {
            Ok(Some(_)) => Ok(true),
            // The file is written after the directory is made.
            Ok(None) => is_unchanged(set),
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(why) => Err(why),
        },
        Err(why) => Err(why),
    }
}

/// A lock on a directory, or none if its file system has no locks.
fn lock(set: &Path) -> io::Result<Option<Flock<File>>> {
    let directory = File::open(set)?;
    match Flock::lock(directory, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, Errno::ENOSYS | Errno::EOPNOTSUPP | Errno::ENOLCK | Errno::EINVAL)) => Ok(None),
        Err((_, why)) => Err(why.into()),
    }
}

/// Whether nothing in the set has changed for the lease.
fn is_unchanged(set: &Path) -> io::Result<bool> {
    let mut newest = fs::metadata(set)?.modified()?;
    for entry in fs::read_dir(set)? {
        newest = newest.max(entry?.metadata()?.modified()?);
    }
    // A time in the future is that of another clock.
    let age = SystemTime::now().duration_since(newest);
    Ok(age.is_ok_and(|age| age >= LEASE))
}

/// A process of a machine, of all times.
#[derive(Debug, PartialEq)]
struct Process {
    /// Machine and boot.
    boot: String,
    /// Its namespace of process numbers: containers of one machine have the same boot.
    namespace: String,
    id: u32,
    /// Clock ticks from the boot to its start: numbers of processes are used again.
    start: u64,
}

impl Process {
    fn this() -> io::Result<Process> {
        let id = std::process::id();
        let start = start_of(id)?.ok_or(io::ErrorKind::NotFound)?;
        let (boot, namespace) = place()?;
        Ok(Process {
            boot,
            namespace,
            id,
            start,
        })
    }

    fn text(&self) -> String {
        let Process {
            boot,
            namespace,
            id,
            start,
        } = self;
        format!("{boot} {namespace} {id} {start}\n")
    }

    fn named(text: &str) -> Option<Process> {
        let mut words = text.strip_suffix('\n')?.split(' ');
        let mut next = || words.next();
        Some(Process {
            boot: next()?.to_owned(),
            namespace: next()?.to_owned(),
            id: next()?.parse().ok()?,
            start: next()?.parse().ok()?,
        })
    }

    /// Whether it lives, or nothing if it cannot be seen from here.
    fn is_alive(&self) -> Option<bool> {
        let (boot, namespace) = place().ok()?;
        if (&boot, &namespace) != (&self.boot, &self.namespace) {
            return None;
        }
        let start = start_of(self.id).ok()?;
        Some(start == Some(self.start))
    }
}

/// This machine with its boot, and the namespace of process numbers.
fn place() -> io::Result<(String, String)> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let namespace = fs::read_link("/proc/self/ns/pid")?;
    let namespace = namespace.to_string_lossy().into_owned();
    Ok((boot.trim().to_owned(), namespace))
}

/// Start of a process (proc(5), `stat`, field 22), or nothing if there is none with this number.
fn start_of(id: u32) -> io::Result<Option<u64>> {
    let stat = match fs::read_to_string(format!("/proc/{id}/stat")) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        stat => stat?,
    };
    // The name in parentheses may contain blanks.
    let behind_name = stat.rsplit_once(") ").map(|(_, rest)| rest);
    let start = behind_name.and_then(|rest| rest.split(' ').nth(19));
    let start = start.and_then(|start| start.parse().ok());
    start.map(Some).ok_or(io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn set() -> tempfile::TempDir {
        tempfile::tempdir().expect("a directory")
    }

    #[test]
    fn a_lock_is_a_claim_of_a_live_process() {
        let set = set();
        let claim = Claim::take(set.path()).expect("a lock");
        assert!(matches!(claim, Claim::Locked { .. }));
        assert!(!is_abandoned(set.path()).expect("a look"));
        drop(claim);
        assert!(is_abandoned(set.path()).expect("a look"));
    }

    #[test]
    fn without_locks_a_live_process_has_its_set() {
        let set = set();
        let claim = Claim::by_name(set.path()).expect("a file");
        assert!(!is_abandoned(set.path()).expect("a look"));
        drop(claim);
        assert!(!set.path().join(WRITER_FILE).exists());
    }

    #[test]
    fn without_locks_a_dead_process_has_no_set() {
        let set = set();
        let mut child = Command::new("true").spawn().expect("a child");
        let mut process = Process::this().expect("this process");
        process.id = child.id();
        child.wait().expect("its end");
        fs::write(set.path().join(WRITER_FILE), process.text()).expect("a file");
        assert!(is_abandoned(set.path()).expect("a look"));
    }

    #[test]
    fn a_set_of_another_machine_is_kept_for_the_lease() {
        let set = set();
        let mut process = Process::this().expect("this process");
        process.boot = "another".into();
        let file = set.path().join(WRITER_FILE);
        fs::write(&file, process.text()).expect("a file");
        assert!(!is_abandoned(set.path()).expect("a look"));
        let long_ago = SystemTime::now() - 2 * LEASE;
        for path in [&file, set.path()] {
            let opened = File::open(path).expect("it is there");
            opened.set_modified(long_ago).expect("a time");
        }
        assert!(is_abandoned(set.path()).expect("a look"));
    }

    #[test]
    fn a_process_is_what_its_text_says() {
        let process = Process::this().expect("this process");
        assert_eq!(Process::named(&process.text()), Some(process));
        assert_eq!(Process::named("half"), None);
    }
}
