//! Hooks of the lower half: redirected files, the command for execve, and functions called at certain points.
//!
//! All but [`tell_unmaps`] are set before the program starts, and all are only read afterwards.

use super::threads::Thread;
use crate::sys::syscall;
use std::ffi::{CStr, CString};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

/// Position of the file to open instead of one with this base name.
type Choose = Box<dyn Fn(&str) -> Option<usize> + Send + Sync>;

struct Redirects {
    choose: Choose,
    files: Vec<CString>,
}

static REDIRECTS: OnceLock<Redirects> = OnceLock::new();
static EXEC_PREFIX: OnceLock<Vec<CString>> = OnceLock::new();
static WRAPPER: OnceLock<CString> = OnceLock::new();
static STARTED_BY: OnceLock<CString> = OnceLock::new();
static EXIT: OnceLock<fn(i32)> = OnceLock::new();
static EXECUTES: OnceLock<fn()> = OnceLock::new();
static UNMAPS: OnceLock<fn(Range<usize>)> = OnceLock::new();
static THREAD_ENDS: OnceLock<fn(u32)> = OnceLock::new();
static TELL_CALLS: AtomicBool = AtomicBool::new(false);

/// Redirects files to the given ones, for opens by the program's dynamic linker. `choose` gives the position of the
/// file to open instead of one with that base name. Only the first call has an effect.
pub fn set_redirects<P: AsRef<Path>>(
    choose: impl Fn(&str) -> Option<usize> + Send + Sync + 'static,
    files: &[P],
) {
    let files = files.iter().map(|file| {
        let path = file.as_ref().as_os_str().as_bytes();
        // A path of this process has no NUL byte.
        CString::new(path).unwrap_or_default()
    });
    let _ = REDIRECTS.set(Redirects {
        choose: Box::new(choose),
        files: files.collect(),
    });
}

/// File to open instead of `path`, if its base name is redirected.
pub fn redirect(path: &CStr) -> Option<&'static CStr> {
    let redirects = REDIRECTS.get()?;
    let path = path.to_str().ok()?;
    let base = path.rsplit('/').next().unwrap_or(path);
    let chosen = (redirects.choose)(base)?;
    redirects.files.get(chosen).map(CString::as_c_str)
}

/// Whether this file is the target of a redirect.
pub fn is_redirected_to(path: &[u8]) -> bool {
    REDIRECTS
        .get()
        .is_some_and(|all| all.files.iter().any(|file| file.to_bytes() == path))
}

/// Sets the command to execute in front of `program args...` when the rank's own process calls `execve`, so that the
/// new program is an upper half again: the lower half's path and its options. Without it the new program runs outside
/// of Stasis. Only the first call has an effect.
pub fn set_exec_hook(prefix: Vec<CString>) {
    let _ = EXEC_PREFIX.set(prefix);
}

/// Command of [`set_exec_hook`].
pub fn exec_prefix() -> Option<&'static [CString]> {
    EXEC_PREFIX
        .get()
        .map(Vec::as_slice)
        .filter(|p| !p.is_empty())
}

/// Sets the variable, `NAME=VALUE`, that tells a followed child which program has started it. Only the first call has
/// an effect.
pub fn set_wrapper(variable: CString) {
    let _ = WRAPPER.set(variable);
}

/// Variable of [`set_wrapper`].
pub fn wrapper() -> Option<&'static CStr> {
    WRAPPER.get().map(CString::as_c_str)
}

/// Sets the variable that told this process which program has started it. A program that it executes by execve gets the
/// same variable.
pub fn set_started_by(variable: CString) {
    let _ = STARTED_BY.set(variable);
}

/// Variable of [`set_started_by`].
pub fn started_by() -> Option<&'static CStr> {
    STARTED_BY.get().map(CString::as_c_str)
}

/// Sets a function that is called before the rank's own process executes another program, which ends all other threads
/// and closes their files. The call may still fail. It runs with the lower half's FS and all signals blocked, on the
/// thread of the call. Only the first call has an effect.
pub fn set_executes_hook(hook: fn()) {
    let _ = EXECUTES.set(hook);
}

/// Calls the function of [`set_executes_hook`].
pub fn executes(thread: &Thread) {
    if let Some(hook) = EXECUTES.get() {
        thread.on_lower(hook);
    }
}

/// Sets a function that is called with each range of the application's memory before the application gives it back, or
/// replaces what is there. It runs with the lower half's FS, on the thread of the call, while signals of the
/// application wait. Its system calls may be interrupted, as in a native program. Only the first call has an effect.
pub fn tell_unmaps(hook: fn(Range<usize>)) {
    let _ = UNMAPS.set(hook);
}

/// Whether [`tell_unmaps`] has set a function.
pub fn are_unmaps_told() -> bool {
    UNMAPS.get().is_some()
}

/// Calls the function of [`tell_unmaps`].
pub fn unmaps(thread: &Thread, range: Range<usize>) {
    if let Some(hook) = UNMAPS.get() {
        thread.on_lower_in_dispatch(|| hook(range));
    }
}

/// Sets a function that is called with the exit status when the program exits, with the lower half's FS and all signals
/// blocked, on the thread of the exit. Only the first call has an effect.
pub fn set_exit_hook(hook: fn(i32)) {
    let _ = EXIT.set(hook);
}

/// Sets a function that is called with the number of each thread of the application that ends while others go on. It
/// runs with the lower half's FS and all signals blocked, on the thread that ends. Only the first call has an effect.
pub fn set_thread_end_hook(hook: fn(u32)) {
    let _ = THREAD_ENDS.set(hook);
}

/// Calls the function of [`set_thread_end_hook`], with the lower half's FS.
pub fn thread_ends(number: u32) {
    if let Some(hook) = THREAD_ENDS.get() {
        if !super::threads::is_forked_child() {
            hook(number);
        }
    }
}

/// Reports the end of every MPI call to the lower half from now on, by the service `CallEnded`.
pub fn tell_calls() {
    TELL_CALLS.store(true, Ordering::Relaxed);
}

/// Actions of a new thread when it leaves its wrappers.
pub fn on_leaving() -> u32 {
    match TELL_CALLS.load(Ordering::Relaxed) {
        true => contract::TELL_CALLS,
        false => 0,
    }
}

/// Ends the process.
pub fn exit_process(thread: &Thread, status: i32) -> ! {
    if !super::threads::is_forked_child() {
        if let Some(hook) = EXIT.get() {
            thread.on_lower(|| hook(status));
        }
    }
    syscall::exit_group(status)
}

/// Ends the process, from a thread that is already in the lower half.
pub fn exit_process_from_lower(status: i32) -> ! {
    if let Some(hook) = EXIT.get() {
        hook(status);
    }
    syscall::exit_group(status)
}
