//! Error classes, codes and texts, the application's own among them.

use crate::argument::{Out, Output};
use crate::crossing::app_abi::abi;
use crate::runtime::lock::Lock;
use contract::abi::*;
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
    (
        ERR_TRY_RELOAD,
        "MPIX_TRY_RELOAD",
        "another rank has died: MPIX_Checkpoint_read brings MPI back",
    ),
];

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
fn class_of(code: i32) -> Option<i32> {
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
pub fn error_class(code: i32, mut class: Out<'_, i32>) -> i32 {
    let Some(found) = class_of(code) else {
        return ERR_ARG;
    };
    class.set(found);
    SUCCESS
}

/// MPI_Error_string.
pub fn error_string(code: i32, mut string: Output<'_, c_char>, mut length: Out<'_, i32>) -> i32 {
    let Some(text) = text_of(code) else {
        return ERR_ARG;
    };
    length.set(string.text(text.as_bytes()));
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
pub fn add_error_class(mut class: Out<'_, i32>) -> i32 {
    class.set(define(None));
    SUCCESS
}

/// MPI_Add_error_code.
pub fn add_error_code(class: i32, mut code: Out<'_, i32>) -> i32 {
    if class_of(class) != Some(class) {
        return ERR_ARG;
    }
    code.set(define(Some(class)));
    SUCCESS
}

/// MPI_Add_error_string.
pub fn add_error_string(code: i32, string: &CStr) -> i32 {
    let mut all = DEFINED.lock();
    match defined_index(code).and_then(|index| all.get_mut(index)) {
        Some(defined) => {
            defined.text = string.to_bytes().to_vec();
            SUCCESS
        }
        None => ERR_ARG,
    }
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
        let (mut class, mut code, mut length, mut found) = (0, 0, 0, 0);
        let mut text = [0 as c_char; 256];
        assert_eq!(add_error_class((&mut class).into()), SUCCESS);
        assert_eq!(add_error_code(class, (&mut code).into()), SUCCESS);
        assert_eq!(add_error_string(code, c"too hot"), SUCCESS);
        let place = Output::from(&mut text[..]);
        assert_eq!(error_string(code, place, (&mut length).into()), SUCCESS);
        assert_eq!(text[..8], b"too hot\0".map(|byte| byte as c_char));
        assert_eq!(error_class(code, (&mut found).into()), SUCCESS);
        assert_eq!(found, class);
        assert_eq!(add_error_string(ERR_RANK, c"no"), ERR_ARG);
        assert!(class > ERR_LASTCODE && length == 7);
    }
}
