//! The body of an error handler, and the handler that an object has. Error handlers exist in the upper half alone.

use crate::object::table::{room_up_to, Body, FrontRoom, Object, FIRST_DYNAMIC};

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
    /// Calls what the front finds by the error handler's own handle ([`Current::handler`] fills it in).
    ByFront(usize),
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
pub enum HandlerUse {
    /// For all: a predefined one.
    Any,
    /// Communicators.
    Comm,
    /// Windows.
    Win,
    /// Files.
    File,
    /// Sessions.
    Session,
}

/// An error handler.
pub type Errhandler = Object<ErrhandlerBody>;

/// Body of an error handler.
#[repr(C)]
pub struct ErrhandlerBody {
    /// The C++ bindings of Open MPI 4 write a function at byte 0x78.
    front: FrontRoom<{ room_up_to(0x80) }>,
    handler: Handler,
    /// Whether the application's function is Fortran's.
    pub(crate) fortran: AtomicBool,
    /// Whether the front calls the application's function.
    pub(crate) by_front: AtomicBool,
    pub(crate) used_for: HandlerUse,
}

impl ErrhandlerBody {
    /// Address of the application's function; 0 where the handler has none.
    pub(crate) fn address(&self) -> usize {
        match self.handler {
            Handler::User(function) => function.address(),
            _ => 0,
        }
    }

    /// A handler that does this for objects of that kind.
    pub(crate) fn new(handler: Handler, used_for: HandlerUse) -> Self {
        ErrhandlerBody {
            front: FrontRoom::new(),
            handler,
            fortran: AtomicBool::new(false),
            by_front: AtomicBool::new(false),
            used_for,
        }
    }
}

/// MPI::ERRORS_THROW_EXCEPTIONS of the C++ bindings, which has no value in the standard ABI.
pub const ERRORS_THROW_EXCEPTIONS: usize = FIRST_DYNAMIC as usize - 1;

impl Body for ErrhandlerBody {
    const KIND: HandleKind = HandleKind::Errhandler;
    const CAPACITY: u32 = 1 << 16;
    const NULL: usize = errhandler::ERRHANDLER_NULL;
    const PREDEFINED: &'static [(&'static str, usize)] = &[
        ("MPI_ERRHANDLER_NULL", errhandler::ERRHANDLER_NULL),
        ("MPI_ERRORS_ARE_FATAL", errhandler::ERRORS_ARE_FATAL),
        ("MPI_ERRORS_ABORT", errhandler::ERRORS_ABORT),
        ("MPI_ERRORS_RETURN", errhandler::ERRORS_RETURN),
        ("MPI::ERRORS_THROW_EXCEPTIONS", ERRORS_THROW_EXCEPTIONS),
    ];
    object_table!(ErrhandlerBody);

    fn predefined(index: u32) -> Self {
        let handler = match index as usize {
            errhandler::ERRORS_ARE_FATAL => Handler::Fatal,
            errhandler::ERRORS_ABORT => Handler::Abort,
            errhandler::ERRORS_RETURN => Handler::Return,
            ERRORS_THROW_EXCEPTIONS => Handler::ByFront(0),
            _ => Handler::Null,
        };
        ErrhandlerBody::new(handler, HandlerUse::Any)
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
        let object = self.0.lock();
        match object.body.handler {
            Handler::User(function) if object.body.fortran.load(Ordering::Relaxed) => {
                Handler::Fortran(function)
            }
            Handler::User(_) if object.body.by_front.load(Ordering::Relaxed) => {
                Handler::ByFront(object.handle())
            }
            Handler::ByFront(_) => Handler::ByFront(object.handle()),
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
