//! The datatypes that exist in the library. A job that ends with its checkpoint never frees its datatypes, and
//! MPI_Finalize of MPICH prints a warning about them (`yaksa: 4 leaked handle pool objects`).

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::convert::handle::handle;

/// Those that live, and their numbers in the order in which they were created.
#[derive(Default)]
struct Live {
    last: u64,
    numbers: BTreeMap<usize, u64>,
}

static LIVE: Mutex<Live> = Mutex::new(Live {
    last: 0,
    numbers: BTreeMap::new(),
});

fn live() -> MutexGuard<'static, Live> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A datatype with this lower handle was created.
pub fn made(lower: usize) {
    let mut live = live();
    live.last += 1;
    let number = live.last;
    live.numbers.insert(lower, number);
}

/// The datatype is about to be freed.
pub fn freed(lower: usize) {
    live().numbers.remove(&lower);
}

/// The number of a datatype. A rank that runs alone creates the same ones.
pub fn number(lower: usize) -> Option<u64> {
    live().numbers.get(&lower).copied()
}

/// The datatype with a number.
pub fn with_number(number: u64) -> Option<usize> {
    let live = live();
    let mut all = live.numbers.iter();
    all.find(|(_, its)| **its == number)
        .map(|(lower, _)| *lower)
}

/// Frees the remaining datatypes. No thread of the application runs any more.
#[allow(unsafe_code)]
pub fn free_all() {
    for lower in core::mem::take(&mut live().numbers).into_keys() {
        let mut native = handle(lower);
        // SAFETY: the lower handle of a live datatype. An error, for a predefined datatype, is returned and ignored.
        unsafe { mpi_sys::MPI_Type_free(&mut native) };
    }
}
