//! The memory budget for copies of pages. While the copy of a process is being written, each page that the process
//! changes exists twice; in the worst case all pages do. If they might not fit, the job is stopped until the image is
//! written. This costs time, but running out of memory would kill the job.

use std::fs;
use std::path::{Path, PathBuf};

/// The memory that copies may take, and the limit that determines it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryBudget {
    /// Bytes for this process.
    pub bytes: u64,
    /// The tightest of all limits, for people.
    pub limit: String,
}

impl MemoryBudget {
    /// The budget of one of several processes on this machine that copy at the same time.
    pub fn for_each_of(processes: u32) -> MemoryBudget {
        MemoryBudget::from_root(Path::new("/"), processes)
    }

    /// The same for copies that stay for a long time.
    pub fn for_each_held_of(processes: u32) -> MemoryBudget {
        MemoryBudget::held_from_root(Path::new("/"), processes)
    }

    /// Under strict accounting a copy is charged for all its writable memory for as long as it is there, and the
    /// program might get less than it would without.
    fn held_from_root(root: &Path, processes: u32) -> MemoryBudget {
        match is_strict(root) {
            true => MemoryBudget::zero(
                "the kernel promises no more than it has, overcommit_memory is 2",
            ),
            false => MemoryBudget::from_root(root, processes),
        }
    }

    /// No memory at all, because of `limit`.
    pub fn zero(limit: &str) -> MemoryBudget {
        MemoryBudget {
            bytes: 0,
            limit: limit.to_owned(),
        }
    }

    /// The same with the files of the kernel below `root`.
    fn from_root(root: &Path, processes: u32) -> MemoryBudget {
        let processes = u64::from(processes.max(1));
        let limits = available(root).into_iter().chain(strict(root));
        let limits = limits
            .chain(groups(root))
            .map(|(bytes, limit)| MemoryBudget {
                bytes: bytes / processes,
                limit: match processes {
                    1 => limit,
                    all => format!("{limit}, for each of {all} processes"),
                },
            });
        limits
            .min_by_key(|budget| budget.bytes)
            .unwrap_or(MemoryBudget {
                bytes: u64::MAX,
                limit: "no limit is known".to_owned(),
            })
    }
}

/// Memory that is available without swapping.
fn available(root: &Path) -> Option<(u64, String)> {
    let bytes = field(&root.join("proc/meminfo"), "MemAvailable:")? << 10;
    Some((bytes, "MemAvailable in /proc/meminfo".to_owned()))
}

/// The budget under strict overcommit accounting (`overcommit_memory` 2). There, a copy is charged at once for all its
/// writable memory, and the job could allocate no more meanwhile. So the budget is half of the remaining memory.
fn strict(root: &Path) -> Option<(u64, String)> {
    if !is_strict(root) {
        return None;
    }
    let meminfo = root.join("proc/meminfo");
    let left = field(&meminfo, "CommitLimit:")?.saturating_sub(field(&meminfo, "Committed_AS:")?);
    let status = root.join("proc/self/status");
    let own = field(&status, "VmData:")? + field(&status, "VmStk:")?;
    let bytes = if own > left / 2 { 0 } else { left / 2 } << 10;
    Some((bytes, "CommitLimit in /proc/meminfo".to_owned()))
}

fn is_strict(root: &Path) -> bool {
    let policy = fs::read_to_string(root.join("proc/sys/vm/overcommit_memory"));
    policy.is_ok_and(|policy| policy.trim() == "2")
}

/// Remaining memory of the process's memory control group and of the groups above it. Pages of files count as free,
/// because they can be dropped.
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
        // In a container the path may not exist. Its own group is then at the mount.
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

    fn budget_of(files: &[(&str, &str)], processes: u32) -> (u64, String) {
        let root = kernel(files);
        let budget = MemoryBudget::from_root(root.path(), processes);
        (budget.bytes, budget.limit)
    }

    #[test]
    fn processes_share_what_is_available() {
        let free = "MemAvailable in /proc/meminfo";
        assert_eq!(budget_of(&[MEMINFO], 1), (4000 << 10, free.to_owned()));
        let each = format!("{free}, for each of 4 processes");
        assert_eq!(budget_of(&[MEMINFO], 4), (1000 << 10, each));
    }

    #[test]
    fn no_more_is_taken_than_is_promised() {
        let status = ("proc/self/status", "VmData:\t 900 kB\nVmStk:\t 90 kB\n");
        let policy = |value| ("proc/sys/vm/overcommit_memory", value);
        assert_eq!(
            budget_of(&[MEMINFO, status, policy("0\n")], 1).0,
            4000 << 10
        );
        let (bytes, limit) = budget_of(&[MEMINFO, status, policy("2\n")], 1);
        assert_eq!((bytes, limit.contains("CommitLimit")), (1000 << 10, true));
        let root = kernel(&[MEMINFO, status, policy("2\n")]);
        assert_eq!(MemoryBudget::held_from_root(root.path(), 1).bytes, 0);
        let large = ("proc/self/status", "VmData:\t 1900 kB\nVmStk:\t 90 kB\n");
        assert_eq!(budget_of(&[MEMINFO, large, policy("2\n")], 1).0, 0);
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
        assert_eq!(
            budget_of(&second, 1),
            (150_000, "control group /job".to_owned())
        );
        let first = [
            MEMINFO,
            ("proc/self/cgroup", "5:cpu:/\n4:memory:/elsewhere\n0::/\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "70000\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "60000\n"),
        ];
        assert_eq!(budget_of(&first, 1), (10_000, "control group /".to_owned()));
    }
}
