//! Windows (one-sided communication).
//!
//! The library below is used for one thing only: moving data. Each window has one window below, made
//! over the same memory, on which every rank holds `MPI_Win_lock_all` for as long as it lives. All
//! synchronisation that the application asks for is built up here from what a checkpoint can already
//! look into, so that no rank ever blocks below for what another rank's program has yet to do:
//!
//! | the application calls | here |
//! |---|---|
//! | fence | flush all, a counted barrier ([`fence`](sync)) |
//! | post, start, complete, wait | flushes and empty messages ([`sync`]) |
//! | lock, unlock, lock_all | words in memory of ours, changed by atomic operations ([`lock`]) |
//! | put, get, flush | the same below |
//! | accumulate ... | the same below, or, over a library that does them wrong, here ([`accumulate`]) |
//!
//! Below a window of one process there is nothing at all ([`alone`]).
//!
//! Memory of the application lies in the upper half, whoever allocated it, and so do the words of
//! the locks: what is locked at the cut is locked after a restart. At the cut every operation is
//! flushed ([`create::flush`]); a restart makes the windows below anew over the same memory.
//!
//! # Safety
//! Strings and out parameters are the application's, as MPI prescribes them; crossings pass words
//! of live windows.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head

pub mod accumulate;
pub mod alone;
mod below;
pub(crate) mod create;
mod data;
mod guard;
mod large;
mod lock;
mod shared;
mod sync;
mod units;

pub use create::{
    win_allocate, win_allocate_shared, win_attach, win_create, win_create_dynamic, win_detach,
    win_free, win_shared_query,
};
pub use large::{win_allocate_c, win_allocate_shared_c, win_create_c, win_shared_query_c};
pub use lock::{win_lock, win_lock_all, win_unlock, win_unlock_all};
pub use sync::{win_complete, win_fence, win_post, win_start, win_test, win_wait};

use crate::attribute::Attributes;
use crate::comm::NAME_BYTES;
use crate::errhandler::{Current, Handler};
use crate::hints::OF_WINDOWS;
use crate::lower::Slot;
use crate::object::{Body, Comm, Info, Win};
use crate::sync::Lock;
use crate::{info, object_table};
use contract::abi::*;
use contract::HandleKind;
use core::ffi::{c_char, c_void, CStr};
use core::sync::atomic::{AtomicBool, Ordering};
use create::Memory;
use guard::Guards;
use lock::LockWords;
use std::ffi::CString;
use std::sync::Arc;
use units::Units;

/// Body of a window.
pub struct WinBody {
    errhandler: Current,
    pub(crate) attributes: Attributes,
    name: Lock<CString>,
    info: Lock<Vec<(CString, CString)>>,
    /// A duplicate of the communicator that the application named, for what ranks tell each other
    /// about the window.
    comm: &'static Comm,
    /// Standard values of MPI_WIN_CREATE_FLAVOR and MPI_WIN_MODEL, whose addresses are given out as
    /// those of the next three are.
    flavor: i32,
    model: i32,
    /// Start, bytes, and unit of displacements.
    base: usize,
    bytes: isize,
    unit: i32,
    units: Units,
    memory: Memory,
    /// Regions of a dynamic window: start and bytes.
    attached: Lock<Vec<(usize, isize)>>,
    locks: Box<LockWords>,
    /// Word of the window below over `locks`.
    locks_below: Slot<WinBody>,
    held: Lock<lock::Held>,
    /// Whether operations that must be atomic are done here: in a window of one process they always are.
    accumulates_here: AtomicBool,
    guards: Guards,
    /// Ranks between start and complete, and between post and wait.
    access: Lock<Option<Arc<[i32]>>>,
    exposure: Lock<Option<Vec<i32>>>,
    marks: sync::Marks,
}

impl Body for WinBody {
    const KIND: HandleKind = HandleKind::Win;
    const CAPACITY: u32 = 1 << 16;
    const NULL: usize = win::WIN_NULL;
    const PREDEFINED: &'static [(&'static str, usize)] = win::ALL;
    object_table!(WinBody);

    fn predefined(_index: u32) -> Self {
        let memory = Memory::Application;
        let unit = (1, Units::Same(1));
        WinBody::new(
            Comm::null(),
            WIN_FLAVOR_CREATE,
            memory,
            (0, 0),
            unit,
            vec![],
        )
    }
}

