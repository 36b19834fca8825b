//! The interface to the kernel and the processor: system calls without the C library, registers, signal frames, clocks,
//! descriptors. Nothing here depends on the rest of the crate.

pub mod c_library;
pub mod clock;
pub mod context;
pub mod cpu;
pub mod descriptor;
pub mod file_system;
pub mod fp_state;
pub mod kill_timer;
pub mod lower_thread;
pub mod mutex;
pub mod proc_maps;
pub mod spin_lock;
pub mod syscall;
pub mod timespec;
pub mod user_copy;
pub mod vectors;
pub mod zeros;
