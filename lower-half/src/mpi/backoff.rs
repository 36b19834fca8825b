//! The point at which a poll that does not succeed yields its processor.

use core::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use contract::recorder::Event;
use nix::sys::resource::{getrusage, UsageWho};
use nix::unistd::{sysconf, SysconfVar};

/// Polls without success before a wait yields its processor. A yield costs latency, and is useless if each rank has a
/// core. If ranks share a core, the sender of the awaited message may need the core of the rank that waits, or one that
/// another job's rank keeps busy in the same way. Other jobs and masks of cores make this unknown in advance, so each
/// wait that yields adapts the number.
static PATIENCE: AtomicU32 = AtomicU32::new(PATIENT);
const PATIENT: u32 = 100_000;
const IMPATIENT: u32 = 100;
/// Upper bound of [`PATIENCE`].
static MOST: AtomicU32 = AtomicU32::new(PATIENT);

/// Sets the number of ranks on this machine.
pub fn set_ranks_here(ranks: u32) {
    let cores = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok().flatten();
    let crowded = cores.is_some_and(|cores| i64::from(ranks) > cores);
    let most = if crowded { IMPATIENT } else { PATIENT };
    MOST.store(most, Ordering::Relaxed);
    PATIENCE.store(most, Ordering::Relaxed);
}

/// Yields after which a wait is recorded as blocked. They take at least 64 us.
const YIELDS_OF_A_BLOCK: u32 = 64;

/// One wait.
#[derive(Default)]
pub struct Backoff {
    /// Polls without success that count.
    turns: u32,
    /// Yields of the processor.
    yields: u32,
}

impl Backoff {
    /// Counts one more poll without success, and yields the processor after enough of them.
    #[inline(always)]
    pub fn next_turn(&mut self) {
        self.turns += 1;
        if self.turns >= PATIENCE.load(Ordering::Relaxed) {
            self.give_way();
        }
    }

    #[cold]
    fn give_way(&mut self) {
        self.turns = give_way(self.turns);
        self.yields = self.yields.saturating_add(1);
        if self.yields == YIELDS_OF_A_BLOCK {
            loader::record(Event::Blocked, [u64::from(self.yields), 0]);
        }
    }

    /// The wait is over.
    #[inline(always)]
    pub fn end(&self) {
        if self.yields >= YIELDS_OF_A_BLOCK {
            loader::record(Event::Unblocked, [u64::from(self.yields), 0]);
        }
    }
}

/// Yields the processor, and adapts [`PATIENCE`] to the result. Returns the number of polls to continue counting from.
///
/// A thread that takes the processor and soon returns it is waiting too: then this wait yields early, at every poll, as
/// it always does if there are more ranks than cores. A thread that keeps the processor for long may be a rank that has
/// not adapted yet, or a program that computes. So a wait yields early at first, and later each time that this does not
/// help.
#[cold]
fn give_way(turns: u32) -> u32 {
    const TURNS_BETWEEN: u32 = 32;
    /// Less than any scheduler's time slice, and more than a rank needs for a message.
    const LONG: Duration = Duration::from_millis(1);
    let most = MOST.load(Ordering::Relaxed);
    if most == IMPATIENT {
        std::thread::yield_now();
        return turns - 1;
    }
    let patience = PATIENCE.load(Ordering::Relaxed);
    let longer = patience.saturating_mul(2).min(most);
    let (before, since) = (switches(), Instant::now());
    std::thread::yield_now();
    let (patience, turns) = if switches() == before {
        (longer, turns.saturating_sub(TURNS_BETWEEN))
    } else if since.elapsed() < LONG || patience == most {
        (IMPATIENT, IMPATIENT - 1)
    } else {
        (longer, 0)
    };
    PATIENCE.store(patience, Ordering::Relaxed);
    turns
}

/// Number of times that another thread took this thread's core. A yield does not count if no other thread wants the
/// core (getrusage(2): ru_nivcsw).
fn switches() -> i64 {
    let usage = getrusage(UsageWho::RUSAGE_THREAD);
    usage.map_or(0, |usage| usage.involuntary_context_switches())
}

/// Polls of the library's own by which it waits. Open MPI yields by itself.
#[cfg(not(native_mpi = "openmpi"))]
pub mod library {
    use core::cell::Cell;
    use core::sync::atomic::Ordering;
    use std::time::{Duration, Instant};

    use super::{IMPATIENT, MOST};

    thread_local! {
        /// Polls that found nothing, each of which followed the one before it at once.
        static VAIN: Cell<u32> = const { Cell::new(0) };
        /// The end of the last poll.
        static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
    }

    /// The library has polled its network once.
    ///
    /// A blocking call of MPICH polls until it is complete, and does not yield. On a machine with more ranks than
    /// processors it keeps the processor that the awaited rank needs for the rest of its time slice, which is
    /// milliseconds for each message. So the poll yields there, as that of Open MPI does (`mpi_yield_when_idle`). A
    /// message through shared memory is not seen here; it costs a yield too many.
    #[inline(always)]
    pub fn has_polled(found: bool) {
        if MOST.load(Ordering::Relaxed) == IMPATIENT {
            yield_if_it_waits(found);
        }
    }

    /// A program that computes between two polls does not wait, and keeps its processor.
    fn yield_if_it_waits(found: bool) {
        /// More than a wait of the library needs between two polls.
        const AT_ONCE: Duration = Duration::from_micros(2);
        let now = Instant::now();
        let follows = LAST.get().is_some_and(|last| now - last < AT_ONCE);
        let vain = if found || !follows { 0 } else { VAIN.get() + 1 };
        VAIN.set(vain.min(IMPATIENT));
        if vain < IMPATIENT {
            LAST.set(Some(now));
        } else {
            std::thread::yield_now();
            LAST.set(Some(Instant::now()));
        }
    }
}
