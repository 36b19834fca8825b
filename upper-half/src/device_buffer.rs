//! Buffers in memory of a GPU, which are refused by name. The MPI library runs beside a CUDA driver of its own, if it
//! has one at all, and that one does not know the program's memory. Without this the library would read or write an
//! address at which the process has nothing.
//!
//! The program's driver is asked (CUDA Driver API, "Unified Addressing"). A call waits in it from a freeze to a thaw
//! (`gpu.rs`). So it is asked before the guard of a call is taken, and not inside another call: a thread with a guard
//! is not stopped.
//!
//! # Safety
//! A function of the driver that the program has loaded is called with places of locals.
#![allow(unsafe_code)]

use crate::crossing::call_guard;
use crate::crossing::report::advise;
use crate::gpu::{self, CUDA_SUCCESS};
use crate::object::Comm;
use crate::tools;
use contract::abi::ROOT;
use contract::CUDA;
use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering};

const CU_POINTER_ATTRIBUTE_MEMORY_TYPE: u32 = 2;
const CU_POINTER_ATTRIBUTE_IS_MANAGED: u32 = 8;
const CU_MEMORYTYPE_DEVICE: u32 = 2;

/// cuPointerGetAttribute: where the value goes, which one it is, the address.
type GetAttribute = unsafe extern "C" fn(*mut u64, u32, usize) -> u32;

/// Address of cuPointerGetAttribute; 0 while it has not been looked for.
static GET_ATTRIBUTE: AtomicUsize = AtomicUsize::new(0);

/// Memory is looked at in pieces of this size. The driver hands out no smaller ones.
const PIECE: usize = 1 << 16;

/// Pieces that are not memory of a GPU, by the low bits of their number. The driver takes 0.7 us for an answer. If the
/// program gives such memory back, and its driver then puts memory of a GPU there, a call that uses it is not refused,
/// but fails as it does without Stasis.
static OF_MACHINE: [AtomicUsize; 256] = [const { AtomicUsize::new(0) }; 256];

fn is_of_machine(buffer: *const c_void) -> bool {
    let piece = buffer as usize / PIECE;
    // Special addresses, such as MPI_BOTTOM and MPI_IN_PLACE, are in the first piece or the last one.
    piece == 0 || OF_MACHINE[piece % OF_MACHINE.len()].load(Ordering::Relaxed) == piece
}

/// Which of a call's buffers are memory of a GPU: bit 0 is set for the first one. A call inside another one gets 0.
#[cold]
#[inline(never)]
pub fn find(buffers: &[*const c_void]) -> u32 {
    if !tools::is_set(CUDA) || buffers.iter().all(|buffer| is_of_machine(*buffer)) {
        return 0;
    }
    ask(buffers)
}

#[cold]
#[inline(never)]
fn ask(buffers: &[*const c_void]) -> u32 {
    if call_guard::is_inside() {
        return 0;
    }
    let Some(get) = get_attribute() else {
        return 0;
    };
    let bits = buffers.iter().enumerate();
    bits.fold(0, |found, (at, buffer)| {
        let piece = *buffer as usize / PIECE;
        let is = is_of_gpu(get, *buffer as usize);
        if !is {
            OF_MACHINE[piece % OF_MACHINE.len()].store(piece, Ordering::Relaxed);
        }
        found | u32::from(is) << at
    })
}

fn get_attribute() -> Option<GetAttribute> {
    let mut address = GET_ATTRIBUTE.load(Ordering::Relaxed);
    if address == 0 {
        address = gpu::function(c"cuPointerGetAttribute") as usize;
        if address == 0 {
            // The library that the linker has opened cannot be used, or is not the driver.
            tools::set(CUDA, false);
            return None;
        }
        GET_ATTRIBUTE.store(address, Ordering::Relaxed);
    }
    // SAFETY: the driver's function of this name, with its type.
    Some(unsafe { core::mem::transmute::<usize, GetAttribute>(address) })
}

/// Managed memory is memory of the process as well.
fn is_of_gpu(get: GetAttribute, address: usize) -> bool {
    let read = |attribute| {
        let mut value = 0;
        // SAFETY: values are at most one word long.
        let code = unsafe { get(&raw mut value, attribute, address) };
        // A value is four bytes or one byte long.
        (code == CUDA_SUCCESS).then_some(value as u32)
    };
    read(CU_POINTER_ATTRIBUTE_MEMORY_TYPE) == Some(CU_MEMORYTYPE_DEVICE)
        && read(CU_POINTER_ATTRIBUTE_IS_MANAGED).is_none_or(|managed| managed == 0)
}

/// Whether this process is the root of a collective operation.
pub fn is_root(comm: &'static Comm, root: i32) -> bool {
    let rank = match comm.body.inter {
        true => ROOT,
        false => comm.body.rank,
    };
    root == rank
}

/// Says that a buffer of this function is in memory of a GPU, and what there is to do.
#[cold]
pub fn refused(function: &str, buffer: *const c_void) {
    advise(&format!(
        "{function}: the buffer {buffer:p} is memory of a GPU, which the MPI library cannot use under Stasis. Copy the \
         data to memory of the machine before the call, or from there after it, as with an MPI library without CUDA \
         (docs/not-supported.md)"
    ));
}
