//! Error classes, codes and texts, and what happens with an error: the application's error handler
//! lives here, in the upper half; below, every communicator returns its errors.
//!
//! # Safety
//! Out pointers are the application's, as MPI prescribes them. User handlers are called as the C
//! functions that they were registered as, through a variadic type since theirs is variadic.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head

use crate::abi::abi;
use crate::errhandler::Handler;
use crate::lower;
use crate::message;
use crate::object::{Body, Comm, File, Object, Session, Win};
use crate::sync::Lock;
use crate::wrapper;
use contract::abi::*;
use contract::{gate, MpiState};
use core::ffi::{c_char, CStr};
use core::sync::atomic::{AtomicI32, Ordering};

/// The name and the text of every standard class.
const CLASSES: &[(i32, &str, &str)] = &[
    (SUCCESS, "MPI_SUCCESS", "no error"),
    (ERR_BUFFER, "MPI_ERR_BUFFER", "invalid buffer pointer"),
    (ERR_COUNT, "MPI_ERR_COUNT", "invalid count argument"),
    (ERR_TYPE, "MPI_ERR_TYPE", "invalid datatype"),
    (ERR_TAG, "MPI_ERR_TAG", "invalid tag"),
    (ERR_COMM, "MPI_ERR_COMM", "invalid communicator"),
    (ERR_RANK, "MPI_ERR_RANK", "invalid rank"),
    (ERR_REQUEST, "MPI_ERR_REQUEST", "invalid request"),
    (ERR_ROOT, "MPI_ERR_ROOT", "invalid root"),
    (ERR_GROUP, "MPI_ERR_GROUP", "invalid group"),
    (ERR_OP, "MPI_ERR_OP", "invalid reduce operation"),
    (
        ERR_TOPOLOGY,
        "MPI_ERR_TOPOLOGY",
        "invalid communicator topology",
    ),
    (ERR_DIMS, "MPI_ERR_DIMS", "invalid topology dimension"),
    (
        ERR_ARG,
        "MPI_ERR_ARG",
        "invalid argument of some other kind",
    ),
    (ERR_UNKNOWN, "MPI_ERR_UNKNOWN", "unknown error"),
    (ERR_TRUNCATE, "MPI_ERR_TRUNCATE", "message truncated"),
    (ERR_OTHER, "MPI_ERR_OTHER", "known error not in list"),
    (ERR_INTERN, "MPI_ERR_INTERN", "internal error"),
    (ERR_PENDING, "MPI_ERR_PENDING", "pending request"),
    (ERR_IN_STATUS, "MPI_ERR_IN_STATUS", "error code in status"),
    (ERR_ACCESS, "MPI_ERR_ACCESS", "permission denied"),
    (ERR_AMODE, "MPI_ERR_AMODE", "invalid access mode of a file"),
    (ERR_ASSERT, "MPI_ERR_ASSERT", "invalid assert argument"),
    (ERR_BAD_FILE, "MPI_ERR_BAD_FILE", "invalid file name"),
    (
        ERR_BASE,
        "MPI_ERR_BASE",
        "invalid base passed to MPI_Free_mem",
    ),
    (
        ERR_CONVERSION,
        "MPI_ERR_CONVERSION",
        "error in a data conversion function",
    ),
    (ERR_DISP, "MPI_ERR_DISP", "invalid displacement"),
    (
        ERR_DUP_DATAREP,
        "MPI_ERR_DUP_DATAREP",
        "data representation is already defined",
    ),
    (ERR_FILE_EXISTS, "MPI_ERR_FILE_EXISTS", "file exists"),
    (ERR_FILE_IN_USE, "MPI_ERR_FILE_IN_USE", "file is in use"),
    (ERR_FILE, "MPI_ERR_FILE", "invalid file handle"),
    (
        ERR_INFO_KEY,
        "MPI_ERR_INFO_KEY",
        "info key is too long or empty",
    ),
    (
        ERR_INFO_NOKEY,
        "MPI_ERR_INFO_NOKEY",
        "info key is not defined",
    ),
    (
        ERR_INFO_VALUE,
        "MPI_ERR_INFO_VALUE",
        "info value is too long",
    ),
    (ERR_INFO, "MPI_ERR_INFO", "invalid info object"),
    (ERR_IO, "MPI_ERR_IO", "input/output error"),
    (ERR_KEYVAL, "MPI_ERR_KEYVAL", "invalid keyval"),
    (ERR_LOCKTYPE, "MPI_ERR_LOCKTYPE", "invalid lock type"),
    (ERR_NAME, "MPI_ERR_NAME", "service name is not published"),
    (ERR_NO_MEM, "MPI_ERR_NO_MEM", "out of memory"),
    (
        ERR_NOT_SAME,
        "MPI_ERR_NOT_SAME",
        "collective argument is not the same on all processes",
    ),
    (ERR_NO_SPACE, "MPI_ERR_NO_SPACE", "not enough space"),
    (ERR_NO_SUCH_FILE, "MPI_ERR_NO_SUCH_FILE", "no such file"),
    (ERR_PORT, "MPI_ERR_PORT", "invalid port name"),
    (ERR_QUOTA, "MPI_ERR_QUOTA", "quota exceeded"),
    (
        ERR_READ_ONLY,
        "MPI_ERR_READ_ONLY",
        "read-only file or file system",
    ),
    (
        ERR_RMA_ATTACH,
        "MPI_ERR_RMA_ATTACH",
        "memory cannot be attached",
    ),
    (
        ERR_RMA_CONFLICT,
        "MPI_ERR_RMA_CONFLICT",
        "conflicting accesses to a window",
    ),
    (
        ERR_RMA_RANGE,
        "MPI_ERR_RMA_RANGE",
        "target memory is not part of the window",
    ),
    (
        ERR_RMA_SHARED,
        "MPI_ERR_RMA_SHARED",
        "memory cannot be shared",
    ),
    (
        ERR_RMA_SYNC,
        "MPI_ERR_RMA_SYNC",
        "wrong synchronisation of RMA calls",
    ),
    (ERR_SERVICE, "MPI_ERR_SERVICE", "invalid service name"),
    (ERR_SIZE, "MPI_ERR_SIZE", "invalid size"),
    (ERR_SPAWN, "MPI_ERR_SPAWN", "error in spawning processes"),
    (
        ERR_UNSUPPORTED_DATAREP,
        "MPI_ERR_UNSUPPORTED_DATAREP",
        "unsupported data representation",
    ),
    (
        ERR_UNSUPPORTED_OPERATION,
        "MPI_ERR_UNSUPPORTED_OPERATION",
        "unsupported operation",
    ),
    (ERR_WIN, "MPI_ERR_WIN", "invalid window"),
    (
        ERR_RMA_FLAVOR,
        "MPI_ERR_RMA_FLAVOR",
        "wrong flavor of window",
    ),
    (
        ERR_PROC_ABORTED,
        "MPI_ERR_PROC_ABORTED",
        "a peer process has aborted",
    ),
    (
        ERR_VALUE_TOO_LARGE,
        "MPI_ERR_VALUE_TOO_LARGE",
        "value is too large to store",
    ),
    (ERR_SESSION, "MPI_ERR_SESSION", "invalid session"),
    (
        ERR_ERRHANDLER,
        "MPI_ERR_ERRHANDLER",
        "invalid error handler",
    ),
    (ERR_ABI, "MPI_ERR_ABI", "ABI error"),
];

