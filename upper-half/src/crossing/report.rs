//! Messages to the user, and the end of the job.
//!
//! Both go through the lower half. A process without a lower half (a program that was linked with the front but not
//! started by Stasis) writes to its own standard error and exits.
//!
//! # Safety
//! The services read a text and have no further conditions.
#![allow(unsafe_code)]

use crate::crossing::stubs::service;
use crate::runtime::syscall;
use core::sync::atomic::{AtomicBool, Ordering};

/// Ends the job with a message: through the lower half where there is one.
pub(crate) fn fatal(text: &str, code: i32) -> ! {
    if has_lower_half() {
        // SAFETY: the service reads the text and does not return.
        unsafe { service::fatal(text.as_ptr(), text.len(), code) }
    }
    syscall::write_error(format!("stasis: {text}\n").as_bytes());
    syscall::exit(code)
}

/// Says that a function is not supported and what there is to do, whatever the error handler then does.
pub fn unsupported(function: &str, advice: &str) {
    advise(&format!(
        "{function} is not supported by Stasis: {advice} (docs/not-supported.md)"
    ));
}

/// Prints a line on standard error, where there is somebody to print it.
pub(crate) fn advise(text: &str) {
    if has_lower_half() {
        message(text);
    }
}

/// Prints a line on standard error, where there is a lower half for certain.
pub(crate) fn message(text: &str) {
    // SAFETY: the service reads the text.
    unsafe { service::message(text.as_ptr(), text.len()) };
}

pub(crate) static HAS_LOWER_HALF: AtomicBool = AtomicBool::new(false);

/// Whether there is a lower half in this process.
pub(crate) fn has_lower_half() -> bool {
    HAS_LOWER_HALF.load(Ordering::Relaxed)
}

/// Ends the program with an explanation if there is no lower half.
pub(crate) fn require_lower_half() {
    if !has_lower_half() {
        outside();
    }
}

/// Where all crossings lead in a process without a lower half.
pub(crate) extern "C" fn outside() -> ! {
    fatal(
        "this program was loaded with the MPI library of Stasis, but not started by it; \
         start it with: mpirun -n RANKS stasis launch PROGRAM",
        2,
    )
}
