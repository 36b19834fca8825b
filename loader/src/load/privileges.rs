//! Privileges by setuid and setgid bits and file capabilities. The kernel gives them to a file that it executes. The
//! application is not executed by the kernel, so it never gets them. The programs of Stasis must not have them, because
//! they load any file that their caller names.
//!
//! # Safety
//! The kernel reads a name and returns a length.
#![allow(unsafe_code)]

use super::elf::Elf;
use crate::error::LoadError;
use crate::sys::c_library;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

/// Refuses to run with more privileges than the caller has.
///
/// # Errors
/// [`LoadError::Privileged`] if the kernel has given this process more.
pub fn refuse_privileges() -> Result<(), LoadError> {
    match c_library::getauxval(libc::AT_SECURE) {
        0 => Ok(()),
        _ => Err(LoadError::Privileged),
    }
}

/// Privileges that a native execve of the program would give, but this does not.
pub fn of(elf: &Elf) -> Option<String> {
    let facts = elf.file.metadata().ok()?;
    let (user, group) = (c_library::geteuid(), c_library::getegid());
    let has = |bits| facts.mode() & bits == bits;
    let mut kinds = Vec::new();
    if has(libc::S_ISUID) && facts.uid() != user {
        kinds.push(format!("its setuid bit (of user {})", facts.uid()));
    }
    if has(libc::S_ISGID | libc::S_IXGRP) && facts.gid() != group {
        kinds.push(format!("its setgid bit (of group {})", facts.gid()));
    }
    let capabilities = c"security.capability".as_ptr();
    // SAFETY: the kernel reads the C string, and writes nothing to a buffer of length 0.
    if unsafe { libc::fgetxattr(elf.file.as_raw_fd(), capabilities, std::ptr::null_mut(), 0) } > 0 {
        kinds.push("its file's capabilities".to_owned());
    }
    (!kinds.is_empty()).then(|| {
        format!(
            "{} runs without {}, with the privileges of the user who has started the job: Stasis maps it, \
             and the kernel gives these only to what it executes itself",
            elf.path.display(),
            kinds.join(" and ")
        )
    })
}
