//! Collective operations that are reduced to messages, as `--reduce` selects them: for finding out whether a failure
//! lies in a collective operation of the MPI library, and for sums that are the same under every library and layout.
//!
//! A function of `functions` turns the arguments of a call into a [`Schedule`] of rounds, by an algorithm of
//! `linear` or `tree`. A blocking call runs the schedule to its end; a request of the others is advanced by every
//! look at what is under way (`quiesce/progress.rs`), and so by a thread that waits for anything.
//!
//! The messages go over a duplicate of the communicator (`channel`). To a checkpoint they are messages like the
//! application's. So a reduced operation does not count on the collective clock, and a cut may lie inside it.

pub(crate) mod channel;
mod functions;
mod linear;
mod role;
mod schedule;
mod start;
#[cfg(test)]
mod tests;
mod tree;

pub use crate::object::request::schedule::Schedule;
pub use functions::*;
pub use reduction::Function;
pub use start::{blocking, nonblocking, persistent};