/// Bytes of an error text with its NUL that every application's buffer holds.
const STRING_BYTES: usize = 256;

/// A user-defined class or code: `class` is itself for a class.
struct Defined {
    class: i32,
    text: Vec<u8>,
}

static DEFINED: Lock<Vec<Defined>> = Lock::new(Vec::new());

/// MPI_LASTUSEDCODE, as the application knows codes.
pub(crate) static LAST_USED: AtomicI32 = AtomicI32::new(ERR_LASTCODE);

fn standard(class: i32) -> Option<&'static (i32, &'static str, &'static str)> {
    CLASSES.iter().find(|entry| entry.0 == class)
}

fn defined_index(code: i32) -> Option<usize> {
    usize::try_from(code - ERR_LASTCODE - 1).ok()
}

/// The class of a code, or the code where it has none.
pub(crate) fn class_of(code: i32) -> Option<i32> {
    if standard(code).is_some() {
        return Some(code);
    }
    let index = defined_index(code)?;
    DEFINED.lock().get(index).map(|defined| defined.class)
}

/// The text that MPI_Error_string gives.
pub(crate) fn text_of(code: i32) -> Option<String> {
    if let Some((_, name, text)) = standard(code) {
        return Some(format!("{name}: {text}"));
    }
    let index = defined_index(code)?;
    let all = DEFINED.lock();
    let defined = all.get(index)?;
    Some(String::from_utf8_lossy(&defined.text).into_owned())
}

