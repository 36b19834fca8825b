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
        const TURNS_BETWEEN: u32 = 32;
        self.turns = match give_way() {
            Shared::ByRanks => self.turns - 1,
            Shared::ByAWait => IMPATIENT - 1,
            Shared::ByWork => 0,
            Shared::No => self.turns.saturating_sub(TURNS_BETWEEN),
        };
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

/// The use of the processor by other threads, as a yield has shown it.
enum Shared {
    /// The machine has more ranks than processors.
    ByRanks,
    /// Another thread took the processor, and soon returned it.
    ByAWait,
    /// Another thread keeps it for long.
    ByWork,
    No,
}

/// Yields the processor, and adapts [`PATIENCE`] to the result.
///
/// A thread that takes the processor and soon returns it is waiting too: then this wait yields early, at every poll, as
/// it always does if there are more ranks than cores. A thread that keeps the processor for long may be a rank that has
/// not adapted yet, or a program that computes. So a wait yields early at first, and later each time that this does not
/// help.
#[cold]
fn give_way() -> Shared {
    /// Less than any scheduler's time slice, and more than a rank needs for a message.
    const LONG: Duration = Duration::from_millis(1);
    let most = MOST.load(Ordering::Relaxed);
    if most == IMPATIENT {
        std::thread::yield_now();
        return Shared::ByRanks;
    }
    let patience = PATIENCE.load(Ordering::Relaxed);
    let longer = patience.saturating_mul(2).min(most);
    let (before, since) = (switches(), Instant::now());
    std::thread::yield_now();
    let (patience, shared) = if switches() == before {
        (longer, Shared::No)
    } else if since.elapsed() < LONG || patience == most {
        (IMPATIENT, Shared::ByAWait)
    } else {
        (longer, Shared::ByWork)
    };
    PATIENCE.store(patience, Ordering::Relaxed);
    shared
}

/// Number of times that another thread took this thread's core. A yield does not count if no other thread wants the
/// core (getrusage(2): ru_nivcsw).
fn switches() -> i64 {
    let usage = getrusage(UsageWho::RUSAGE_THREAD);
    usage.map_or(0, |usage| usage.involuntary_context_switches())
}

/// Polls of the library's own, by which it waits in a blocking call.
pub mod library {
    use core::cell::Cell;
    use core::sync::atomic::Ordering;
    use std::time::{Duration, Instant};

    use super::{give_way, Shared, IMPATIENT, MOST, PATIENCE};

    thread_local! {
        /// Polls, one after the other, that found nothing.
        static VAIN: Cell<u32> = const { Cell::new(0) };
        /// The end of the last poll, where there are more ranks than processors.
        static LAST: Cell<Option<Instant>> = const { Cell::new(None) };
    }

    /// The library has polled its network, this number of times since it last said so.
    ///
    /// A blocking call of MPICH polls until it is complete, and does not yield, and one of Open MPI yields where
    /// mpirun knows of more ranks than processors (`mpi_yield_when_idle`). Otherwise a rank keeps the processor that
    /// the awaited rank needs for the rest of its time slice, which is milliseconds for each message. So it yields
    /// here. What the library finds in shared memory is not seen, and costs a yield now and then.
    #[inline(always)]
    pub fn has_polled(times: u32, found: bool) {
        let vain = if found { 0 } else { VAIN.get() + times };
        VAIN.set(vain);
        if vain >= PATIENCE.load(Ordering::Relaxed) {
            wait(times);
        } else if MOST.load(Ordering::Relaxed) == IMPATIENT {
            note_a_pause();
        }
    }

    #[cold]
    fn wait(times: u32) {
        if MOST.load(Ordering::Relaxed) == IMPATIENT && note_a_pause() {
            return;
        }
        VAIN.set(match give_way() {
            Shared::ByRanks | Shared::ByAWait => IMPATIENT - times,
            Shared::ByWork | Shared::No => 0,
        });
        LAST.set(Some(Instant::now()));
    }

    /// Resets the count after a pause between two polls. Returns whether there was a pause. A program that computes
    /// between its polls does not wait, so it keeps its processor.
    fn note_a_pause() -> bool {
        /// More than a library that waits needs between two polls.
        const AT_ONCE: Duration = Duration::from_micros(4);
        let now = Instant::now();
        let last = LAST.replace(Some(now));
        let paused = last.is_none_or(|last| now - last > AT_ONCE);
        if paused {
            VAIN.set(0);
        }
        paused
    }
}
