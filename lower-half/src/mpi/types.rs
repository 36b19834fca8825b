//! The datatypes that there are below. A job that ends with its checkpoint never comes to free its own, and MPICH,
//! when it is finalised, complains of what is left (`yaksa: 4 leaked handle pool objects`).

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::handle::handle;

static LIVE: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

fn live() -> MutexGuard<'static, BTreeSet<usize>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A datatype was made under this word.
pub fn made(word: usize) {
    live().insert(word);
}

/// It is about to be freed.
pub fn freed(word: usize) {
    live().remove(&word);
}

/// Frees those that are left. No thread of the application runs any more.
#[allow(unsafe_code)]
pub fn free_all() {
    for word in core::mem::take(&mut *live()) {
        let mut native = handle(word);
        // SAFETY: a word of this library, of a datatype that lives; an error (it is one of the library's own) is
        // returned, and means nothing here.
        unsafe { mpi_sys::MPI_Type_free(&mut native) };
    }
}
