//! Probes with MPI_ANY_SOURCE that have a candidate, which is held back. A probe that does not wait is the same as the
//! one before if it asks for the same: otherwise a program that asks again and again might never find anything.
//!
//! Any probe posts the open receives first, since messages go to these before a probe may tell of them.

use crate::object::unexpected::{self, Envelope, Queue};
use crate::object::Comm;
use crate::perturb::candidates::Seeker;
use crate::perturb::holds::{next_number, Taker};
use crate::perturb::{delivery, is_wild, others, take_in_hand};
use crate::quiesce::progress::phase;
use crate::quiesce::wait_loop::{self, WaitState};
use crate::runtime::lock::Lock;
use contract::waits::SOME_AMOUNT;
use contract::Phase;

static OPEN: Lock<Vec<Seeker>> = Lock::new(Vec::new());

/// The outcome of an attempt.
pub(crate) enum Attempt<T> {
    /// It finds a message.
    Finds(T),
    /// There is no message, or it is held back.
    Misses,
    /// The probe is made as without the tool.
    IsUsual,
}

/// Makes an attempt that counts as several. `take` gets the position of the message in the queue.
pub(crate) fn attempt<T>(
    source: i32,
    tag: i32,
    comm: &'static Comm,
    attempts: u32,
    take: impl FnOnce(&mut Queue, usize) -> Option<T>,
) -> Attempt<T> {
    delivery::release();
    if !is_wild(source, comm) || phase() != Phase::Run {
        return Attempt::IsUsual;
    }
    let wants = Envelope {
        comm: comm.index(),
        source,
        tag,
    };
    let mut open = OPEN.lock();
    let mut queue = unexpected::queue();
    if take_in_hand(&mut queue, comm).is_err() {
        // The library tells the probe what is wrong.
        return Attempt::IsUsual;
    }
    if queue.first(wants).is_none() {
        return Attempt::Misses;
    }
    let known = open.iter().position(|seeker| seeker.wants == wants);
    let at = known.unwrap_or_else(|| {
        open.push(Seeker::new(next_number(Taker::Probe), wants));
        open.len() - 1
    });
    let messages = queue.entries.iter().map(|entry| entry.envelope);
    let found = open[at].choose(messages, |_| false, others(comm), attempts);
    let taken = found.and_then(|position| {
        open.swap_remove(at);
        take(&mut queue, position)
    });
    taken.map_or(Attempt::Misses, Attempt::Finds)
}

/// Waits until a probe finds something. `None` if it is to be made as without the tool. The thread may stop: the caller
/// holds no lock, and reads every word again.
pub(crate) fn wait<T>(
    source: i32,
    tag: i32,
    comm: &'static Comm,
    take: impl Fn(&mut Queue, usize) -> Option<T>,
) -> Option<T> {
    let mut found = None;
    wait_loop::until(
        || match attempt(source, tag, comm, 1, &take) {
            Attempt::Finds(message) => {
                found = Some(message);
                WaitState::Ready
            }
            Attempt::Misses => WaitState::PollHere,
            Attempt::IsUsual => WaitState::Ready,
        },
        |waits| waits.message(comm, source, tag, SOME_AMOUNT),
    );
    found
}
