//! A seccomp filter that raises SIGSYS for system calls of upper-half code, for kernels without Syscall User Dispatch.
//!
//! It looks at the address of the instruction alone, so the lower half's calls pass. It holds for the thread and for
//! all threads and processes that this makes, can never be taken off, and stays across an exec. So it traps only
//! addresses at which programs that run natively have no code: the arena. The kernel places them above 16 TiB. Only a
//! program that is linked for fixed addresses is lower. If the rank's program is one, a second filter traps these
//! addresses; then a child that executes such a program without a dynamic linker dies of SIGSYS at its first call.
//!
//! Without privileges the kernel takes a filter only of a process that can gain none (`no_new_privs`): a setuid program
//! that a child executes then runs as its caller.

use crate::sys::syscall;
use contract::{ARENA_END, ARENA_START};
use libc::{sock_filter, BPF_ABS, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};
use std::io;

/// Architecture of 64-bit programs. From `<linux/audit.h>`.
const X86_64: u32 = 0xc000_003e;
/// Offsets in `struct seccomp_data`: the architecture, and the upper half of the instruction's address.
const ARCHITECTURE: u32 = 4;
const ADDRESS_HIGH: u32 = 12;

const _: () = assert!(ARENA_START as u32 == 0 && ARENA_END as u32 == 0);

fn load(offset: u32) -> sock_filter {
    step(BPF_LD | BPF_W | BPF_ABS, offset, 0, 0)
}

fn jump(test: u32, value: u32, then: u8, otherwise: u8) -> sock_filter {
    step(BPF_JMP | test | BPF_K, value, then, otherwise)
}

fn result(value: u32) -> sock_filter {
    step(BPF_RET | BPF_K, value, 0, 0)
}

fn step(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

/// Traps calls from the arena, in this thread and in all that come from it.
pub fn trap_arena() -> io::Result<()> {
    trap_from(ARENA_START)
}

/// Traps calls from below the arena, too.
pub fn trap_below() -> io::Result<()> {
    trap_from(0)
}

/// Traps calls from `start` to the end of the arena.
fn trap_from(start: usize) -> io::Result<()> {
    let filter = [
        load(ARCHITECTURE),
        jump(BPF_JEQ, X86_64, 0, 3),
        load(ADDRESS_HIGH),
        jump(BPF_JGE, (ARENA_END >> 32) as u32, 1, 0),
        jump(BPF_JGE, (start >> 32) as u32, 1, 0),
        result(libc::SECCOMP_RET_ALLOW),
        result(libc::SECCOMP_RET_TRAP),
    ];
    let mut done = syscall::set_filter(&filter);
    if done == syscall::err(libc::EACCES) {
        let args = [libc::PR_SET_NO_NEW_PRIVS as usize, 1, 0, 0, 0, 0];
        syscall::plain(libc::SYS_prctl, args);
        done = syscall::set_filter(&filter);
    }
    match syscall::is_err(done) {
        true => Err(syscall::io_error(done)),
        false => Ok(()),
    }
}