/// MPI_Error_class.
pub unsafe fn error_class(code: i32, class: *mut i32) -> i32 {
    let Some(found) = class_of(code) else {
        return ERR_ARG;
    };
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *class = found };
    SUCCESS
}

/// MPI_Error_string.
pub unsafe fn error_string(code: i32, string: *mut c_char, length: *mut i32) -> i32 {
    let Some(text) = text_of(code) else {
        return ERR_ARG;
    };
    // SAFETY: MPI's contract: MPI_MAX_ERROR_STRING bytes, at least STRING_BYTES in every ABI.
    unsafe { write_string(text.as_bytes(), string, STRING_BYTES, length) };
    SUCCESS
}

fn define(class: Option<i32>) -> i32 {
    let mut all = DEFINED.lock();
    let code = ERR_LASTCODE + 1 + all.len() as i32;
    all.push(Defined {
        class: class.unwrap_or(code),
        text: Vec::new(),
    });
    LAST_USED.store((abi().error_out)(code), Ordering::Relaxed);
    code
}

/// MPI_Add_error_class.
pub unsafe fn add_error_class(class: *mut i32) -> i32 {
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *class = define(None) };
    SUCCESS
}

/// MPI_Add_error_code.
pub unsafe fn add_error_code(class: i32, code: *mut i32) -> i32 {
    if class_of(class) != Some(class) {
        return ERR_ARG;
    }
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *code = define(Some(class)) };
    SUCCESS
}

/// MPI_Add_error_string.
pub unsafe fn add_error_string(code: i32, string: *const c_char) -> i32 {
    // SAFETY: MPI's contract: a NUL-terminated string.
    let text = unsafe { CStr::from_ptr(string) }.to_bytes();
    let mut all = DEFINED.lock();
    match defined_index(code).and_then(|index| all.get_mut(index)) {
        Some(defined) => {
            defined.text = text.to_vec();
            SUCCESS
        }
        None => ERR_ARG,
    }
}

/// Writes `text` with its NUL into a buffer of `capacity` bytes, cut where it must be, and its
/// length without the NUL into `length`.
///
/// # Safety
/// Both pointers must be valid for that.
pub(crate) unsafe fn write_string(
    text: &[u8],
    buffer: *mut c_char,
    capacity: usize,
    length: *mut i32,
) {
    let n = text.len().min(capacity - 1);
    // SAFETY: n + 1 <= capacity bytes.
    unsafe {
        core::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), n);
        *buffer.add(n) = 0;
        *length = n as i32;
    }
}

/// Ends the job with a message: through the lower half where there is one.
pub(crate) fn fatal(text: &str, code: i32) -> ! {
    if crate::start::has_lower_half() {
        // SAFETY: the service reads the text and does not return.
        unsafe { lower::service::fatal(text.as_ptr(), text.len(), code) }
    }
    crate::system::write_error(format!("stasis: {text}\n").as_bytes());
    crate::system::exit(code)
}

/// The lower library's own text for its last failing call on this thread.
fn lower_text() -> Option<String> {
    if !gate().mpi_is(MpiState::Initialised) {
        return None;
    }
    let mut buffer = [0u8; 1024];
    // SAFETY: the service writes at most that many bytes.
    let n = unsafe { lower::service::error_string(buffer.as_mut_ptr(), buffer.len()) };
    let text = buffer.get(..n)?;
    (!text.is_empty()).then(|| String::from_utf8_lossy(text).trim_end().to_owned())
}

fn die(code: i32, function: &str, on: &str) -> ! {
    let text = text_of(code).unwrap_or_else(|| format!("error code {code}"));
    let below = lower_text().map_or_else(String::new, |text| format!("; the MPI library: {text}"));
    fatal(
        &format!("{function} failed on {on}: {text}{below} (MPI_ERRORS_ARE_FATAL: the job ends)"),
        if code == 0 { 1 } else { code },
    )
}

/// What a handler of the application is called with.
type User = unsafe extern "C" fn(*mut usize, *mut i32, ...);

