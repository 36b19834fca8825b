//! The checkpoint protocol inside a rank: what brings all ranks to a state with no message in flight and no operation
//! in the lower half.
//!
//! From the ground up: `bookmarks` count messages, `unexpected` pulls those that no receive has asked for, `progress`
//! looks at everything under way, `wait_report` and `waits` tell the agent on which ranks this one waits and for what,
//! `unasked` tells it which messages nobody has asked for, `wait_loop` is where a thread waits and stops,
//! `collective_gate` holds collective operations back, `drain` leaves nothing under way at the cut,
//! `settlement` finds out which synchronous sends are complete then, and `restore_requests` posts the unmatched
//! receives again after a restart.

pub(crate) mod bookmarks;
pub(crate) mod collective_gate;
pub(crate) mod drain;
pub(crate) mod internal_handles;
pub(crate) mod progress;
pub(crate) mod restore_requests;
pub(crate) mod retractable;
mod settlement;
mod two_phase;
pub(crate) mod unasked;
pub(crate) mod unexpected;
pub(crate) mod wait_loop;
pub(crate) mod wait_report;
pub(crate) mod waits;

pub use collective_gate::{
    collective_begin, collective_begin_unmade, collective_end, finalize_begin, Token,
};
pub use retractable::{collective, Inputs};
pub use two_phase::collective_begin_blocking;

use crate::stages::state;

/// To be called when MPI is initialised and the size of the world is known.
pub(crate) fn init(world_size: usize) -> Result<(), i32> {
    bookmarks::init(world_size);
    drain::init()
}

/// Why no checkpoint may be taken now, if that is so.
pub(crate) fn refusal() -> Option<&'static str> {
    if state::is_on() {
        return Some(
            "the job runs under `stasis run --stages`, where the program saves its state itself; use `stasis run` without \
             --stages to take checkpoints",
        );
    }
    drain::has_failed().then_some(
        "in an earlier checkpoint of this job an operation of Stasis's own failed in the MPI \
         library; restart the job from its last good checkpoint to take new ones",
    )
}