impl WinBody {
    fn new(
        comm: &'static Comm,
        flavor: i32,
        memory: Memory,
        (base, bytes): (usize, isize),
        (unit, units): (i32, Units),
        info: Vec<(CString, CString)>,
    ) -> WinBody {
        WinBody {
            errhandler: Current::predefined(errhandler::ERRORS_ARE_FATAL),
            attributes: Attributes::new(),
            name: Lock::new(CString::default()),
            info: Lock::new(info),
            comm,
            flavor,
            // Ours: after any synchronisation, what was put is what a load finds.
            model: WIN_UNIFIED,
            base,
            bytes,
            unit,
            units,
            memory,
            attached: Lock::new(Vec::new()),
            locks: Box::default(),
            locks_below: Slot::empty(),
            held: Lock::new(lock::Held::default()),
            accumulates_here: AtomicBool::new(comm.body.size == 1),
            guards: Guards::default(),
            access: Lock::new(None),
            exposure: Lock::new(None),
            marks: sync::Marks::default(),
        }
    }

    /// What is to be done on an error.
    pub fn handler(&self) -> Handler {
        self.errhandler.handler()
    }

    pub(crate) fn errhandler(&self) -> &Current {
        &self.errhandler
    }

    /// Whether it is a window of one process, below which there is none (see [`alone`]).
    #[inline(always)]
    pub fn is_alone(&self) -> bool {
        self.comm.body.size == 1
    }

    /// Whether what changes a target's memory atomically is done here ([`accumulate`]).
    #[inline(always)]
    pub fn accumulates_here(&self) -> bool {
        self.accumulates_here.load(Ordering::Relaxed)
    }

    /// A displacement at a rank in bytes, as the window below takes it.
    #[inline(always)]
    pub fn in_bytes(&self, displacement: isize, rank: i32) -> isize {
        displacement.wrapping_mul(self.units.of(rank))
    }

    /// World ranks of the window's group.
    pub(crate) fn members(&self) -> &Arc<[u32]> {
        self.comm.body.members()
    }
}

/// MPI_Win_get_attr for what MPI itself caches on a window.
pub(crate) unsafe fn own_attribute(
    win: &'static Win,
    keyval: i32,
    value: *mut c_void,
    flag: *mut i32,
) -> i32 {
    let body = &win.body;
    let found = match keyval {
        WIN_BASE => body.base,
        WIN_SIZE => (&raw const body.bytes) as usize,
        WIN_DISP_UNIT => (&raw const body.unit) as usize,
        WIN_CREATE_FLAVOR => (&raw const body.flavor) as usize,
        _ => (&raw const body.model) as usize,
    };
    // SAFETY: MPI's contract: `value` is a `void **`.
    unsafe {
        value.cast::<usize>().write(found);
        *flag = 1;
    }
    SUCCESS
}

/// MPI_Win_set_name.
pub unsafe fn win_set_name(win: &'static Win, name: *const c_char) -> i32 {
    if win.is_null() {
        return ERR_WIN;
    }
    // SAFETY: MPI's contract: a NUL-terminated string.
    *win.body.name.lock() = unsafe { CStr::from_ptr(name) }.to_owned();
    SUCCESS
}

/// MPI_Win_get_name.
pub unsafe fn win_get_name(win: &'static Win, name: *mut c_char, length: *mut i32) -> i32 {
    let known = win.body.name.lock();
    // SAFETY: MPI's contract: MPI_MAX_OBJECT_NAME bytes.
    unsafe { crate::error::write_string(known.as_bytes(), name, NAME_BYTES, length) };
    SUCCESS
}

/// MPI_Win_set_info. Hints are kept for MPI_Win_get_info; the library below is not told.
pub fn win_set_info(win: &'static Win, info: &'static Info) -> i32 {
    if win.is_null() {
        return ERR_WIN;
    }
    OF_WINDOWS.take(&mut win.body.info.lock(), info.body.entries());
    SUCCESS
}

/// MPI_Win_get_info.
pub unsafe fn win_get_info(win: &'static Win, out: *mut &'static Info) -> i32 {
    if win.is_null() {
        return ERR_WIN;
    }
    let entries = win.body.info.lock().clone();
    // SAFETY: passed on.
    unsafe { info::give(entries, out) }
}
