//! Opening the library.

use core::ffi::{c_void, CStr};
use core::sync::atomic::Ordering;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{FUNCTIONS, NAMES};

/// Functions without which a library is none of MPI: they return no error code, or begin everything.
const NEEDED: [&CStr; 3] = [c"MPI_Init_thread", c"MPI_Wtime", c"MPI_Wtick"];

/// Why a library cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The dynamic linker refuses it.
    #[error("the MPI library {} cannot be loaded: {why}", path.display())]
    Refused {
        /// The library.
        path: PathBuf,
        /// The linker's words.
        why: String,
    },
    /// It lacks a function.
    #[error(
        "{} has no {function}, so it is no MPI library: name the libmpi_abi.so.1 of one", path.display()
    )]
    NoMpi {
        /// The library.
        path: PathBuf,
        /// The function.
        function: String,
    },
}

/// Loads the library, for the whole process, and finds its functions. It is never unloaded.
///
/// # Errors
/// [`LoadError::Refused`] by the dynamic linker; [`LoadError::NoMpi`] if it is no MPI library.
pub fn load(path: &Path) -> Result<(), LoadError> {
    let refused = |why: String| LoadError::Refused {
        path: path.to_owned(),
        why,
    };
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|why| refused(why.to_string()))?;
    // Components of the library look for its symbols in the whole program.
    let flags = libc::RTLD_NOW | libc::RTLD_GLOBAL;
    // SAFETY: a path. The constructors of an MPI library are as safe as at the start of a program linked with it.
    let library = unsafe { libc::dlopen(name.as_ptr(), flags) };
    if library.is_null() {
        return Err(refused(last_error()));
    }
    for name in NEEDED {
        if find(library, name).is_null() {
            return Err(LoadError::NoMpi {
                path: path.to_owned(),
                function: name.to_string_lossy().into_owned(),
            });
        }
    }
    for (slot, name) in FUNCTIONS.iter().zip(NAMES) {
        let found = find(library, name);
        if !found.is_null() {
            slot.store(found, Ordering::Relaxed);
        }
    }
    Ok(())
}

fn find(library: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: a library that is open, and a name.
    unsafe { libc::dlsym(library, name.as_ptr()) }
}

/// The dynamic linker's last words.
fn last_error() -> String {
    // SAFETY: the text stays until the next call of the dynamic linker on this thread.
    let text = unsafe {
        let text = libc::dlerror();
        (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
    };
    text.unwrap_or_else(|| "no reason is given".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_mpi_library_is_named() {
        let error = load(Path::new("/nowhere/libmpi_abi.so.1")).unwrap_err();
        assert!(error.to_string().contains("/nowhere/libmpi_abi.so.1"));
        let error = load(Path::new("libc.so.6")).unwrap_err();
        assert!(error.to_string().contains("MPI_Init_thread"), "{error}");
    }
}
