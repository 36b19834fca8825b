//! User-defined operations: the library calls a trampoline of this half, which calls the upper
//! half's function. The library passes no data of ours to it, so there is one trampoline for each
//! operation that may exist at a time.
//!
//! # Safety
//! A trampoline is only reachable through an MPI_Op that [`create`] made after it had filled the
//! trampoline's entry, and the upper half keeps callback and data valid until it releases the
//! operation. The library calls it with valid pointers.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use contract::service::OpCallback;
use mpi_sys::{MPI_Datatype, MPI_Op};

use super::crossing::call_upper;
use super::handle::{handle, word};
use super::predefined::NONE;
use super::values::NATIVE_SUCCESS;

type Trampoline = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut MPI_Datatype);

static TRAMPOLINES: &[Trampoline] = &include!(concat!(env!("OUT_DIR"), "/trampolines.rs"));

/// What a trampoline calls.
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

/// Which operation uses each trampoline (its word, 0 for none), and where to look next: entries are
/// used in turn, so that one is not used again soon after its operation was freed.
struct Owners {
    words: [usize; TRAMPOLINES.len()],
    next: usize,
}

static OWNERS: Mutex<Owners> = Mutex::new(Owners {
    words: [0; TRAMPOLINES.len()],
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
    // SAFETY: see the head of this file; the arguments are those of `OpCallback`.
    unsafe {
        let arguments = [
            data,
            invec as usize,
            inoutvec as usize,
            *len as usize,
            word(*datatype),
        ];
        call_upper(callback, arguments);
    }
}

/// Makes an operation that calls `callback(data, ...)`; its word, or [`NONE`].
pub fn create(callback: OpCallback, data: usize, commute: i32) -> usize {
    let mut owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
    let start = owners.next;
    let mut candidates = (0..TRAMPOLINES.len()).map(|i| (start + i) % TRAMPOLINES.len());
    let Some(number) = candidates.find(|number| owners.words[*number] == 0) else {
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
    owners.words[number] = word(op);
    owners.next = (number + 1) % TRAMPOLINES.len();
    word(op)
}

/// Frees what [`create`] made.
pub fn release(op_word: usize) {
    let mut owners = OWNERS.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(owner) = owners.words.iter_mut().find(|owner| **owner == op_word) else {
        return;
    };
    *owner = 0;
    let mut op: MPI_Op = handle(op_word);
    // SAFETY: an operation that `create` made and nobody freed yet.
    unsafe { mpi_sys::MPI_Op_free(&mut op) };
}
