//! Where the process begins. Not in the `main` that Rust makes: that takes the signals of faults for itself, which
//! are the application's, and has every thread map memory for their handler when it begins. A thread that finds none
//! panics, and ends the job with it; so a checkpoint could end a program that has used up its memory.
//!
//! # Safety
//! The C library calls `main` once, before any thread is made; arguments are taken from what it has passed to Rust
//! before. SIGPIPE is ignored, as Rust ignores it: who writes to a pipe or a socket is told by an error.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};

#[unsafe(no_mangle)]
extern "C" fn main(_count: c_int, _arguments: *const *const c_char) -> c_int {
    // SAFETY: see the head of this file.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    // What this thread has by itself for its end is made now: later there may be no memory for it, of which glibc
    // would make an end of the process.
    drop(std::thread::current());
    crate::begin()
}
