//! User-defined operations. The library calls a trampoline of this half, which calls the upper half's function. The
//! library passes no user data to a trampoline, so each operation has a trampoline of its own.
//!
//! # Safety
//! A trampoline is only reachable through an MPI_Op that [`create`] made after it had filled the
//! trampoline's entry, and the upper half keeps callback and data valid until it releases the
//! operation. The library calls it with valid pointers.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use contract::service::OpCallback;
use mpi_sys::{MPI_Datatype, MPI_Op};

use super::convert::handle::{handle, lower};
use super::convert::value_map::NATIVE_SUCCESS;
use super::predefined::NONE;
use super::upper_call::call_upper;

type Trampoline = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut MPI_Datatype);

static TRAMPOLINES: &[Trampoline] = &include!(concat!(env!("OUT_DIR"), "/trampolines.rs"));

/// An application of an operation.
pub struct Applied {
    /// The upper half's data of the operation.
    pub data: usize,
    /// The vectors.
    pub invec: *mut c_void,
    /// The second, which gets the result.
    pub inoutvec: *mut c_void,
    /// Their length.
    pub length: c_int,
    /// Lower handle of their datatype.
    pub datatype: usize,
}

/// Function that is told of each application.
static OBSERVER: OnceLock<fn(&Applied)> = OnceLock::new();

/// Tells a function of each application from now on.
pub fn observe(observer: fn(&Applied)) {
    OBSERVER.get_or_init(|| observer);
}

/// Applies an operation that lives. `None` if there is none.
pub fn apply(applied: &Applied) -> Option<()> {
    let mut live = ENTRIES.iter();
    let its = live.find(|entry| entry.data.load(Ordering::Acquire) == applied.data)?;
    let callback = its.callback.load(Ordering::Acquire);
    (callback != 0).then(|| call(callback, applied))
}

fn call(callback: usize, applied: &Applied) {
    let arguments = [
        applied.data,
        applied.invec as usize,
        applied.inoutvec as usize,
        applied.length as usize,
        applied.datatype,
    ];
    // SAFETY: see the head of this file; the arguments are those of `OpCallback`.
    unsafe { call_upper(callback, arguments) };
}

/// Callback and data of a trampoline.
struct Entry {
    callback: AtomicUsize,
    data: AtomicUsize,
}

static ENTRIES: [Entry; TRAMPOLINES.len()] = [const {
    Entry {
        callback: AtomicUsize::new(0),
        data: AtomicUsize::new(0),
    }
}; TRAMPOLINES.len()];

/// The lower handle of the operation that uses each trampoline (0 for none), and the next entry to try. Entries are
/// used in turn, so that an entry is not used again soon after its operation was freed.
struct Owners {
    handles: [usize; TRAMPOLINES.len()],
    next: usize,
}

static OWNERS: Mutex<Owners> = Mutex::new(Owners {
    handles: [0; TRAMPOLINES.len()],
    next: 0,
});

unsafe extern "C" fn trampoline<const NUMBER: usize>(
    invec: *mut c_void,
    inoutvec: *mut c_void,
    len: *mut c_int,
    datatype: *mut MPI_Datatype,
) {
    let entry = &ENTRIES[NUMBER];
    let callback = entry.callback.load(Ordering::Acquire);
    let data = entry.data.load(Ordering::Acquire);
    // SAFETY: see the head of this file.
    let (length, datatype) = unsafe { (*len, lower(*datatype)) };
    let applied = Applied {
        data,
        invec,
        inoutvec,
        length,
        datatype,
    };
    if let Some(observer) = OBSERVER.get() {
        observer(&applied);
    }
    call(callback, &applied);
}

/// Creates an operation that calls `callback(data, ...)`. Returns its lower handle, or [`NONE`].
pub fn create(callback: OpCallback, data: usize, commute: i32) -> usize {
    let mut owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
    let start = owners.next;
    let mut candidates = (0..TRAMPOLINES.len()).map(|i| (start + i) % TRAMPOLINES.len());
    let Some(number) = candidates.find(|number| owners.handles[*number] == 0) else {
        return NONE;
    };
    ENTRIES[number]
        .callback
        .store(callback as *const () as usize, Ordering::Release);
    ENTRIES[number].data.store(data, Ordering::Release);
    let mut op: MPI_Op = handle(0);
    // SAFETY: the trampoline's entry is filled.
    let code = unsafe { mpi_sys::MPI_Op_create(Some(TRAMPOLINES[number]), commute, &mut op) };
    if code != NATIVE_SUCCESS {
        return NONE;
    }
    owners.handles[number] = lower(op);
    owners.next = (number + 1) % TRAMPOLINES.len();
    lower(op)
}

/// Frees an operation that [`create`] made.
pub fn release(op_handle: usize) {
    let mut owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(owner) = owners.handles.iter_mut().find(|owner| **owner == op_handle) else {
        return;
    };
    *owner = 0;
    let mut op: MPI_Op = handle(op_handle);
    // SAFETY: an operation that `create` made and that is not freed yet.
    unsafe { mpi_sys::MPI_Op_free(&mut op) };
}
