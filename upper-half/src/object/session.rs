//! The body of a session, an object of the upper half alone.

use crate::object::errhandler::{Current, Handler};
use crate::object::table::Body;
use crate::object::table::Object;
use crate::object_table;
use contract::abi::*;
use contract::HandleKind;
use std::ffi::CString;

/// A session.
pub type Session = Object<SessionBody>;

/// Body of a session.
pub struct SessionBody {
    pub(crate) errhandler: Current,
    /// What MPI_Session_get_info tells.
    pub(crate) info: Vec<(CString, CString)>,
}

impl Body for SessionBody {
    const KIND: HandleKind = HandleKind::Session;
    const CAPACITY: u32 = 1 << 16;
    const NULL: usize = session::SESSION_NULL;
    const PREDEFINED: &'static [(&'static str, usize)] = session::ALL;
    object_table!(SessionBody);

    fn predefined(_index: u32) -> Self {
        SessionBody {
            errhandler: Current::predefined(errhandler::ERRORS_ARE_FATAL),
            info: Vec::new(),
        }
    }
}

impl SessionBody {
    /// What is to be done on an error.
    pub fn handler(&self) -> Handler {
        self.errhandler.handler()
    }

    pub(crate) fn errhandler(&self) -> &Current {
        &self.errhandler
    }
}

/// Whether there is a session.
pub(crate) fn any_session() -> bool {
    SessionBody::table().dynamic().next().is_some()
}
