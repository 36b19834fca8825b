//! A child of a rank that executes a program may be what the rank was started for: a script runs `mpirun`'s
//! program without `exec`. Before it executes anything, it asks the lower half of the rank's process whether
//! that is to be an upper half; a thread there looks at the program's file.
//!
//! The child is forked, or made by vfork, and shares a page with that thread. It waits for the answer as it
//! waits for the disk when it executes a program, and does without one when the process is gone.
//!
//! # Safety
//! The page is mapped once and never unmapped. Its words are atomics; its texts are written by the child that
//! holds `asker`, and read by the thread while `state` is ASKED.
#![allow(unsafe_code)]

use crate::{raw, user};
use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

const IDLE: u32 = 0;
const ASKED: u32 = 1;
const NATIVE: u32 = 2;
const FOLLOWED: u32 = 3;

/// Longest text that is passed on, with its end.
const TEXT: usize = 4096;
/// How often it is looked whether the other side still lives.
const LOOK_NS: u64 = 50_000_000;

#[repr(C)]
struct Board {
    /// The process that the thread is in.
    owner: AtomicU32,
    /// The child that asks, or 0.
    asker: AtomicU32,
    /// One of the states above.
    state: AtomicU32,
    program: UnsafeCell<[u8; TEXT]>,
    /// One behind the other, each with its end, and an empty one behind them.
    arguments: UnsafeCell<[u8; TEXT]>,
    search_path: UnsafeCell<[u8; TEXT]>,
    library_path: UnsafeCell<[u8; TEXT]>,
}

// SAFETY: see the module's head.
unsafe impl Sync for Board {}

static BOARD: AtomicPtr<Board> = AtomicPtr::new(core::ptr::null_mut());

fn board() -> Option<&'static Board> {
    // SAFETY: null or the page.
    unsafe { BOARD.load(Ordering::Acquire).as_ref() }
}

/// A child that is about to execute a program.
#[derive(Debug)]
pub struct Child {
    /// Its process id.
    pub pid: u32,
    /// The program, as seen from here.
    pub program: PathBuf,
    /// Its arguments without the first, its name; those that there is room for.
    pub arguments: Vec<OsString>,
    /// Its working directory, as seen from here.
    pub directory: PathBuf,
    /// Its PATH.
    pub search_path: OsString,
    /// Its LD_LIBRARY_PATH.
    pub library_path: OsString,
}

/// Starts a thread of the lower half that decides of each child of this process whether it is to be an upper
/// half by itself. To be called once, before the program runs.
pub fn follow_children(
    mut decide: impl FnMut(&Child) -> bool + Send + 'static,
) -> std::io::Result<()> {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let bytes = core::mem::size_of::<Board>();
    // SAFETY: a fresh mapping where the kernel likes; zeros are an idle board.
    let room = unsafe { libc::mmap(core::ptr::null_mut(), bytes, prot, flags, -1, 0) };
    if room == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: just mapped.
    let board = unsafe { &*room.cast::<Board>() };
    board.owner.store(raw::getpid(), Ordering::Relaxed);
    crate::spawn_lower("ckpt-children", move || loop {
        match board.state.load(Ordering::Acquire) {
            ASKED => {
                let answer = match decide(&board.child()) {
                    true => FOLLOWED,
                    false => NATIVE,
                };
                board.state.store(answer, Ordering::Release);
                wake(&board.state);
            }
            other => wait(&board.state, other, 0),
        }
    })?;
    BOARD.store(room.cast(), Ordering::Release);
    Ok(())
}

impl Board {
    fn child(&self) -> Child {
        let text = |text: &UnsafeCell<[u8; TEXT]>| {
            // SAFETY: the child that has written it waits for the answer.
            let bytes = unsafe { &*text.get() };
            let end = bytes.iter().position(|b| *b == 0).unwrap_or(0);
            OsString::from_vec(bytes[..end].to_vec())
        };
        let pid = self.asker.load(Ordering::Relaxed);
        let directory = PathBuf::from(format!("/proc/{pid}/cwd"));
        // SAFETY: as above.
        let arguments = unsafe { &*self.arguments.get() }.split(|b| *b == 0);
        let arguments = arguments.take_while(|argument| !argument.is_empty());
        Child {
            pid,
            program: directory.join(text(&self.program)),
            arguments: arguments
                .map(|bytes| OsString::from_vec(bytes.to_vec()))
                .collect(),
            directory,
            search_path: text(&self.search_path),
            library_path: text(&self.library_path),
        }
    }
}

