//! Path of the program and addresses of its dynamic linker, for the handlers of system calls. Set before the program
//! runs.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::ffi::{CStr, CString};
use std::sync::OnceLock;

static PROGRAM: OnceLock<CString> = OnceLock::new();
static INTERPRETER: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// Sets the program's absolute path.
pub fn set_program(path: CString) {
    let _ = PROGRAM.set(path);
}

/// Absolute path of the program: the target of `/proc/self/exe` for the application.
pub fn program() -> &'static CStr {
    PROGRAM.get().map_or(c"", CString::as_c_str)
}

/// Sets the address range of the program's dynamic linker.
pub fn set_interpreter(start: usize, end: usize) {
    INTERPRETER[0].store(start, Ordering::Relaxed);
    INTERPRETER[1].store(end, Ordering::Relaxed);
}

/// Address range of the program's dynamic linker.
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
