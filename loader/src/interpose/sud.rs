//! Syscall User Dispatch: every system call made from code below 16 TiB raises SIGSYS instead.
//!
//! The allowed range is everything from 16 TiB up, so lower-half code is unaffected. The setting is per thread and not
//! inherited.

use crate::error::LoadError;
use crate::sys::syscall;
use contract::{ARENA_END, PR_SET_SYSCALL_USER_DISPATCH};

const OPTION: usize = PR_SET_SYSCALL_USER_DISPATCH as usize;
const ON: usize = 1;
const OFF: usize = 0;
const END_OF_USER_SPACE: usize = 0x7fff_ffff_f000;

fn set(on: bool) -> isize {
    let args = if on {
        [OPTION, ON, ARENA_END, END_OF_USER_SPACE - ARENA_END, 0, 0]
    } else {
        [OPTION, OFF, 0, 0, 0, 0]
    };
    syscall::plain(libc::SYS_prctl, args)
}

/// Traps the calling thread's system calls from upper-half code from now on.
pub fn arm() {
    set(true);
}

/// Ends the trapping for the calling thread.
pub fn disarm() {
    set(false);
}

/// Returns an error if the kernel does not support it.
pub fn probe() -> Result<(), LoadError> {
    let result = set(true);
    if syscall::is_err(result) {
        return Err(LoadError::NoSyscallUserDispatch {
            source: syscall::io_error(result),
        });
    }
    disarm();
    Ok(())
}
