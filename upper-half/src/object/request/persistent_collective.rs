//! What the request of a persistent collective holds: a communicator of its own, and the closure that starts the
//! operation.

use super::operation::Scratch;
use crate::object::comm::Comm;

/// Starts the operation over a communicator, writes its lower handle, and gives what it uses until it is
/// complete.
pub type Starter = Box<dyn Fn(&'static Comm, *mut usize) -> (i32, Scratch)>;

/// What the request of a persistent collective holds.
pub(crate) struct PersistentCollective {
    pub(crate) comm: &'static Comm,
    pub(crate) start: Starter,
}
