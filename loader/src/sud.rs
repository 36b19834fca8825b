//! Syscall User Dispatch: every system call made from code below 16 TiB raises SIGSYS instead.
//!
//! The allowed range is everything from 16 TiB up, so lower-half code runs as if nothing were.
//! The setting is per thread and not inherited.

use crate::error::LoadError;
use crate::raw;
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
    raw::plain(libc::SYS_prctl, args)
}

/// From now on the calling thread's system calls from upper-half code are trapped.
pub fn arm() {
    set(true);
}

/// Back to normal for the calling thread.
pub fn disarm() {
    set(false);
}

/// Says whether the kernel can do it.
pub fn probe() -> Result<(), LoadError> {
    let result = set(true);
    if raw::is_err(result) {
        return Err(LoadError::NoSyscallUserDispatch {
            source: raw::io_error(result),
        });
    }
    disarm();
    Ok(())
}