/// Whether the calling child is to execute this program as an upper half. `arguments` and `variables` are those
/// that it gives to it.
pub fn is_followed(program: &CStr, arguments: usize, variables: usize) -> bool {
    let Some(board) = board() else {
        return false;
    };
    let owner = board.owner.load(Ordering::Relaxed);
    let own = raw::getpid();
    while let Err(other) = board
        .asker
        .compare_exchange(0, own, Ordering::AcqRel, Ordering::Relaxed)
    {
        if !lives(other) {
            // Whoever comes first begins anew.
            let _ = board
                .asker
                .compare_exchange(other, 0, Ordering::AcqRel, Ordering::Relaxed);
        } else if !lives(owner) {
            return false;
        } else {
            wait(&board.asker, other, LOOK_NS);
        }
    }
    // SAFETY: this child is the only one that asks now.
    unsafe {
        copy(program.to_bytes(), board.program.get());
        copy_all(arguments, board.arguments.get());
        for (name, room) in [
            (b"PATH=".as_slice(), &board.search_path),
            (b"LD_LIBRARY_PATH=", &board.library_path),
        ] {
            copy(value(variables, name).unwrap_or_default(), room.get());
        }
    }
    board.state.store(ASKED, Ordering::Release);
    wake(&board.state);
    while board.state.load(Ordering::Acquire) == ASKED && lives(owner) {
        wait(&board.state, ASKED, LOOK_NS);
    }
    let followed = board.state.swap(IDLE, Ordering::AcqRel) == FOLLOWED;
    board.asker.store(0, Ordering::Release);
    wake(&board.asker);
    followed
}

/// The value of a variable in an environment; `name` ends with `=`.
fn value(variables: usize, name: &[u8]) -> Option<&'static [u8]> {
    let mut at = variables;
    loop {
        let text = user::read::<usize>(at).ok().filter(|text| *text != 0)?;
        let found = user::path(text).and_then(|text| text.to_bytes().strip_prefix(name));
        if found.is_some() {
            return found;
        }
        at += 8;
    }
}

/// Copies the texts of a vector but the first, as far as there is room, and an empty one behind them.
unsafe fn copy_all(vector: usize, to: *mut [u8; TEXT]) {
    let mut used = 0;
    let mut at = vector;
    while user::read::<usize>(at).is_ok_and(|text| text != 0) {
        at += 8;
        let text = user::read::<usize>(at).ok().and_then(user::path);
        let Some(text) = text.map(CStr::to_bytes_with_nul) else {
            break;
        };
        if text.len() == 1 || used + text.len() >= TEXT {
            continue;
        }
        // SAFETY: by the caller's word nobody else uses the room, in which this much is left, and one byte more.
        unsafe {
            core::ptr::copy_nonoverlapping(text.as_ptr(), to.cast::<u8>().add(used), text.len());
        }
        used += text.len();
    }
    // SAFETY: as above.
    unsafe { to.cast::<u8>().add(used).write(0) };
}

/// Copies a text with its end; one that is too long becomes empty.
unsafe fn copy(text: &[u8], to: *mut [u8; TEXT]) {
    let length = if text.len() < TEXT { text.len() } else { 0 };
    // SAFETY: by the caller's word nobody else uses the room, which is longer.
    unsafe {
        core::ptr::copy_nonoverlapping(text.as_ptr(), to.cast::<u8>(), length);
        to.cast::<u8>().add(length).write(0);
    }
}

/// Whether there is such a process.
fn lives(pid: u32) -> bool {
    raw::plain(libc::SYS_kill, [pid as usize, 0, 0, 0, 0, 0]) != raw::err(libc::ESRCH)
}

/// As `raw::futex_wait`, for a word that processes share.
fn wait(word: &AtomicU32, value: u32, timeout_ns: u64) {
    let limit = [0u64, timeout_ns];
    let timeout = match timeout_ns {
        0 => 0,
        _ => limit.as_ptr() as usize,
    };
    let args = [
        word.as_ptr() as usize,
        libc::FUTEX_WAIT as usize,
        value as usize,
        timeout,
        0,
        0,
    ];
    // SAFETY: `word` and `limit` are live for the call, which only reads them.
    unsafe { raw::syscall(libc::SYS_futex as usize, args) };
}

fn wake(word: &AtomicU32) {
    let all = i32::MAX as usize;
    let args = [
        word.as_ptr() as usize,
        libc::FUTEX_WAKE as usize,
        all,
        0,
        0,
        0,
    ];
    // SAFETY: waking touches no memory.
    unsafe { raw::syscall(libc::SYS_futex as usize, args) };
}
