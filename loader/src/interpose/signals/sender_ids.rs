//! Ids in a signal's information: conversion between the kernel's ids of this process and its timers and those of the
//! application.

use crate::interpose::{posix_timers, threads};
use crate::sys::context::SigInfo;

/// Whether `sender` is a process id.
fn sent_by_process(code: i32) -> bool {
    matches!(code, libc::SI_USER | libc::SI_QUEUE | libc::SI_TKILL)
}

/// Replaces the kernel's ids of this process and its timers by the application's.
pub fn with_own_ids(mut info: SigInfo) -> SigInfo {
    if sent_by_process(info.code) && info.sender as u32 == threads::real_pid() {
        info.sender = threads::virtual_pid() as i32;
    } else if info.code == libc::SI_TIMER {
        info.sender = posix_timers::application_id(info.sender).unwrap_or(info.sender);
    }
    info
}

/// The reverse of [`with_own_ids`].
pub fn with_kernel_ids(mut info: SigInfo) -> SigInfo {
    if sent_by_process(info.code) && info.sender as u32 == threads::virtual_pid() {
        info.sender = threads::real_pid() as i32;
    } else if info.code == libc::SI_TIMER {
        info.sender = posix_timers::kernel_id(info.sender).unwrap_or(info.sender);
    }
    info
}
