//! The body of an error handler, and the handler that an object has. Error handlers exist in the upper half alone.

use crate::object::table::Body;
use crate::object::table::Object;

use crate::object_table;
use crate::runtime::lock::Lock;
use contract::abi::*;
use contract::HandleKind;
use core::sync::atomic::{AtomicBool, Ordering};

/// What an error handler does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handler {
    /// MPI_ERRHANDLER_NULL.
    Null,
    /// MPI_ERRORS_ARE_FATAL.
    Fatal,
    /// MPI_ERRORS_ABORT.
    Abort,
    /// MPI_ERRORS_RETURN.
    Return,
    /// Calls a function of the application.
    User(Function),
    /// Calls a function of the application as Fortran's: the object is named by an integer.
    Fortran(Function),
}

/// Address of an error handler's function. Only the fronts make one, of what the application registers: that it is a
/// function for the kind of object that it is registered for is the application's promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Function(usize);

impl Function {
    /// The address.
    pub(crate) fn address(self) -> usize {
        self.0
    }
}

/// For which kind of object a handler was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandlerUse {
    Any,
    Comm,
    Win,
    File,
    Session,
}

/// An error handler.
pub type Errhandler = Object<ErrhandlerBody>;

/// Body of an error handler.
pub struct ErrhandlerBody {
    pub(crate) handler: Handler,
    /// Whether the application's function is Fortran's.
    pub(crate) fortran: AtomicBool,
    pub(crate) used_for: HandlerUse,
}

impl Body for ErrhandlerBody {
    const KIND: HandleKind = HandleKind::Errhandler;
    const CAPACITY: u32 = 1 << 16;
    const NULL: usize = errhandler::ERRHANDLER_NULL;
    const PREDEFINED: &'static [(&'static str, usize)] = errhandler::ALL;
    object_table!(ErrhandlerBody);

    fn predefined(index: u32) -> Self {
        let handler = match index as usize {
            errhandler::ERRORS_ARE_FATAL => Handler::Fatal,
            errhandler::ERRORS_ABORT => Handler::Abort,
            errhandler::ERRORS_RETURN => Handler::Return,
            _ => Handler::Null,
        };
        ErrhandlerBody {
            handler,
            fortran: AtomicBool::new(false),
            used_for: HandlerUse::Any,
        }
    }
}

/// The error handler that an object has; it keeps the handler object alive.
pub struct Current(Lock<&'static Errhandler>);

impl Current {
    /// A predefined handler, by its standard value.
    pub fn predefined(value: usize) -> Current {
        Current(Lock::new(Errhandler::at(value as u32)))
    }

    /// The same handler as another object's.
    pub fn same_as(other: &Current) -> Current {
        let handler = *other.0.lock();
        handler.retain();
        Current(Lock::new(handler))
    }

    /// What is to be done on an error.
    pub fn handler(&self) -> Handler {
        let body = &self.0.lock().body;
        match body.handler {
            Handler::User(function) if body.fortran.load(Ordering::Relaxed) => {
                Handler::Fortran(function)
            }
            handler => handler,
        }
    }

    /// The handler object, with one more reference for the caller.
    pub fn get(&self) -> &'static Errhandler {
        let handler = *self.0.lock();
        handler.retain();
        handler
    }

    pub(crate) fn set(&self, handler: &'static Errhandler) {
        handler.retain();
        let before = core::mem::replace(&mut *self.0.lock(), handler);
        before.release();
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        self.0.lock().release();
    }
}
