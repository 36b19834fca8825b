//! Error handlers: objects of the upper half alone.
//!
//! # Safety
//! Out pointers are the application's, as MPI prescribes them.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head

use crate::object::{Body, Comm, Errhandler, File, Session, Win};
use crate::sync::Lock;
use crate::{code, object_table};
use contract::abi::*;
use contract::HandleKind;
use core::ffi::c_void;
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
    /// Calls the function of the application at this address.
    User(usize),
    /// Calls the function of the application at this address as Fortran's: the object is named by
    /// an integer.
    Fortran(usize),
}

/// For which kind of object a handler was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Any,
    Comm,
    Win,
    File,
    Session,
}

/// Body of an error handler.
pub struct ErrhandlerBody {
    handler: Handler,
    /// Whether the application's function is Fortran's.
    fortran: AtomicBool,
    used_for: Use,
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
            used_for: Use::Any,
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
            Handler::User(address) if body.fortran.load(Ordering::Relaxed) => {
                Handler::Fortran(address)
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

    fn set(&self, handler: &'static Errhandler) {
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

unsafe fn create(function: *const c_void, used_for: Use, out: *mut &'static Errhandler) -> i32 {
    let body = ErrhandlerBody {
        handler: Handler::User(function as usize),
        fortran: AtomicBool::new(false),
        used_for,
    };
    // SAFETY: MPI's contract for an out parameter.
    unsafe { code::give(Errhandler::make(0, body), out) }
}

fn set(current: &Current, handler: &'static Errhandler, used_for: Use) -> i32 {
    if handler.is_null() || !matches!(handler.body.used_for, u if u == Use::Any || u == used_for) {
        return ERR_ARG;
    }
    current.set(handler);
    SUCCESS
}

/// MPI_Comm_create_errhandler.
pub unsafe fn comm_create_errhandler(
    function: *const c_void,
    out: *mut &'static Errhandler,
) -> i32 {
    // SAFETY: passed on.
    unsafe { create(function, Use::Comm, out) }
}

/// MPI_Win_create_errhandler.
pub unsafe fn win_create_errhandler(function: *const c_void, out: *mut &'static Errhandler) -> i32 {
    // SAFETY: passed on.
    unsafe { create(function, Use::Win, out) }
}

/// MPI_File_create_errhandler.
pub unsafe fn file_create_errhandler(
    function: *const c_void,
    out: *mut &'static Errhandler,
) -> i32 {
    // SAFETY: passed on.
    unsafe { create(function, Use::File, out) }
}

/// MPI_Session_create_errhandler.
pub unsafe fn session_create_errhandler(
    function: *const c_void,
    out: *mut &'static Errhandler,
) -> i32 {
    // SAFETY: passed on.
    unsafe { create(function, Use::Session, out) }
}

/// MPI_Errhandler_create, the deprecated form.
pub unsafe fn errhandler_create(function: *const c_void, out: *mut &'static Errhandler) -> i32 {
    // SAFETY: passed on.
    unsafe { create(function, Use::Comm, out) }
}

/// Makes the handler's function be called as Fortran's.
pub fn errhandler_is_fortran(handler: &'static Errhandler) {
    handler.body.fortran.store(true, Ordering::Relaxed);
}

/// MPI_Errhandler_free: the handler itself lives on while an object has it.
pub unsafe fn errhandler_free(handler: *mut &'static Errhandler) -> i32 {
    // SAFETY: MPI's contract for an inout parameter.
    let given = unsafe { *handler };
    if given.is_null() {
        return ERR_ARG;
    }
    given.release();
    // SAFETY: as above.
    unsafe { *handler = Errhandler::null() };
    SUCCESS
}

/// MPI_Comm_set_errhandler.
pub fn comm_set_errhandler(comm: &'static Comm, handler: &'static Errhandler) -> i32 {
    if comm.is_null() {
        return ERR_COMM;
    }
    set(comm.body.errhandler(), handler, Use::Comm)
}

/// MPI_Comm_get_errhandler.
pub unsafe fn comm_get_errhandler(comm: &'static Comm, out: *mut &'static Errhandler) -> i32 {
    if comm.is_null() {
        return ERR_COMM;
    }
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *out = comm.body.errhandler().get() };
    SUCCESS
}

/// MPI_Errhandler_set, the deprecated form.
pub fn errhandler_set(comm: &'static Comm, handler: &'static Errhandler) -> i32 {
    comm_set_errhandler(comm, handler)
}

/// MPI_Errhandler_get, the deprecated form.
pub unsafe fn errhandler_get(comm: &'static Comm, out: *mut &'static Errhandler) -> i32 {
    // SAFETY: passed on.
    unsafe { comm_get_errhandler(comm, out) }
}

/// MPI_Win_set_errhandler.
pub fn win_set_errhandler(win: &'static Win, handler: &'static Errhandler) -> i32 {
    if win.is_null() {
        return ERR_WIN;
    }
    set(win.body.errhandler(), handler, Use::Win)
}

/// MPI_Win_get_errhandler.
pub unsafe fn win_get_errhandler(win: &'static Win, out: *mut &'static Errhandler) -> i32 {
    if win.is_null() {
        return ERR_WIN;
    }
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *out = win.body.errhandler().get() };
    SUCCESS
}

/// MPI_File_set_errhandler; MPI_FILE_NULL has the default for files opened later.
pub fn file_set_errhandler(file: &'static File, handler: &'static Errhandler) -> i32 {
    set(file.body.errhandler(), handler, Use::File)
}

/// MPI_File_get_errhandler.
pub unsafe fn file_get_errhandler(file: &'static File, out: *mut &'static Errhandler) -> i32 {
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *out = file.body.errhandler().get() };
    SUCCESS
}

/// MPI_Session_set_errhandler.
pub fn session_set_errhandler(session: &'static Session, handler: &'static Errhandler) -> i32 {
    if session.is_null() {
        return ERR_SESSION;
    }
    set(session.body.errhandler(), handler, Use::Session)
}

/// MPI_Session_get_errhandler.
pub unsafe fn session_get_errhandler(
    session: &'static Session,
    out: *mut &'static Errhandler,
) -> i32 {
    if session.is_null() {
        return ERR_SESSION;
    }
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *out = session.body.errhandler().get() };
    SUCCESS
}

/// MPI_Session_call_errhandler.
pub fn session_call_errhandler(session: &'static Session, code: i32) -> i32 {
    if session.is_null() {
        return ERR_SESSION;
    }
    crate::error::raise_session(session, code, "MPI_Session_call_errhandler");
    SUCCESS
}

/// MPI_Comm_call_errhandler.
pub fn comm_call_errhandler(comm: &'static Comm, code: i32) -> i32 {
    if comm.is_null() {
        return ERR_COMM;
    }
    crate::error::raise_comm(comm, code, "MPI_Comm_call_errhandler");
    SUCCESS
}

/// MPI_Win_call_errhandler.
pub fn win_call_errhandler(win: &'static Win, code: i32) -> i32 {
    if win.is_null() {
        return ERR_WIN;
    }
    crate::error::raise_win(win, code, "MPI_Win_call_errhandler");
    SUCCESS
}

/// MPI_File_call_errhandler.
pub fn file_call_errhandler(file: &'static File, code: i32) -> i32 {
    crate::error::raise_file(file, code, "MPI_File_call_errhandler");
    SUCCESS
}
