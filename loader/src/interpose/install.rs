//! Steps common to launch and restart: the tables, the handlers for SIGSYS and the stop signal, the process's name.
//!
//! # Safety
//! The kernel reads locals and C strings that live as long as the call.
#![allow(unsafe_code)]

use super::signals::actions;
use super::threads::stop;
use super::{cpuid, dispatch, sites, sud, threads};
use crate::error::LoadError;
use crate::load::{program_info, va_allocator};
use crate::sys::{cpu, user_copy};
use std::ffi::CString;

/// Runs the steps common to launch and restart, before any upper-half memory is mapped.
pub fn start_loader() -> Result<(), LoadError> {
    cpu::detect();
    user_copy::note_process();
    sud::probe()?;
    va_allocator::start()?;
    sites::start();
    threads::start()
}

/// Shows the application only these features of the processor. Call it before anything of the upper half is mapped.
pub fn show_processor(features: &[String]) {
    cpuid::show_only(features);
    actions::answer_cpuid();
}

/// Removes the setup of a plain lower-half thread from the calling thread: drops its alternate signal stack (Rust's),
/// and installs the handlers of SIGSYS and the stop signal.
pub fn leave_rust() {
    let none = libc::stack_t {
        ss_sp: core::ptr::null_mut(),
        ss_flags: libc::SS_DISABLE,
        ss_size: 0,
    };
    // SAFETY: the kernel only reads this local.
    unsafe { libc::sigaltstack(&raw const none, core::ptr::null_mut()) };
    dispatch::install();
    stop::install();
}

/// Gives the process the name of the program, which `ps` shows.
pub fn take_name() {
    let path = program_info::program().to_bytes();
    let base = path.rsplit(|&b| b == b'/').next().unwrap_or(path);
    if let Ok(name) = CString::new(base) {
        // SAFETY: the kernel only reads the C string.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
    }
}