fn run<B: Body>(
    handler: Handler,
    object: &Object<B>,
    code: i32,
    function: &str,
    on: impl Fn() -> String,
) -> i32 {
    match handler {
        Handler::Return => {}
        Handler::Fatal | Handler::Abort | Handler::Null => die(code, function, &on()),
        Handler::User(address) | Handler::Fortran(address) => {
            let mut handle = match handler {
                Handler::Fortran(_) => (abi().fortran_of)(B::KIND, object.index()) as usize,
                _ => object.handle(),
            };
            let mut out = (abi().error_out)(code);
            wrapper::outside(|| {
                // SAFETY: the application registered this function for the kind of object that it is
                // called for. A handle of 4 bytes is the low half of the word (little-endian).
                unsafe {
                    let user: User = core::mem::transmute::<usize, User>(address);
                    user(&raw mut handle, &raw mut out);
                }
            });
        }
    }
    code
}

/// What the front calls when a function failed with `code` on `comm`: runs the error handler and
/// gives the code back where that returns.
#[cold]
pub fn raise_comm(comm: &'static Comm, code: i32, function: &str) -> i32 {
    if crate::start::has_lower_half() {
        if gate().mpi_is(MpiState::NotInitialised) {
            fatal(&format!("{function} was called before MPI_Init"), 1);
        }
        if gate().mpi_is(MpiState::Finalised) {
            fatal(&format!("{function} was called after MPI_Finalize"), 1);
        }
    }
    message::forget_blame();
    let comm = if comm.is_null() {
        Comm::at(comm::COMM_WORLD as u32)
    } else {
        comm
    };
    let handler = comm.body.handler();
    run(handler, comm, code, function, || comm.body.describe())
}

/// The same for a window.
#[cold]
pub fn raise_win(win: &'static Win, code: i32, function: &str) -> i32 {
    if win.is_null() {
        return raise_comm(Comm::null(), code, function);
    }
    let handler = win.body.handler();
    run(handler, win, code, function, || "a window".to_owned())
}

/// The same for a file. MPI_FILE_NULL has the handler for errors without a file.
#[cold]
pub fn raise_file(file: &'static File, code: i32, function: &str) -> i32 {
    let handler = file.body.handler();
    run(handler, file, code, function, || "a file".to_owned())
}

/// The same for a session.
#[cold]
pub fn raise_session(session: &'static Session, code: i32, function: &str) -> i32 {
    let handler = session.body.handler();
    run(handler, session, code, function, || "a session".to_owned())
}

/// Says that a function is not supported and what there is to do, whatever the error handler then does.
pub fn unsupported(function: &str, advice: &str) {
    advise(&format!(
        "{function} is not supported by Stasis: {advice} (docs/not-supported.md)"
    ));
}

/// Prints a line on standard error, where there is somebody to print it.
pub(crate) fn advise(text: &str) {
    if !crate::start::has_lower_half() {
        return;
    }
    // SAFETY: the service reads the text.
    unsafe { lower::service::message(text.as_ptr(), text.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_text_of_its_own() {
        for class in SUCCESS..=ERR_ABI {
            assert!(text_of(class).is_some(), "class {class}");
        }
        assert_eq!(
            text_of(ERR_RANK).as_deref(),
            Some("MPI_ERR_RANK: invalid rank")
        );
        assert!(text_of(ERR_LASTCODE).is_none());
    }

    #[test]
    fn user_defined_codes_have_class_and_text() {
        let (mut class, mut code, mut length) = (0, 0, 0);
        let mut text = [0 as c_char; STRING_BYTES];
        // SAFETY: all pointers are to locals of the right size.
        unsafe {
            assert_eq!(add_error_class(&mut class), SUCCESS);
            assert_eq!(add_error_code(class, &mut code), SUCCESS);
            assert_eq!(add_error_string(code, c"too hot".as_ptr()), SUCCESS);
            assert_eq!(error_string(code, text.as_mut_ptr(), &mut length), SUCCESS);
            assert_eq!(CStr::from_ptr(text.as_ptr()), c"too hot");
            let mut found = 0;
            assert_eq!(error_class(code, &mut found), SUCCESS);
            assert_eq!(found, class);
            assert_eq!(add_error_string(ERR_RANK, c"no".as_ptr()), ERR_ARG);
        }
        assert!(class > ERR_LASTCODE && length == 7);
    }
}
