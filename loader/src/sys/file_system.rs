//! File system of a file, by its magic number.

use super::{c_library, zeros};
use std::path::Path;

fn facts(fd: i32) -> Option<libc::statfs> {
    let mut facts = zeros::value();
    (c_library::fstatfs(fd, &mut facts) == 0).then_some(facts)
}

/// Magic number of a file's file system.
pub fn file_system(fd: i32) -> i64 {
    facts(fd).map_or(0, |facts| facts.f_type)
}

/// Whether the file system of a descriptor is full.
pub fn is_full(fd: i32) -> bool {
    facts(fd).is_some_and(|facts| facts.f_bavail == 0)
}

/// Magic number of the file system at a path; 0 if unknown.
pub fn file_system_of(path: &Path) -> u64 {
    nix::sys::statfs::statfs(path).map_or(0, |facts| facts.filesystem_type().0 as u64)
}

/// File systems whose files the kernel generates when they are read.
const MADE_UP: [i64; 8] = [
    libc::PROC_SUPER_MAGIC,
    libc::SYSFS_MAGIC,
    libc::CGROUP_SUPER_MAGIC,
    libc::CGROUP2_SUPER_MAGIC,
    libc::DEBUGFS_MAGIC,
    libc::TRACEFS_MAGIC,
    libc::SECURITYFS_MAGIC,
    libc::SELINUX_MAGIC,
];

/// Whether the kernel generates the file's content when it is read.
pub fn is_made_up(fd: i32) -> bool {
    MADE_UP.contains(&file_system(fd))
}

/// Whether the file is a POSIX message queue.
pub fn is_message_queue(fd: i32) -> bool {
    /// As in the kernel's `ipc/mqueue.c`; libc does not define it.
    const MQUEUE_MAGIC: i64 = 0x1980_0202;
    file_system(fd) == MQUEUE_MAGIC
}
