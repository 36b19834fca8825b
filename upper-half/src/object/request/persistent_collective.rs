//! What the request of a persistent collective holds: a communicator of its own, and the closure that starts the
//! operation.

use super::operation::Scratch;
use super::schedule::Schedule;
use super::Request;
use crate::object::comm::Comm;
use crate::profile::Repeated;
use reduction::Algorithm;

/// Starts the operation over a communicator, writes its lower handle, and gives what it uses until it is
/// complete.
pub type Starter = Box<dyn Fn(&'static Comm, *mut usize) -> (i32, Scratch)>;

/// Makes the schedule of an operation that is reduced to messages.
pub type Planner = Box<dyn Fn(&'static Comm, Algorithm) -> Result<Schedule, i32>>;

/// What starts the operation of a request.
pub(crate) enum Start {
    /// In the library.
    Below(Starter),
    /// By messages.
    Reduced(Box<dyn Fn(&'static Request, &'static Comm) -> Result<(), i32>>),
}

/// What the request of a persistent collective holds.
pub(crate) struct PersistentCollective {
    pub(crate) comm: &'static Comm,
    pub(crate) start: Start,
    /// Profile data of one start; `None` without a profile.
    pub(crate) repeated: Option<Repeated>,
}
