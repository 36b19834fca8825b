//! What the lower half tells the loader to do at certain points.
//!
//! All is set before the program starts and only read afterwards.

use crate::raw;
use crate::thread::Thread;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

static REDIRECTS: OnceLock<Vec<(CString, CString)>> = OnceLock::new();
static EXEC_PREFIX: OnceLock<Vec<CString>> = OnceLock::new();
static WRAPPER: OnceLock<CString> = OnceLock::new();
static STARTED_BY: OnceLock<CString> = OnceLock::new();
static EXIT: OnceLock<fn(i32)> = OnceLock::new();
static TELL_CALLS: AtomicBool = AtomicBool::new(false);

/// When the program's dynamic linker opens a file with one of these base names, it gets the file
/// given here instead. Only the first call counts.
pub fn set_redirects(redirects: &[(&str, &Path)]) {
    let pairs = redirects.iter().filter_map(|(name, path)| {
        Some((
            CString::new(*name).ok()?,
            CString::new(path.as_os_str().as_bytes()).ok()?,
        ))
    });
    let _ = REDIRECTS.set(pairs.collect());
}

/// The file to open instead of `path`, if its base name is redirected.
pub fn redirect(path: &CStr) -> Option<&'static CStr> {
    let bytes = path.to_bytes();
    let base = bytes.rsplit(|&b| b == b'/').next().unwrap_or(bytes);
    let found = REDIRECTS
        .get()?
        .iter()
        .find(|(name, _)| name.to_bytes() == base)?;
    Some(found.1.as_c_str())
}

/// Whether the program got this file in the place of another.
pub fn is_redirected_to(path: &[u8]) -> bool {
    REDIRECTS
        .get()
        .is_some_and(|all| all.iter().any(|(_, to)| to.to_bytes() == path))
}

/// The command to execute in front of `program args...` when the rank's own process calls
/// `execve`, so that the new program is an upper half again: the lower half's path and its options.
/// Without it the new program runs outside of Stasis. Only the first call counts.
pub fn set_exec_hook(prefix: Vec<CString>) {
    let _ = EXEC_PREFIX.set(prefix);
}

/// See [`set_exec_hook`].
pub fn exec_prefix() -> Option<&'static [CString]> {
    EXEC_PREFIX
        .get()
        .map(Vec::as_slice)
        .filter(|p| !p.is_empty())
}

/// The variable, `NAME=VALUE`, by which a child that is followed learns what has started it. Only the first
/// call counts.
pub fn set_wrapper(variable: CString) {
    let _ = WRAPPER.set(variable);
}

/// See [`set_wrapper`].
pub fn wrapper() -> Option<&'static CStr> {
    WRAPPER.get().map(CString::as_c_str)
}

/// The variable by which this process itself was told what has started it: what it executes in its own place is
/// told the same.
pub fn set_started_by(variable: CString) {
    let _ = STARTED_BY.set(variable);
}

/// See [`set_started_by`].
pub fn started_by() -> Option<&'static CStr> {
    STARTED_BY.get().map(CString::as_c_str)
}

/// Called with the exit status when the program ends itself, with the lower half's FS and all
/// signals held, on whichever thread asked for it. Only the first call counts.
pub fn set_exit_hook(hook: fn(i32)) {
    let _ = EXIT.set(hook);
}

/// From now on the end of every MPI call is told to the lower half, by the service `CallEnded`.
pub fn tell_calls() {
    TELL_CALLS.store(true, Ordering::Relaxed);
}

/// What a new thread has to do on leaving its wrappers.
pub fn on_leaving() -> u32 {
    match TELL_CALLS.load(Ordering::Relaxed) {
        true => contract::TELL_CALLS,
        false => 0,
    }
}

/// Ends the process.
pub fn exit_process(thread: &Thread, status: i32) -> ! {
    if !crate::thread::is_forked_child() {
        if let Some(hook) = EXIT.get() {
            thread.on_lower(|| hook(status));
        }
    }
    raw::exit_group(status)
}

/// Ends the process, from a thread that is in the lower half already.
pub fn exit_process_from_lower(status: i32) -> ! {
    if let Some(hook) = EXIT.get() {
        hook(status);
    }
    raw::exit_group(status)
}
