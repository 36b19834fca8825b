//! Other processes that hold the same pipe or deleted file. Such an object cannot be created again in this process
//! alone.
//!
//! To list or read another process's `/proc/PID/fd`, the kernel takes a reference to each of its open files for that
//! moment (fs/proc/fd.c). If the process closes a pipe in the same moment, the pipe ends only after its `close` has
//! returned. The ranks of this job are stopped now, so they notice nothing. The ranks of other jobs on the node run, so
//! their descriptors are not looked at.

use super::look::{unreadable, Look};
use crate::error::CaptureError;
use crate::sys::syscall;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Refuses the checkpoint if another process has one of these files open. Examines every process that it has permission
/// for.
pub fn refuse_others(wanted: &[&Look]) -> Result<(), CaptureError> {
    if wanted.is_empty() {
        return Ok(());
    }
    let own = Lineage::of("self");
    let own_number = syscall::getpid();
    let entries = fs::read_dir("/proc").map_err(|e| unreadable(wanted[0].fd, e))?;
    let numbers = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for process in numbers.filter(|process| *process != own_number) {
        // The job stands still meanwhile: the other facts are read only of processes that may be ranks.
        let process_name = process.to_string();
        let may_be_rank = installed(&process_name) == own.installed;
        if may_be_rank && own.is_other_job(&Lineage::of(&process_name)) {
            continue;
        }
        let Ok(open) = fs::read_dir(format!("/proc/{process}/fd")) else {
            continue;
        };
        for entry in open.flatten() {
            let Ok(link) = fs::read_link(entry.path()) else {
                continue;
            };
            let mut same = wanted.iter().filter(|look| look.link == link);
            if let Some(look) = same.find(|look| is(&entry.path(), look)) {
                let name = fs::read_to_string(format!("/proc/{process}/comm"));
                return look.refuse(format!(
                    "{} that process {process} ({}) has open too",
                    describe(look),
                    name.unwrap_or_default().trim()
                ));
            }
        }
    }
    Ok(())
}

/// Facts of a process that tell to which job it belongs. A fact that cannot be read is empty.
#[derive(Clone, Default, PartialEq, Eq)]
struct Lineage {
    /// Folder of the executable: for a rank, of the lower halves.
    installed: PathBuf,
    /// Number of the parent: ranks that one launcher started on a node have the same.
    parent: String,
    /// Initial environment. A forked child has its parent's.
    environment: Vec<u8>,
}

/// Folder of the executable of a process; empty if it cannot be read.
fn installed(process: &str) -> PathBuf {
    let executable = fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default();
    executable.parent().map(Path::to_owned).unwrap_or_default()
}

impl Lineage {
    /// `process` is a number or `self`.
    fn of(process: &str) -> Lineage {
        let file = |name: &str| format!("/proc/{process}/{name}");
        let status = fs::read_to_string(file("status")).unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"));
        Lineage {
            installed: installed(process),
            parent: parent.unwrap_or_default().trim().to_owned(),
            environment: fs::read(file("environ")).unwrap_or_default(),
        }
    }

    /// Whether `other` is a rank of another job.
    fn is_other_job(&self, other: &Lineage) -> bool {
        self.installed == other.installed
            && self.parent != other.parent
            && self.environment != other.environment
    }
}

fn is(path: &Path, look: &Look) -> bool {
    fs::metadata(path).is_ok_and(|facts| (facts.dev(), facts.ino()) == look.identity())
}

fn describe(look: &Look) -> String {
    let what = match look.mode() {
        libc::S_IFIFO => "a pipe",
        libc::S_IFSOCK => "a socket pair",
        _ => "an unnamed file",
    };
    format!("{what} ({})", look.link.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn only_ranks_of_other_jobs_are_left_alone() {
        let own = Lineage::of("self");
        assert!(!own.parent.is_empty() && !own.environment.is_empty());
        let rank_beside = Lineage {
            environment: b"RANK=1".to_vec(),
            ..own.clone()
        };
        assert!(!own.is_other_job(&rank_beside));
        let rank_elsewhere = Lineage {
            parent: "1".to_owned(),
            ..rank_beside
        };
        assert!(own.is_other_job(&rank_elsewhere));
        let orphan_of_own = Lineage {
            parent: "1".to_owned(),
            ..own.clone()
        };
        assert!(!own.is_other_job(&orphan_of_own));
        let mut program = Command::new("sleep")
            .arg("60")
            .env("A", "b")
            .spawn()
            .unwrap();
        let executed = Lineage::of(&program.id().to_string());
        program.kill().unwrap();
        program.wait().unwrap();
        assert!(executed.parent == std::process::id().to_string() && !own.is_other_job(&executed));
    }
}
