//! The ground that knows nothing of MPI: memory, locks, system calls, C arrays, the clock.
//!
//! This code runs beside the application's libc, in its threads, and sometimes while other threads are stopped
//! anywhere. So it has its own allocator, makes its own few system calls, and uses nothing of std that has
//! thread-local state or prints.

pub mod alloc;
pub mod lock;
pub(crate) mod reports;
pub(crate) mod sized_memory;
pub mod syscall;
pub(crate) mod wtime;
