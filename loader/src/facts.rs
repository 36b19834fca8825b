//! Facts about the loaded program that system call handlers need; set before it runs.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::ffi::{CStr, CString};
use std::sync::OnceLock;

static PROGRAM: OnceLock<CString> = OnceLock::new();
static INTERPRETER: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// Notes the program's absolute path.
pub fn set_program(path: CString) {
    let _ = PROGRAM.set(path);
}

/// The program's absolute path: what `/proc/self/exe` names for the application.
pub fn program() -> &'static CStr {
    PROGRAM.get().map_or(c"", CString::as_c_str)
}

/// Notes where the program's dynamic linker is mapped.
pub fn set_interpreter(start: usize, end: usize) {
    INTERPRETER[0].store(start, Ordering::Relaxed);
    INTERPRETER[1].store(end, Ordering::Relaxed);
}

/// Where the program's dynamic linker is mapped.
pub fn interpreter() -> [usize; 2] {
    [
        INTERPRETER[0].load(Ordering::Relaxed),
        INTERPRETER[1].load(Ordering::Relaxed),
    ]
}

/// Whether an address is in the program's dynamic linker.
pub fn in_interpreter(address: usize) -> bool {
    let [start, end] = interpreter();
    (start..end).contains(&address)
}
