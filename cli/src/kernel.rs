//! What the kernel must offer.
//!
//! # Safety
//! prctl and membarrier are asked what they can do; neither touches memory of this process.
#![allow(unsafe_code)]

use anyhow::{bail, Result};

const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
const MEMBARRIER_QUERY: i32 = 0;
const MEMBARRIER_PRIVATE_EXPEDITED: i64 = 1 << 3;

/// The kernel's release, as `uname -r` prints it.
pub fn release() -> String {
    let text = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_owned()
}

/// Syscall User Dispatch, without which no upper half can be run.
pub fn check_dispatch() -> Result<()> {
    // SAFETY: switching it off for this thread, where it is off already.
    let result = unsafe { libc::prctl(PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0) };
    if result != 0 {
        bail!(
            "this kernel ({}) does not offer Syscall User Dispatch ({}), with which Stasis serves the \
             program's system calls: use Linux 5.11 or later, on x86-64, outside of sandboxes that \
             forbid prctl(PR_SET_SYSCALL_USER_DISPATCH)",
            release(),
            std::io::Error::last_os_error()
        );
    }
    Ok(())
}

/// membarrier, without which no checkpoint can be taken.
pub fn check_membarrier() -> Result<()> {
    // SAFETY: a query.
    let offered = unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_QUERY, 0, 0) };
    if offered < 0 || offered & MEMBARRIER_PRIVATE_EXPEDITED == 0 {
        bail!(
            "this kernel ({}) does not offer membarrier(PRIVATE_EXPEDITED): use Linux 4.14 or later",
            release()
        );
    }
    Ok(())
}
