//! Mutual exclusion of the threads of a program that calls MPI from several threads below MPI_THREAD_MULTIPLE. The
//! library takes no locks then. Natively this works as long as the calls do not overlap. But while a checkpoint is
//! pending, a waiting thread polls the operations of other threads, and its calls would overlap with theirs. So calls
//! that do not wait exclude each other as soon as there are several threads. Calls that wait inside the library cannot,
//! because the awaited message may have to be sent by another thread.
//!
//! A callback of the application may call MPI on the same thread, within the outer call.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::world;
use contract::abi;

static SEVERAL: AtomicBool = AtomicBool::new(false);
/// Address of the thread block of the thread in a call; 0 if there is none.
static WHOSE: AtomicUsize = AtomicUsize::new(0);

/// From now on several threads call MPI.
pub fn begin() {
    if world::thread_level() < abi::THREAD_MULTIPLE {
        SEVERAL.store(true, Ordering::SeqCst);
    }
}

/// The right of a thread to call the library.
#[must_use]
pub struct Turn {
    taken: bool,
}

/// Waits until the calling thread may call the library, if calls exclude each other.
#[inline(always)]
pub fn turn() -> Turn {
    let taken = SEVERAL.load(Ordering::Relaxed) && take();
    Turn { taken }
}

/// Waits for the turn. Returns whether it was not the thread's already.
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
