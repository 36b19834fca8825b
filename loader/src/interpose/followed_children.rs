//! Children of a rank that become upper halves: a script runs `mpirun`'s program without `exec`. Before a child
//! executes a program, it asks the lower half of the rank's process whether the program becomes an upper half. A thread
//! there examines the program's file.
//!
//! The child is forked, or made by vfork, and shares a page with that thread. It blocks until the answer, as it blocks
//! for the disk in an execve, and continues without one if the process is gone.
//!
//! The page consists of atomics. Its texts are written by the child that holds `asker`, and read by the thread while
//! `state` is ASKED.
//!
//! # Safety
//! Zeros are a page, as its declaration shows.
#![allow(unsafe_code)]

use crate::sys::zeros::{self, InChild, Zeros};
use crate::sys::{syscall, user_copy};
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, AtomicU8, Ordering};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::OnceLock;

const IDLE: u32 = 0;
const ASKED: u32 = 1;
const NATIVE: u32 = 2;
const FOLLOWED: u32 = 3;

/// Maximum length in bytes of a text on the page, with its NUL.
const TEXT: usize = 4096;
/// Interval of the checks that the other process still lives, in nanoseconds.
const LOOK_NS: u64 = 50_000_000;

/// A text on the page, with its NUL.
type Text = [AtomicU8; TEXT];

#[repr(C)]
struct Board {
    /// Process of the answering thread.
    owner: AtomicU32,
    /// Child that asks, or 0.
    asker: AtomicU32,
    /// One of the states above.
    state: AtomicU32,
    program: Text,
    /// Texts in sequence, each with its NUL, and an empty one at the end.
    arguments: Text,
    search_path: Text,
    library_path: Text,
}

// SAFETY: atomics, and arrays of them.
unsafe impl Zeros for Board {}

static BOARD: OnceLock<&Board> = OnceLock::new();

/// A child that is about to execute a program.
#[derive(Debug)]
pub struct Child {
    /// Process id.
    pub pid: u32,
    /// Program, by its path in the rank's process.
    pub program: PathBuf,
    /// Arguments after the first one (its name), as far as they fit.
    pub arguments: Vec<OsString>,
    /// Working directory, by its path in the rank's process.
    pub directory: PathBuf,
    /// PATH of the child.
    pub search_path: OsString,
    /// LD_LIBRARY_PATH of the child.
    pub library_path: OsString,
}

/// Starts a thread of the lower half that decides for each child of this process whether it becomes an upper half. Call
/// it once, before the program runs.
///
/// # Errors
/// If the memory that children share with it cannot be mapped, or the thread cannot be started.
pub fn follow_children(
    mut decide: impl FnMut(&Child) -> bool + Send + 'static,
) -> std::io::Result<()> {
    // Zeros are an idle board.
    let [board] = zeros::map::<Board>(1, InChild::Shared)? else {
        unreachable!("one was mapped");
    };
    let board: &Board = board;
    board.owner.store(syscall::getpid(), Ordering::Relaxed);
    crate::sys::lower_thread::spawn_lower("ckpt-children", move || loop {
        match board.state.load(Ordering::Acquire) {
            ASKED => {
                let answer = match decide(&board.child()) {
                    true => FOLLOWED,
                    false => NATIVE,
                };
                board.state.store(answer, Ordering::Release);
                wake(&board.state);
            }
            other => syscall::futex_wait_shared(&board.state, other, 0),
        }
    })?;
    BOARD.get_or_init(|| board);
    Ok(())
}

impl Board {
    fn child(&self) -> Child {
        let text = |text: &Text| {
            let mut bytes = bytes_of(text);
            let end = bytes.iter().position(|b| *b == 0).unwrap_or(0);
            bytes.truncate(end);
            OsString::from_vec(bytes)
        };
        let pid = self.asker.load(Ordering::Relaxed);
        let directory = PathBuf::from(format!("/proc/{pid}/cwd"));
        let arguments = bytes_of(&self.arguments);
        let arguments = arguments.split(|b| *b == 0);
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

fn bytes_of(text: &Text) -> Vec<u8> {
    text.iter().map(|b| b.load(Ordering::Relaxed)).collect()
}

/// Whether the calling child executes this program as an upper half, with these `arguments` and `variables`.
pub fn is_followed(program: &CStr, arguments: usize, variables: usize) -> bool {
    let Some(board) = BOARD.get() else {
        return false;
    };
    let owner = board.owner.load(Ordering::Relaxed);
    let own = syscall::getpid();
    while let Err(other) = board
        .asker
        .compare_exchange(0, own, Ordering::AcqRel, Ordering::Relaxed)
    {
        if !lives(other) {
            // The first child after an abandoned request resets the state.
            let _ = board
                .asker
                .compare_exchange(other, 0, Ordering::AcqRel, Ordering::Relaxed);
        } else if !lives(owner) {
            return false;
        } else {
            syscall::futex_wait_shared(&board.asker, other, LOOK_NS);
        }
    }
    // This child holds `asker`, so no other process uses the texts.
    copy(program.to_bytes(), &board.program);
    copy_all(arguments, &board.arguments);
    for (name, room) in [
        (b"PATH=".as_slice(), &board.search_path),
        (b"LD_LIBRARY_PATH=", &board.library_path),
    ] {
        copy(value(variables, name).unwrap_or_default(), room);
    }
    board.state.store(ASKED, Ordering::Release);
    wake(&board.state);
    while board.state.load(Ordering::Acquire) == ASKED && lives(owner) {
        syscall::futex_wait_shared(&board.state, ASKED, LOOK_NS);
    }
    let followed = board.state.swap(IDLE, Ordering::AcqRel) == FOLLOWED;
    board.asker.store(0, Ordering::Release);
    wake(&board.asker);
    followed
}

/// Value of a variable in an environment; `name` ends with `=`.
fn value(variables: usize, name: &[u8]) -> Option<&'static [u8]> {
    let mut at = variables;
    loop {
        let text = user_copy::read::<usize>(at)
            .ok()
            .filter(|text| *text != 0)?;
        let found = user_copy::path(text).and_then(|text| text.to_bytes().strip_prefix(name));
        if found.is_some() {
            return found;
        }
        at += 8;
    }
}

/// Copies the texts of a vector after the first, as far as they fit, and an empty one after them.
fn copy_all(vector: usize, to: &Text) {
    let mut used = 0;
    let mut at = vector;
    while user_copy::read::<usize>(at).is_ok_and(|text| text != 0) {
        at += 8;
        let text = user_copy::read::<usize>(at).ok().and_then(user_copy::path);
        let Some(text) = text.map(CStr::to_bytes_with_nul) else {
            break;
        };
        if text.len() == 1 || used + text.len() >= TEXT {
            continue;
        }
        put(text, &to[used..]);
        used += text.len();
    }
    // The copied texts leave room for this.
    put(b"\0", &to[used..]);
}

/// Copies a text with its NUL; a text that is too long becomes empty.
fn copy(text: &[u8], to: &Text) {
    let length = if text.len() < TEXT { text.len() } else { 0 };
    put(&text[..length], to);
    put(b"\0", &to[length..]);
}

fn put(text: &[u8], to: &[AtomicU8]) {
    for (byte, to) in text.iter().zip(to) {
        to.store(*byte, Ordering::Relaxed);
    }
}

/// Whether the process exists.
fn lives(pid: u32) -> bool {
    syscall::plain(libc::SYS_kill, [pid as usize, 0, 0, 0, 0, 0]) != syscall::err(libc::ESRCH)
}

fn wake(word: &AtomicU32) {
    syscall::futex_wake_shared(word, i32::MAX);
}
