//! The datatypes that exist in the library. A job that ends with its checkpoint never frees its datatypes, and
//! MPI_Finalize of MPICH prints a warning about them (`yaksa: 4 leaked handle pool objects`).

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::convert::handle::handle;

static LIVE: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

fn live() -> MutexGuard<'static, BTreeSet<usize>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A datatype with this lower handle was created.
pub fn made(lower: usize) {
    live().insert(lower);
}

/// The datatype is about to be freed.
pub fn freed(lower: usize) {
    live().remove(&lower);
}

/// Frees the remaining datatypes. No thread of the application runs any more.
#[allow(unsafe_code)]
pub fn free_all() {
    for lower in core::mem::take(&mut *live()) {
        let mut native = handle(lower);
        // SAFETY: the lower handle of a live datatype. An error, for a predefined datatype, is returned and ignored.
        unsafe { mpi_sys::MPI_Type_free(&mut native) };
    }
}
