//! Memory of windows that other ranks on this node hold, mapped here for direct access.
//!
//! # Safety
//! A mapping is new, at an address of the kernel's choice, and only its first eight bytes are read here. It is removed
//! by its owner in the upper half.
#![allow(unsafe_code)]

use core::num::NonZeroUsize;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use std::fs::{self, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use nix::sys::mman::{mmap, munmap, MapFlags, ProtFlags};

/// Variable that, with the value `library`, leaves the windows to the MPI library even where all members are on one node.
const VARIABLE: &str = "STASIS_WINDOWS";

/// Whether members of a window may map the memory of others.
fn is_wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| match std::env::var(VARIABLE).as_deref() {
        Err(std::env::VarError::NotPresent) => true,
        Ok("library") => false,
        other => {
            super::service::say(
                format!("{VARIABLE} is {other:?}, and can only be 'library'; it is ignored").as_bytes(),
            );
            true
        }
    })
}

/// Maps the memory; `None` if it is not what the other rank meant: its numbers may name another process where the ranks
/// are on several nodes, or in containers with process ids of their own.
pub fn map(process: i32, descriptor: i32, bytes: usize, mark: u64) -> Option<usize> {
    if !is_wanted() {
        return None;
    }
    let path = format!("/proc/{process}/fd/{descriptor}");
    // To open what is no memory might wait, or have effects.
    let target = fs::read_link(&path).ok()?;
    let target = target.as_os_str().as_bytes().strip_prefix(b"/memfd:")?;
    if !target.starts_with(contract::WINDOW_MEMORY.to_bytes()) {
        return None;
    }
    let file = OpenOptions::new().read(true).write(true).open(path).ok()?;
    if file.metadata().ok()?.len() < bytes as u64 {
        return None;
    }
    let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    let length = NonZeroUsize::new(bytes)?;
    // SAFETY: see the head.
    let address = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, &file, 0) }.ok()?;
    // SAFETY: the file has at least a page, as every window's memory.
    let found = unsafe { address.cast::<AtomicU64>().as_ref() }.load(Ordering::Acquire);
    if found != mark {
        // SAFETY: the mapping from above.
        unsafe { unmap(address.as_ptr() as usize, bytes) };
        return None;
    }
    Some(address.as_ptr() as usize)
}

/// Removes a mapping.
///
/// # Safety
/// It is one of [`map`], and nothing uses it any more.
pub unsafe fn unmap(address: usize, bytes: usize) {
    if let Some(start) = NonNull::new(address as *mut core::ffi::c_void) {
        // SAFETY: the caller's promise.
        let _ = unsafe { munmap(start, bytes) };
    }
}
