//! Privileges that the kernel gives to whoever executes a file: by its setuid or setgid bit, or its
//! capabilities. The kernel does not execute the application, so it never gets them; and what is made of
//! Stasis itself must not have them, for it loads whatever its caller names.
//!
//! # Safety
//! The kernel reads a name and tells a length; `getauxval`, `geteuid` and `getegid` only read.
#![allow(unsafe_code)]

use crate::elf::Elf;
use crate::error::LoadError;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

/// Refuses to run with more privileges than the caller has.
pub fn refuse_privileges() -> Result<(), LoadError> {
    // SAFETY: see the module's head.
    match unsafe { libc::getauxval(libc::AT_SECURE) } {
        0 => Ok(()),
        _ => Err(LoadError::Privileged),
    }
}

/// What executing the program natively would give, and does not give here.
pub fn of(elf: &Elf) -> Option<String> {
    let facts = elf.file.metadata().ok()?;
    // SAFETY: see the module's head.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let has = |bits| facts.mode() & bits == bits;
    let mut kinds = Vec::new();
    if has(libc::S_ISUID) && facts.uid() != user {
        kinds.push(format!("its setuid bit (of user {})", facts.uid()));
    }
    if has(libc::S_ISGID | libc::S_IXGRP) && facts.gid() != group {
        kinds.push(format!("its setgid bit (of group {})", facts.gid()));
    }
    let capabilities = c"security.capability".as_ptr();
    // SAFETY: see the module's head; nothing is written to a buffer of length 0.
    if unsafe { libc::fgetxattr(elf.file.as_raw_fd(), capabilities, std::ptr::null_mut(), 0) } > 0 {
        kinds.push("its file's capabilities".to_owned());
    }
    (!kinds.is_empty()).then(|| {
        format!(
            "{} runs without {}, with the privileges of whoever has started the job: Stasis maps it, \
             and the kernel gives these only to what it executes itself",
            elf.path.display(),
            kinds.join(" and ")
        )
    })
}
