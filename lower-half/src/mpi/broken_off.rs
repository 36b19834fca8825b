//! The functions of MPI in a survivor of another rank's death, before the program asks for the reload (MPI Stages). The
//! library is not initialised then. So the slots of the gate lead to one function, which returns the error class
//! MPIX_TRY_RELOAD, whatever its arguments are.
//!
//! # Safety
//! Called only by stubs. A function that reads no argument may be called with any in this calling convention.
#![allow(unsafe_code)]

use core::sync::atomic::Ordering;

use contract::{abi, gate, Gate, FIRST_MPI_SLOT, SLOTS};

use super::{adapter, hooks, polling_services, service, world};

/// Functions that return no error class. The upper half answers those that programs call.
const NO_CLASS: [&str; 4] = ["MPI_Wtime", "MPI_Wtick", "MPI_Aint_add", "MPI_Aint_diff"];

/// Has all functions of MPI fail.
pub fn break_off(gate: &Gate) {
    hooks::break_off(end);
    let slots = (FIRST_MPI_SLOT..SLOTS).filter(|slot| has_class(*slot));
    // They stand for functions of MPI.
    let services = polling_services::ALL
        .iter()
        .map(|service| *service as usize);
    for slot in slots.chain(services) {
        gate.slots[slot].store(try_reload as *const () as usize, Ordering::Relaxed);
    }
    let abort = (FIRST_MPI_SLOT..SLOTS).find(|slot| adapter::name_of(*slot) == Some("MPI_Abort"));
    if let Some(slot) = abort {
        gate.slots[slot].store(aborted as *const () as usize, Ordering::Relaxed);
    }
}

fn has_class(slot: usize) -> bool {
    adapter::name_of(slot).is_some_and(|name| !NO_CLASS.contains(&name))
}

/// The library is about to be initialised: the functions are themselves again.
fn end() {
    service::fill(gate());
    adapter::fill(gate());
}

extern "C" fn try_reload() -> i32 {
    abi::ERR_TRY_RELOAD
}

/// MPI_Abort.
extern "C" fn aborted(_comm: usize, code: i32) -> i32 {
    world::abort(code)
}
