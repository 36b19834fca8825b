//! The order in which the threads of a rank call MPI.
//!
//! A thread has its *turn* from its call's event to the moment at which the call has had its effect on the order of
//! messages: a send is started, a receive posted, a probed message found. A recorded run gives turns as threads come,
//! one at a time. A replayed one gives them in the order of the record, which is one of the calls over each
//! communicator: threads that use different ones have their turns at the same time. No thread has its turn while it
//! waits for an operation. Only a replayed probe keeps its turn until its message is there: in the recorded run the
//! message came without later calls of others over that communicator.
//!
//! A thread waits for its turn as for a message, and may be stopped for a checkpoint. A restart takes the turn from
//! the thread that has it, because every call that was stopped asks again.

use crate::crossing::call_guard::{has_turn, take_turn};
use crate::quiesce::wait_loop;
use crate::record::log::{self, Told};
use crate::record::mode;
use crate::runtime::lock::multiple;
use contract::record::{Call, Outcome, EVERY_COMM, NO_COMM, TURN_LATER, TURN_MISS};
use record::Event;

pub(crate) use crate::crossing::call_guard::leave_turn as leave;

/// Whether a thread that calls a function may have its turn. Such a call must not wait in the library.
#[inline]
pub(crate) fn are_taken() -> bool {
    are_given() || mode::replaying() && log::has_threads()
}

/// Whether the run is recorded, and its threads get turns as they come.
#[inline]
fn are_given() -> bool {
    mode::recording() && multiple()
}

/// A recorded run: the thread takes its turn before its call has an effect. A restart meanwhile may end the recording,
/// and then the thread does not have its turn.
pub(super) fn take() {
    let taken = || !are_given() || take_turn(EVERY_COMM);
    if !taken() {
        wait_loop::wait_until(taken);
    }
}

/// The way in which a thread begins a call.
pub(super) enum Begins {
    /// It writes its call.
    Write,
    /// It asks the record for its call.
    Ask,
    /// The run is neither recorded nor replayed.
    Nothing,
}

/// Waits for the thread's turn to begin a call.
pub(super) fn begin() -> Begins {
    loop {
        if mode::recording() {
            take();
            if mode::recording() {
                return Begins::Write;
            }
        } else if !mode::replaying() {
            return Begins::Nothing;
        } else if wait(false) == Comes::Now {
            return Begins::Ask;
        }
    }
}

/// Looks for a message in a probe. In a recorded run the look and the event are one: the thread has its turn afterwards
/// if the look finds something, and does not look while another thread has its turn.
pub(crate) fn look<T>(look: impl FnOnce() -> Option<T>) -> Option<T> {
    if !are_given() {
        return look();
    }
    if !take_turn(EVERY_COMM) {
        return None;
    }
    let found = look();
    if found.is_none() {
        leave();
    }
    found
}

/// The reason for which the wait of a thread of a replayed run is over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Comes {
    /// It is the thread's turn: it asks the record for its event.
    Now,
    /// Its test or probe finds nothing.
    Miss,
    /// The run is not replayed any more.
    NotReplayed,
}

/// A replayed run: waits until no event of another thread comes before this thread's next one. `looks` is whether it
/// asks for the outcome of a test or probe. The thread has its turn then, unless its look finds nothing.
pub(super) fn wait(looks: bool) -> Comes {
    if let Some(comes) = try_come(looks) {
        return comes;
    }
    let mut comes = Comes::NotReplayed;
    wait_loop::wait_until(|| match try_come(looks) {
        Some(found) => {
            comes = found;
            true
        }
        None => false,
    });
    comes
}

fn try_come(looks: bool) -> Option<Comes> {
    if !mode::replaying() {
        return Some(Comes::NotReplayed);
    }
    if !log::has_threads() {
        return Some(Comes::Now);
    }
    match log::ask_turn(looks) {
        TURN_MISS => Some(Comes::Miss),
        TURN_LATER => {
            // A call that has its turn may have two events, with those of other threads in between.
            leave();
            None
        }
        NO_COMM => Some(Comes::Now),
        comm => take_turn(comm).then_some(Comes::Now),
    }
}

/// Asks for the outcome of a call, in the thread's turn. The call is given where it was written with an outcome only. A
/// probe that finds something keeps its turn.
pub(super) fn ask(call: Option<&Call>, what: Outcome) -> Told {
    let told = match wait(call.is_some()) {
        Comes::Now => log::ask(call, what),
        Comes::Miss => Told::Miss,
        Comes::NotReplayed => Told::NotReplayed,
    };
    if !matches!((what, &told), (Outcome::Found, Told::Numbers(_))) {
        leave();
    }
    told
}

/// Writes or compares a digest. `message` is the source and the tag of the message that was received, if it is one.
pub(super) fn digest(bytes: u64, crc: u32, message: Option<(i32, i32)>) {
    let had_turn = has_turn();
    if mode::recording() {
        log::write(Event::Digest {
            bytes,
            crc,
            message,
        });
    } else if mode::replaying() && wait(false) == Comes::Now {
        log::compare_digest(bytes, crc);
        if !had_turn {
            leave();
        }
    }
}
