//! Kernel features that Stasis needs.
//!
//! # Safety
//! prctl, seccomp and membarrier only report their features; none changes memory of this process.
#![allow(unsafe_code)]

use anyhow::{bail, Context, Result};
use nix::sys::resource::{getrlimit, Resource, RLIM_INFINITY};

/// The kernel's release, as `uname -r` prints it.
pub fn release() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_owned()
}

/// Whether the executable gave this process more privileges than its caller has (AT_SECURE).
pub fn gives_privileges() -> bool {
    // SAFETY: getauxval only reads the auxiliary vector.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// How the kernel hands the program's system calls to Stasis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trap {
    /// Syscall User Dispatch.
    Dispatch,
    /// A seccomp filter.
    Filter,
}

/// Makes a system call whose arguments are numbers, or addresses of what the kernel reads.
fn ask(call: i64, arguments: [usize; 3]) -> std::io::Result<()> {
    let [first, second, third] = arguments;
    // SAFETY: see the head of this file. The callers' locals live as long as the call.
    match unsafe { libc::syscall(call, first, second, third, 0, 0) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Checks for Syscall User Dispatch or seccomp filters. Every upper half needs one of them.
pub fn check_trap() -> Result<Trap> {
    // Dispatch is switched off for this thread, which has never switched it on.
    let option = contract::PR_SET_SYSCALL_USER_DISPATCH as usize;
    let Err(why) = ask(libc::SYS_prctl, [option, 0, 0]) else {
        return Ok(Trap::Dispatch);
    };
    let action = libc::SECCOMP_RET_TRAP;
    let operation = libc::SECCOMP_GET_ACTION_AVAIL as usize;
    match ask(libc::SYS_seccomp, [operation, 0, &raw const action as usize]) {
        Ok(()) => Ok(Trap::Filter),
        Err(filter) => bail!(
            "this kernel ({}) offers neither Syscall User Dispatch ({why}) nor seccomp filters ({filter}), with one of \
             which Stasis serves the program's system calls: use Linux 5.11 or later, or one with \
             CONFIG_SECCOMP_FILTER, on x86-64, outside of sandboxes that forbid both",
            release()
        ),
    }
}

/// Checks for what checkpoints and restarts read of /proc beside processes. Some containers hide it.
pub fn check_proc() -> Result<()> {
    for file in ["/proc/sys/kernel/random/boot_id", "/proc/cpuinfo"] {
        std::fs::read(file).with_context(|| {
            format!(
                "{file} cannot be read, so that no checkpoint can be taken: let the container show the whole of /proc"
            )
        })?;
    }
    Ok(())
}

/// Whether the administrator has switched Syscall User Dispatch off.
pub fn dispatch_is_off() -> bool {
    let sysctl = std::fs::read_to_string("/proc/sys/kernel/syscall_user_dispatch");
    sysctl.is_ok_and(|sysctl| sysctl.trim() == "0")
}

/// Whether Yama forbids a process to read the memory of its child, with which images are written while the job runs.
pub fn forbids_reading_children() -> Option<u32> {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").ok()?;
    let scope = scope.trim().parse().ok()?;
    match scope {
        0 | 1 => None,
        2 if may_trace() => None,
        _ => Some(scope),
    }
}

/// Whether this process has CAP_SYS_PTRACE.
fn may_trace() -> bool {
    const CAP_SYS_PTRACE: u32 = 19;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    effective.is_some_and(|all| all >> CAP_SYS_PTRACE & 1 != 0)
}

/// Checks for membarrier, which every checkpoint needs.
pub fn check_membarrier() -> Result<()> {
    // SAFETY: MEMBARRIER_CMD_QUERY only returns the supported commands.
    let offered = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_QUERY, 0, 0) };
    let needed = i64::from(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    if offered < 0 || offered & needed == 0 {
        bail!(
            "this kernel ({}) does not offer membarrier(PRIVATE_EXPEDITED): use Linux 4.14 or later",
            release()
        );
    }
    Ok(())
}

/// Whether user mode may write the FS base (Linux 5.9). Every crossing into the lower half writes it twice, with system
/// calls if need be.
pub fn writes_thread_pointer() -> bool {
    const FSGSBASE: u64 = 1 << 1; // arch/x86/include/uapi/asm/hwcap2.h
                                  // SAFETY: getauxval only reads the auxiliary vector.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & FSGSBASE != 0 }
}

/// Why increments need digests here, by the probe that a job makes itself: the kernel's release does not tell what a
/// distribution has added or a container forbids.
pub fn needs_digests() -> Option<String> {
    match dump::DirtyTracker::start() {
        Ok(tracker) => tracker.unwatched().map(str::to_owned),
        Err(why) => Some(why),
    }
}

/// Whether the kernel refuses to overcommit memory. A forked copy of a process then counts in full.
pub fn promises_strictly() -> bool {
    let policy = std::fs::read_to_string("/proc/sys/vm/overcommit_memory");
    policy.is_ok_and(|policy| policy.trim() == "2")
}

/// Limit of a process's address space (RLIMIT_AS) in bytes, if there is one.
pub fn address_limit() -> Option<u64> {
    let (soft, _) = getrlimit(Resource::RLIMIT_AS).ok()?;
    (soft != RLIM_INFINITY).then_some(soft)
}
