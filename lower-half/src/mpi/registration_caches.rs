//! Caches of registered memory in the MPI library, and the memory that the application gives back.
//!
//! A library that sends from the application's memory over RDMA registers it with the network adapter, and keeps the
//! registration for the next message from there. From hooks in its C library it learns of `munmap` and its like. The
//! application calls another C library. So the loader hears of the call, and tells the caches before it is made.
//!
//! Open MPI and UCX have functions for this. Other caches are off (`start/library_env.rs`): those of libfabric and
//! MVAPICH have no function that is reached here, and a UCX that the library loads in MPI_Init is not seen in time.
//!
//! To add a cache: a name in [`TOLD_BY`], its type in [`Teller`], and its settings in `start/library_env.rs`.
//!
//! # Safety
//! The functions are looked up by names that have had one type in all versions of their libraries. Their libraries stay
//! loaded, since the handles are never closed.
#![allow(unsafe_code)]

use core::ffi::{c_void, CStr};
use core::mem::transmute;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::ops::Range;
use std::sync::OnceLock;

use contract::ARENA_END;

/// UCX (`ucm/api/ucm.h`). Of the library's own memory it learns by its hooks.
pub const UCX: &CStr = c"ucm_vm_munmap";
/// Open MPI (`opal/memoryhooks/memory_internal.h`). It tells UCX, if it has taken over UCX's events.
pub const OPEN_MPI: &CStr = c"opal_mem_hooks_release_hook";

const TOLD_BY: [&CStr; 2] = [UCX, OPEN_MPI];

/// A function that tells a cache of memory which is given back.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Teller {
    address: usize,
    name: &'static CStr,
}

impl Teller {
    fn tell(&self, range: &Range<usize>) {
        type Ucx = unsafe extern "C" fn(*mut c_void, usize);
        type OpenMpi = unsafe extern "C" fn(*mut c_void, usize, bool);
        let (start, bytes) = (range.start as *mut c_void, range.len());
        // SAFETY: the types are right, see the head; the range is compared with those of registrations. Open MPI is
        // told that the call is not made by its own allocator.
        unsafe {
            match self.name == UCX {
                true => transmute::<usize, Ucx>(self.address)(start, bytes),
                false => transmute::<usize, OpenMpi>(self.address)(start, bytes, false),
            }
        }
    }
}

static TELLERS: OnceLock<Vec<Teller>> = OnceLock::new();

/// Tells the loaded caches of what the application gives back from now on. MPI is initialised: what it needs is loaded.
/// Nothing is told where the caches are off, so that calls of the application cost nothing there.
pub(super) fn watch() {
    if TOLD_BY.into_iter().any(is_told_by) {
        TELLERS.get_or_init(find);
        loader::tell_unmaps(tell);
    }
}

/// Gives up all registrations of the application's memory that no operation uses.
pub fn forget() {
    tell(0..ARENA_END);
}

fn tell(range: Range<usize>) {
    for teller in TELLERS.get().into_iter().flatten() {
        teller.tell(&range);
    }
}

/// Whether the program has this function, so that its cache will be told.
pub fn is_told_by(name: &'static CStr) -> bool {
    teller(None, name).is_some()
}

/// The function in a loaded library, or in the libraries that it needs; without a library, in the whole program.
fn teller(library: Option<&CStr>, name: &'static CStr) -> Option<Teller> {
    // SAFETY: a path and a name. A library that is not loaded is not opened.
    let address = unsafe {
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
        let handle = library.map_or(libc::RTLD_DEFAULT, |path| {
            libc::dlopen(path.as_ptr(), flags)
        });
        match library.is_some() && handle.is_null() {
            true => return None,
            false => libc::dlsym(handle, name.as_ptr()) as usize,
        }
    };
    (address != 0).then_some(Teller { address, name })
}

/// The functions of all loaded libraries. Components of a library are out of the sight of the whole program, and may
/// have another copy of UCX.
fn find() -> Vec<Teller> {
    let code = |mapping: &loader::Mapping| mapping.start >= ARENA_END && mapping.prot & 4 != 0;
    let mappings = loader::read_maps().unwrap_or_default();
    let files = mappings.into_iter().filter(code).map(|found| found.name);
    let files = files.filter(|name| name.starts_with('/'));
    let files: BTreeSet<_> = files.filter_map(|name| CString::new(name).ok()).collect();
    let of = |file: &CString| TOLD_BY.map(|name| teller(Some(file), name));
    let found: BTreeSet<_> = files.iter().flat_map(of).flatten().collect();
    found.into_iter().collect()
}
