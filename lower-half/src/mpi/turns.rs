//! Threads of a program that calls MPI from several of them below MPI_THREAD_MULTIPLE: the library takes no
//! locks then. Without Stasis that goes well as long as they do not meet; but while a checkpoint is pending a
//! thread that waits looks at what others have under way, and would meet them. So calls that do not wait take
//! turns from the moment in which there are several threads. Those that wait inside the library cannot: what
//! they wait for may have to come from another thread.
//!
//! A callback of the application may call MPI again on the same thread, inside of its turn.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::world;
use contract::abi;

static SEVERAL: AtomicBool = AtomicBool::new(false);
/// The thread whose turn it is, by the address of its block; 0 if it is nobody's.
static WHOSE: AtomicUsize = AtomicUsize::new(0);

/// Several threads call MPI from now on.
pub fn begin() {
    if world::thread_level() < abi::THREAD_MULTIPLE {
        SEVERAL.store(true, Ordering::SeqCst);
    }
}

/// A thread's turn.
#[must_use]
pub struct Turn {
    taken: bool,
}

/// Waits for the calling thread's turn, where threads take turns.
#[inline(always)]
pub fn turn() -> Turn {
    let taken = SEVERAL.load(Ordering::Relaxed) && take();
    Turn { taken }
}

/// Whether the turn was not the thread's already.
#[cold]
fn take() -> bool {
    let own = loader::thread_address();
    if WHOSE.load(Ordering::Relaxed) == own {
        return false;
    }
    while WHOSE
        .compare_exchange_weak(0, own, Ordering::Acquire, Ordering::Relaxed)
        .is_err()
    {
        std::thread::yield_now();
    }
    true
}

impl Drop for Turn {
    #[inline(always)]
    fn drop(&mut self) {
        if self.taken {
            WHOSE.store(0, Ordering::Release);
        }
    }
}
