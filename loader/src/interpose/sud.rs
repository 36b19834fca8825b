//! The trap: every system call made from code below 16 TiB raises SIGSYS instead. By Syscall User Dispatch, or where
//! the kernel has none by a seccomp filter (`syscall_filter.rs`).
//!
//! With Syscall User Dispatch the allowed range is everything from 16 TiB up, so lower-half code is unaffected. The
//! setting is per thread and not inherited. A filter is inherited and stays.

use super::syscall_filter;
use crate::error::LoadError;
use crate::sys::syscall;
use contract::{ARENA_END, PR_SET_SYSCALL_USER_DISPATCH};
use core::sync::atomic::{AtomicU32, Ordering};

const OPTION: usize = PR_SET_SYSCALL_USER_DISPATCH as usize;
const ON: usize = 1;
const OFF: usize = 0;
const END_OF_USER_SPACE: usize = 0x7fff_ffff_f000;
/// Variable in the environment with which the kernel seems to have no Syscall User Dispatch.
const SWITCH: &str = "STASIS_NO_SYSCALL_DISPATCH";

/// Not 0 if a filter is in use. The child of a vfork reads it, too.
pub static BY_FILTER: AtomicU32 = AtomicU32::new(0);

fn set(on: bool) -> isize {
    let args = if on {
        [OPTION, ON, ARENA_END, END_OF_USER_SPACE - ARENA_END, 0, 0]
    } else {
        [OPTION, OFF, 0, 0, 0, 0]
    };
    syscall::plain(libc::SYS_prctl, args)
}

fn by_filter() -> bool {
    BY_FILTER.load(Ordering::Relaxed) != 0
}

/// Traps the calling thread's system calls from upper-half code from now on.
pub fn arm() {
    if !by_filter() {
        set(true);
    }
}

/// Ends the trapping for the calling thread, which runs no more upper-half code.
pub fn disarm() {
    if !by_filter() {
        set(false);
    }
}

/// Chooses the way to trap. With a filter, the calling thread's calls are trapped from now on, and those of all threads
/// that it makes. Returns an error if the kernel supports neither.
pub fn probe() -> Result<(), LoadError> {
    let forced = std::env::var_os(SWITCH).is_some_and(|value| value == "1");
    let result = match forced {
        true => syscall::err(libc::EINVAL),
        false => set(true),
    };
    if !syscall::is_err(result) {
        disarm();
        return Ok(());
    }
    syscall_filter::trap_arena().map_err(|filter| LoadError::NoTrap {
        dispatch: syscall::io_error(result),
        filter,
    })?;
    BY_FILTER.store(1, Ordering::Relaxed);
    Ok(())
}

/// Traps the calls of a program that is linked for fixed addresses, below the arena.
pub fn trap_fixed_program() -> Result<(), LoadError> {
    match by_filter() {
        true => syscall_filter::trap_below().map_err(|source| LoadError::System {
            what: "setting a second seccomp filter",
            source,
        }),
        false => Ok(()),
    }
}
