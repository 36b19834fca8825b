//! `execve`. In the rank's own process the lower half is executed again, with the new program as its argument, so that
//! the rank stays under Stasis. Children execute their programs natively, unless they are followed
//! (`followed_children.rs`).
//!
//! # Safety
//! Argument vectors are the application's; the new ones are built in a fresh mapping.
#![allow(unsafe_code)]

use super::path_redirect::is_own_exe;
use super::{Call, Handler, Outcome};
use crate::interpose::descriptors::fd_owner;
use crate::interpose::{followed_children, hooks};
use crate::load::program_info;
use crate::sys::syscall::{self, err, is_err};
use crate::sys::user_copy;
use core::ffi::CStr;
use std::ffi::CString;

pub const HANDLERS: &[(i64, Handler)] = &[
    // The lower half is executed again with the new program, so that the rank stays under Stasis; children run
    // natively, unless they are followed.
    (libc::SYS_execve, execve),
    (libc::SYS_execveat, execveat),
];

/// Environment variable with the new program's `argv[0]`.
pub const ARGV0: &CStr = c"STASIS_ARGV0=";
/// Environment variable with the numbers of the application's descriptors.
pub const OWNED: &CStr = c"STASIS_OWNED_FDS=";

fn execve(call: &mut Call) -> Outcome {
    let mut args = call.args();
    let Some(mut path) = user_copy::path(args[0]) else {
        return call.pass();
    };
    if is_own_exe(path) {
        path = program_info::program();
        args[0] = path.as_ptr() as usize;
    }
    let wrapped = || {
        let followed = || followed_children::is_followed(path, args[1], args[2]);
        call.in_rank() || (check(call, path) == 0 && followed())
    };
    match hooks::exec_prefix().filter(|_| wrapped()) {
        Some(prefix) => Outcome::Value(exec_wrapped(call, prefix, path, args)),
        None => Outcome::Value(call.kernel(libc::SYS_execve, args)),
    }
}

fn execveat(call: &mut Call) -> Outcome {
    let [directory, path, argv, envp, flags, _] = call.args();
    let absolute = user_copy::path(path).is_some_and(|p| p.to_bytes().starts_with(b"/"));
    if flags == 0 && (absolute || directory as i32 == libc::AT_FDCWD) {
        let mut frame = *call.frame();
        frame.regs.rdi = path;
        frame.regs.rsi = argv;
        frame.regs.rdx = envp;
        return execve(&mut Call::new(&raw mut frame, call.thread));
    }
    call.pass()
}

/// Result of the kernel's check of an execve of this file: 0 or an error.
fn check(call: &Call, path: &CStr) -> isize {
    let at = [libc::AT_FDCWD as usize, path.as_ptr() as usize];
    let allowed = call.kernel(
        libc::SYS_faccessat,
        [at[0], at[1], libc::X_OK as usize, 0, 0, 0],
    );
    if is_err(allowed) {
        return allowed;
    }
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    let fd = call.kernel(libc::SYS_openat, [at[0], at[1], flags, 0, 0, 0]);
    if is_err(fd) {
        return fd;
    }
    let mut head = [0u8; 4];
    let got = call.kernel(
        libc::SYS_read,
        [fd as usize, head.as_mut_ptr() as usize, 4, 0, 0, 0],
    );
    syscall::plain(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]);
    match core::hint::black_box(head) {
        _ if got == err(libc::EISDIR) => err(libc::EACCES),
        [0x7f, b'E', b'L', b'F'] | [b'#', b'!', ..] => 0,
        _ => err(libc::ENOEXEC),
    }
}

fn count(vector: usize) -> Result<usize, user_copy::Fault> {
    if vector == 0 {
        return Ok(0);
    }
    let mut n = 0;
    while user_copy::read::<usize>(vector + n * 8)? != 0 {
        n += 1;
    }
    Ok(n)
}

/// A bump allocator over a fresh mapping.
struct Space {
    at: usize,
    end: usize,
}

impl Space {
    fn put(&mut self, bytes: &[u8]) -> usize {
        let start = self.at;
        if start + bytes.len() < self.end {
            // SAFETY: the bytes were reserved in this mapping just now.
            unsafe {
                core::ptr::copy_nonoverlapping(bytes.as_ptr(), start as *mut u8, bytes.len())
            };
            self.at += bytes.len();
        }
        start
    }

    fn number(&mut self, mut n: i32) {
        let mut digits = [0u8; 10];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (n % 10) as u8;
            n /= 10;
            if n == 0 {
                break;
            }
        }
        self.put(&digits[at..]);
    }
}

fn exec_wrapped(call: &Call, prefix: &[CString], path: &CStr, args: [usize; 6]) -> isize {
    const TEXT: usize = 256 * 1024;
    let verdict = check(call, path);
    if verdict != 0 {
        return verdict;
    }
    if call.in_rank() {
        hooks::executes(call.thread);
    }
    let (Ok(argc), Ok(envc)) = (count(args[1]), count(args[2])) else {
        return err(libc::EFAULT);
    };
    let words = prefix.len() + argc + envc + 9;
    let bytes = (words * 8 + TEXT + 4095) & !4095;
    let prot = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    let room = call.kernel(libc::SYS_mmap, [0, bytes, prot, flags, usize::MAX, 0]);
    if is_err(room) {
        return room;
    }
    let room = room as usize;
    let mut text = Space {
        at: room + words * 8,
        end: room + bytes,
    };
    let mut next = room;
    let mut push = |word: usize| {
        // SAFETY: the word was reserved in this mapping just now.
        unsafe { (next as *mut usize).write(word) };
        next += 8;
    };
    for part in prefix {
        push(part.as_ptr() as usize);
    }
    push(path.as_ptr() as usize);
    for i in 1..argc {
        push(call.read(args[1] + i * 8));
    }
    push(0);
    let environment = room + (prefix.len() + argc.max(1) + 1) * 8;
    for i in 0..envc {
        push(call.read(args[2] + i * 8));
    }
    let argv0 = user_copy::path(if argc > 0 { call.read(args[1]) } else { 0 }).unwrap_or(path);
    push(text.put(ARGV0.to_bytes()));
    text.put(argv0.to_bytes_with_nul());
    push(text.put(OWNED.to_bytes()));
    for fd in fd_owner::owned(0, i32::MAX) {
        let facts = syscall::plain(
            libc::SYS_fcntl,
            [fd as usize, libc::F_GETFD as usize, 0, 0, 0, 0],
        );
        if facts == 0 {
            text.number(fd);
            text.put(b",");
        }
    }
    text.put(b"\0");
    let wrapper = match call.in_rank() {
        true => hooks::started_by(),
        false => hooks::wrapper(),
    };
    if let Some(wrapper) = wrapper {
        push(wrapper.as_ptr() as usize);
    }
    push(0);
    let result = call.kernel(
        libc::SYS_execve,
        [prefix[0].as_ptr() as usize, room, environment, 0, 0, 0],
    );
    syscall::plain(libc::SYS_munmap, [room, bytes, 0, 0, 0, 0]);
    result
}
