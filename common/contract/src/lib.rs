//! The ABI between the two halves of a rank: addresses, the gate, the per-thread state, and the values that cross.
//!
//! A lower half of another build may restart an upper half that was saved. So all types are `repr(C)`, their layouts
//! are asserted at compile time, and [`VERSION`] is the version of the whole.
//!
//! # Examples
//! An agent reads a state that a thread of the upper half writes, and gets all of it or nothing:
//! ```
//! use stasis_contract::waits::{read, write};
//! use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
//!
//! let (version, state) = (AtomicU64::new(0), [AtomicU64::new(0), AtomicU64::new(0)]);
//! let look = || read(&version, || state.each_ref().map(|word| word.load(Relaxed)));
//! write(&version, || {
//!     state[0].store(1, Relaxed);
//!     assert_eq!(look(), None); // half of it is written
//!     state[1].store(2, Relaxed);
//! });
//! assert_eq!(look(), Some([1, 2]));
//! ```
#![no_std]

pub mod abi;
mod gate;
mod kernel;
mod layout;
pub mod profile;
pub mod record;
pub mod recorder;
pub mod service;
mod thread;
pub mod waits;

pub use gate::{
    gate, is_clock_of_communicator, synchronous_sends_clock, Activity, ActivityKind, Clock, Gate,
    Gpu, GpuCall, GpuState, LowerInfo, MpiState, NoSurvivor, Phase, UpperEntry, ACTIVITY_RANKS,
    AT_BREAK, CLOCKS, CROSS_SLOW_ADDRESS, CUDA, CUDA_DRIVER, DRAIN_CLOCK, FREED_RECEIVE,
    GROUP_CLOCKS, RETRACTABLE, SLOTS, SLOTS_ADDRESS, TARGETS_ARE_KNOWN, TOOLS, TOOL_BREAK,
    TOOL_CONTENTS, TOOL_PERTURB, TOOL_PROFILE, TOOL_REDUCE, TOOL_REDUCE_VISIBLE, TWO_PHASE_COMMIT,
    WAITS_AT_BREAK,
};
pub use kernel::{
    ARCH_GET_FS, ARCH_GET_GS, ARCH_SET_FS, ARCH_SET_GS, MADV_GUARD_INSTALL,
    PR_SET_SYSCALL_USER_DISPATCH,
};
pub use layout::{
    is_of_sites, ARENA_END, ARENA_START, CLOCKS_ADDRESS, CLOCKS_BYTES, GATE_ADDRESS, GATE_BYTES,
    OWN_CLOCK, SITES_ADDRESS, SITES_BYTES, SITES_CODE_BYTES, VDSO_ADDRESS, VDSO_BYTES,
    VDSO_SLOTS_ADDRESS,
};
pub use service::{HandleKind, Service, END_OF_MPI_SLOTS, FIRST_MPI_SLOT, INTERRUPTED};
pub use thread::{
    SharedThreadBlock, ThreadBlock, COUNTED, COUNT_CALLS, HAS_TURN, NO_CALL_YET, SIDE_STACK_DEPTH,
    STOP_WANTED, TELL_CALLS,
};

/// Version of the contract. An image records it, and a lower half refuses an image with another version.
pub const VERSION: u32 = 5;

/// Signal that stops threads; hidden from the application.
pub const STOP_SIGNAL: i32 = 62;

/// Name of the memory that the upper half makes for a window and ranks on one node share (memfd_create(2)). Each rank's
/// image holds that rank's own memory of it. Other ranks map it in their lower halves only.
pub const WINDOW_MEMORY: &core::ffi::CStr = c"stasis-window";

/// System call number by which upper-half code parks the calling thread. It returns 0 when the job goes on, and 1 after
/// a restart. The kernel does not see the call: the handler of trapped system calls parks the thread, and the signal
/// frame of the trap is the thread's saved state.
pub const STOP_SYSCALL: u64 = 0x5354_4f50;
