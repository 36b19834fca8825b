//! The part of this process in an operation with a root.

use crate::object::Comm;
use contract::abi::{ERR_ROOT, PROC_NULL, ROOT};

/// The role of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The root.
    Root,
    /// A process that exchanges data with the root, which has that rank.
    With(i32),
    /// A process beside the root in its group of an inter-communicator: it does nothing.
    Beside,
}

impl Role {
    /// The part of the calling process, if `root` is one.
    pub(super) fn of(comm: &'static Comm, root: i32) -> Result<Role, i32> {
        let body = &comm.body;
        match root {
            ROOT if body.inter => Ok(Role::Root),
            PROC_NULL if body.inter => Ok(Role::Beside),
            _ if root < 0 || root >= body.peer_count() => Err(ERR_ROOT),
            _ if root == body.rank && !body.inter => Ok(Role::Root),
            _ => Ok(Role::With(root)),
        }
    }
}
