//! The entry point of the process. It replaces the `main` that Rust generates, which installs handlers for SIGSEGV and
//! SIGBUS and makes every new thread map a signal stack. These signals belong to the application. And a new thread
//! without memory for the stack panics and ends the job, so a checkpoint could end a program that has used up its
//! memory.
//!
//! # Safety
//! The C library calls `main` once, before any thread is created. The arguments are those that it has passed to Rust
//! before. SIGPIPE is ignored, as Rust ignores it: a write to a closed pipe or socket returns an error.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};

#[unsafe(no_mangle)]
extern "C" fn main(_count: c_int, _arguments: *const *const c_char) -> c_int {
    // SAFETY: see the head of this file.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    // This allocates the thread-local data of Rust's thread handle and its destructor. Later there may be no memory for
    // it, and glibc would end the process.
    drop(std::thread::current());
    crate::begin()
}
