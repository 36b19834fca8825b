//! How much memory there is for copies of pages. While a copy of a process is being written, every page
//! that the process changes is there twice; at worst all of them. Where that might not fit, the job
//! stands still instead: that costs time, and to run out of memory would cost the job.

use std::fs;
use std::path::{Path, PathBuf};

/// How much may be taken, and what says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes for this process.
    pub bytes: u64,
    /// The tightest of all limits, for people.
    pub limit: String,
}

impl Room {
    /// What this process finds, as one of so many on its machine that copy at the same time.
    pub fn here(processes: u32) -> Room {
        Room::under(Path::new("/"), processes)
    }

    /// None at all, because of this.
    pub fn none(limit: &str) -> Room {
        Room {
            bytes: 0,
            limit: limit.to_owned(),
        }
    }

    /// With the files of the kernel below `root`.
    fn under(root: &Path, processes: u32) -> Room {
        let processes = u64::from(processes.max(1));
        let limits = available(root).into_iter().chain(strict(root));
        let limits = limits.chain(groups(root)).map(|(bytes, limit)| Room {
            bytes: bytes / processes,
            limit: match processes {
                1 => limit,
                all => format!("{limit}, for each of {all} processes"),
            },
        });
        limits.min_by_key(|room| room.bytes).unwrap_or(Room {
            bytes: u64::MAX,
            limit: "no limit is known".to_owned(),
        })
    }
}

/// What the kernel could give without swapping.
fn available(root: &Path) -> Option<(u64, String)> {
    let bytes = field(&root.join("proc/meminfo"), "MemAvailable:")? << 10;
    Some((bytes, "MemAvailable in /proc/meminfo".to_owned()))
}

/// Where no more memory is promised than there is, a copy is charged for all that could be written at
/// once, whether it is or not, and the job could get no more meanwhile: half of what is left must do.
fn strict(root: &Path) -> Option<(u64, String)> {
    let policy = fs::read_to_string(root.join("proc/sys/vm/overcommit_memory")).ok()?;
    if policy.trim() != "2" {
        return None;
    }
    let meminfo = root.join("proc/meminfo");
    let left = field(&meminfo, "CommitLimit:")?.saturating_sub(field(&meminfo, "Committed_AS:")?);
    let status = root.join("proc/self/status");
    let own = field(&status, "VmData:")? + field(&status, "VmStk:")?;
    let bytes = if own > left / 2 { 0 } else { left / 2 } << 10;
    Some((bytes, "CommitLimit in /proc/meminfo".to_owned()))
}

/// What the memory control groups of the process and those around them have left. Pages of files count
/// as free: they can be dropped.
fn groups(root: &Path) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    let own = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    for line in own.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let (mount, [limit, used, reclaimable]) = match controllers {
            "" => (
                "sys/fs/cgroup",
                ["memory.max", "memory.current", "inactive_file "],
            ),
            _ if controllers.split(',').any(|name| name == "memory") => (
                "sys/fs/cgroup/memory",
                [
                    "memory.limit_in_bytes",
                    "memory.usage_in_bytes",
                    "total_inactive_file ",
                ],
            ),
            _ => continue,
        };
        // In a container the path may lead nowhere; its own group is at the mount then.
        for group in Path::new(path).ancestors() {
            let place: PathBuf = root
                .join(mount)
                .join(group.strip_prefix("/").unwrap_or(group));
            let number = |file: &str| -> Option<u64> {
                fs::read_to_string(place.join(file))
                    .ok()?
                    .trim()
                    .parse()
                    .ok()
            };
            if let (Some(limit), Some(used)) = (number(limit), number(used)) {
                let files = field(&place.join("memory.stat"), reclaimable).unwrap_or(0);
                let left = limit.saturating_sub(used.saturating_sub(files));
                found.push((left, format!("control group {}", group.display())));
            }
        }
    }
    found
}

/// The number behind `name` at the beginning of a line of a file.
fn field(file: &Path, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    const MEMINFO: (&str, &str) = (
        "proc/meminfo",
        "MemTotal: 9999 kB\nMemAvailable: 4000 kB\nCommitLimit: 5000 kB\nCommitted_AS: 3000 kB\n",
    );

    fn room(files: &[(&str, &str)], processes: u32) -> (u64, String) {
        let root = kernel(files);
        let room = Room::under(root.path(), processes);
        (room.bytes, room.limit)
    }

    #[test]
    fn processes_share_what_is_available() {
        let free = "MemAvailable in /proc/meminfo";
        assert_eq!(room(&[MEMINFO], 1), (4000 << 10, free.to_owned()));
        let each = format!("{free}, for each of 4 processes");
        assert_eq!(room(&[MEMINFO], 4), (1000 << 10, each));
    }

    #[test]
    fn no_more_is_taken_than_is_promised() {
        let status = ("proc/self/status", "VmData:\t 900 kB\nVmStk:\t 90 kB\n");
        let policy = |value| ("proc/sys/vm/overcommit_memory", value);
        assert_eq!(room(&[MEMINFO, status, policy("0\n")], 1).0, 4000 << 10);
        let (bytes, limit) = room(&[MEMINFO, status, policy("2\n")], 1);
        assert_eq!((bytes, limit.contains("CommitLimit")), (1000 << 10, true));
        let large = ("proc/self/status", "VmData:\t 1900 kB\nVmStk:\t 90 kB\n");
        assert_eq!(room(&[MEMINFO, large, policy("2\n")], 1).0, 0);
    }

    #[test]
    fn groups_of_both_versions_limit_what_is_in_them() {
        let second = [
            MEMINFO,
            ("proc/self/cgroup", "0::/job/step\n"),
            ("sys/fs/cgroup/job/memory.max", "1000000\n"),
            ("sys/fs/cgroup/job/memory.current", "900000\n"),
            (
                "sys/fs/cgroup/job/memory.stat",
                "anon 5\ninactive_file 50000\n",
            ),
            ("sys/fs/cgroup/job/step/memory.max", "max\n"),
            ("sys/fs/cgroup/job/step/memory.current", "900000\n"),
        ];
        assert_eq!(room(&second, 1), (150_000, "control group /job".to_owned()));
        let first = [
            MEMINFO,
            ("proc/self/cgroup", "5:cpu:/\n4:memory:/elsewhere\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "70000\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "60000\n"),
        ];
        assert_eq!(room(&first, 1), (10_000, "control group /".to_owned()));
    }
}
