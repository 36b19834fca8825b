//! Turns for a thread that waits in the MPI library: the library calls a function of this file while it makes progress,
//! and the function calls the upper half's [`contract::Gate::turn`] while a checkpoint is pending. It also yields the
//! processor if it is shared (`backoff.rs`).
//!
//! No MPI library documents such a function. Open MPI has one for its own components. MPICH over UCX calls
//! `ucp_worker_progress` of another library, and finds the one of this program first. MPICH over libfabric makes its
//! completion queues by `fi_fabric`, of which the same is true (`progress_turn/ofi.rs`). With another library a
//! blocking collective operation that has begun is completed before the cut.
//!
//! To add a library: find what each of its waits passes, at a place where the library may be called, and let it call
//! [`turn`]; set [`SERVED`] when that is sure to happen.
//!
//! # Safety
//! The functions of the libraries are declared as in their headers. Where they call, the library holds no lock, as long
//! as its thread level is below MPI_THREAD_MULTIPLE; above, the upper half wants no turns. The upper half's function is
//! called as `contract` says.
#![allow(unsafe_code)]

use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};

use contract::gate;

use super::upper_call;

/// Whether the library calls.
static SERVED: AtomicBool = AtomicBool::new(false);

/// Whether a thread gets turns while it waits in the library.
pub fn is_served() -> bool {
    SERVED.load(Ordering::Relaxed)
}

thread_local! {
    /// Whether the thread is in a turn, in which it may call the library.
    static IN_TURN: Cell<bool> = const { Cell::new(false) };
}

/// Whether a checkpoint is pending. The gate says it, too, but is not mapped while MPI is initialised for a restart.
static PENDING: AtomicBool = AtomicBool::new(false);

/// A checkpoint begins to be pending, or ends.
pub fn set_pending(pending: bool) {
    PENDING.store(pending, Ordering::Release);
}

/// Gives the upper half a turn if a checkpoint is pending.
#[inline(always)]
fn turn() {
    if PENDING.load(Ordering::Acquire) {
        give();
    }
}

#[cold]
fn give() {
    let upper = gate().turn.load(Ordering::Acquire);
    if upper == 0 || !upper_call::has_thread_block() || IN_TURN.replace(true) {
        return;
    }
    // SAFETY: a function without arguments, on a thread of the upper half.
    unsafe { upper_call::call_upper(upper, [0; 5]) };
    IN_TURN.set(false);
}

/// Open MPI: registers a callback of the progress engine, of the kind that is called at every eighth turn. Called once,
/// when MPI is initialised.
#[cfg(native_mpi = "openmpi")]
pub fn start() {
    use super::backoff::library;
    use core::ffi::c_int;

    /// Turns of the progress engine from one callback to the next.
    const TURNS: u32 = 8;
    type Callback = extern "C" fn() -> c_int;
    type Register = unsafe extern "C" fn(Callback) -> c_int;

    extern "C" fn progress() -> c_int {
        turn();
        library::has_polled(TURNS, false);
        0
    }
    // SAFETY: a name; the function, if there is one, has this type in all versions of Open MPI.
    let registered = unsafe {
        let register = libc::dlsym(libc::RTLD_DEFAULT, c"opal_progress_register_lp".as_ptr());
        !register.is_null()
            && core::mem::transmute::<*mut libc::c_void, Register>(register)(progress) == 0
    };
    SERVED.store(registered, Ordering::Relaxed);
}

/// MPICH and libraries of the standard ABI: nothing is to be registered.
#[cfg(not(native_mpi = "openmpi"))]
pub fn start() {}

#[cfg(not(native_mpi = "openmpi"))]
mod ofi;

#[cfg(any(test, not(native_mpi = "openmpi")))]
pub(super) mod ucx {
    use core::ffi::{c_uint, c_void, CStr};
    use core::sync::atomic::{AtomicUsize, Ordering};

    use crate::mpi::backoff::library;

    type Progress = unsafe extern "C" fn(*mut c_void) -> c_uint;

    static REAL: AtomicUsize = AtomicUsize::new(0);

    /// UCX's function of this name, with a turn before it, and maybe a yield of the processor after it.
    ///
    /// # Safety
    /// That of UCX's function.
    #[no_mangle]
    pub unsafe extern "C" fn ucp_worker_progress(worker: *mut c_void) -> c_uint {
        let real = match REAL.load(Ordering::Relaxed) {
            0 => find_progress(),
            real => real,
        };
        super::turn();
        // SAFETY: the function that the caller has meant.
        let events = unsafe { core::mem::transmute::<usize, Progress>(real)(worker) };
        library::has_polled(1, events > 0);
        events
    }

    #[cold]
    fn find_progress() -> usize {
        let real = find(c"ucp_worker_progress");
        REAL.store(real, Ordering::Relaxed);
        super::SERVED.store(true, Ordering::Relaxed);
        real
    }

    /// Address of a function of UCX that is being called, and for which this program has one of the same name.
    pub fn find(name: &CStr) -> usize {
        // A provider of libfabric's may have loaded UCX out of the sight of the whole program.
        // SAFETY: names. The library is loaded, since it is being called.
        unsafe {
            let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
            let library = libc::dlopen(c"libucp.so.0".as_ptr(), flags);
            let library = Some(library).filter(|library| !library.is_null());
            libc::dlsym(library.unwrap_or(libc::RTLD_NEXT), name.as_ptr()) as usize
        }
    }
}
