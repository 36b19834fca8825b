//! What the two halves of a rank agree on: addresses, the gate, per-thread state, and the values
//! that cross. Everything here is `repr(C)`, versioned by [`VERSION`], and has its layout asserted
//! at compile time, because an upper half that was saved by one build is met again by another.
#![no_std]

pub mod abi;
mod gate;
mod layout;
pub mod service;
mod thread;

pub use gate::{
    gate, Activity, ActivityKind, Clock, Gate, LowerInfo, MpiState, Phase, UpperEntry,
    ACTIVITY_RANKS, CLOCKS, DRAIN_CLOCK, GROUP_CLOCKS, SLOTS, TWO_PHASE_COMMIT,
};
pub use layout::{
    ARENA_END, ARENA_START, CLOCKS_ADDRESS, CLOCKS_BYTES, GATE_ADDRESS, GATE_BYTES, VDSO_ADDRESS,
    VDSO_BYTES, VDSO_SLOTS_ADDRESS,
};
pub use service::{HandleKind, Service, FIRST_MPI_SLOT, INTERRUPTED};
pub use thread::{ThreadBlock, NO_CALL_YET, SIDE_STACK_DEPTH, STOP_WANTED, TELL_CALLS};

/// Version of the whole contract; an image records it and a lower half refuses any other.
pub const VERSION: u32 = 2;

/// Of <linux/prctl.h>, which `libc` has for Android only: system calls of some addresses raise SIGSYS.
pub const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;

/// System call number with which upper-half code parks the calling thread at once. The kernel
/// never sees it: the handler of trapped system calls does the parking, and the trapped frame is
/// the thread's saved state. Returns 0 when the job goes on, 1 when it was restarted.
pub const STOP_SYSCALL: u64 = 0x5354_4f50;
