//! MPI's functions for error handlers.

use crate::argument::Out;
use crate::error::raise;
use crate::object::errhandler::{Current, ErrhandlerBody, Function, Handler, HandlerUse};
use crate::object::{Comm, Errhandler, File, Session, Win};
use contract::abi::*;
use core::sync::atomic::Ordering;

fn create(function: Function, used_for: HandlerUse, out: &mut &'static Errhandler) -> i32 {
    let body = ErrhandlerBody::new(Handler::User(function), used_for);
    Out::from(out).give(Errhandler::make(0, body))
}

fn set(current: &Current, handler: &'static Errhandler, used_for: HandlerUse) -> i32 {
    if handler.is_null()
        || !matches!(handler.body.used_for, u if u == HandlerUse::Any || u == used_for)
    {
        return ERR_ARG;
    }
    current.set(handler);
    SUCCESS
}

/// MPI_Comm_create_errhandler.
pub fn comm_create_errhandler(function: Function, out: &mut &'static Errhandler) -> i32 {
    create(function, HandlerUse::Comm, out)
}

/// MPI_Win_create_errhandler.
pub fn win_create_errhandler(function: Function, out: &mut &'static Errhandler) -> i32 {
    create(function, HandlerUse::Win, out)
}

/// MPI_File_create_errhandler.
pub fn file_create_errhandler(function: Function, out: &mut &'static Errhandler) -> i32 {
    create(function, HandlerUse::File, out)
}

/// MPI_Session_create_errhandler.
pub fn session_create_errhandler(function: Function, out: &mut &'static Errhandler) -> i32 {
    create(function, HandlerUse::Session, out)
}

/// MPI_Errhandler_create, the deprecated form.
pub fn errhandler_create(function: Function, out: &mut &'static Errhandler) -> i32 {
    create(function, HandlerUse::Comm, out)
}

/// An error handler that [`crate::Abi::run_error_handler`] runs.
///
/// # Errors
/// MPI_ERR_NO_MEM: there are too many.
pub fn front_errhandler_create(used_for: HandlerUse) -> Result<&'static Errhandler, i32> {
    Errhandler::make(0, ErrhandlerBody::new(Handler::ByFront(0), used_for))
}

/// Makes the handler's function be called as Fortran's.
pub fn errhandler_is_fortran(handler: &'static Errhandler) {
    handler.body.fortran.store(true, Ordering::Relaxed);
}

/// Makes [`crate::Abi::run_error_handler`] call the handler's function.
pub fn errhandler_is_the_fronts(handler: &'static Errhandler) {
    handler.body.by_front.store(true, Ordering::Relaxed);
}

/// Address of the application's function of a handler; 0 for a predefined one.
pub fn errhandler_function(handler: &'static Errhandler) -> usize {
    handler.body.address()
}

/// MPI_Errhandler_free: the handler itself lives on while an object has it.
pub fn errhandler_free(handler: &mut &'static Errhandler) -> i32 {
    let given = *handler;
    if given.is_null() {
        return ERR_ARG;
    }
    given.release();
    *handler = Errhandler::null();
    SUCCESS
}

/// MPI_Comm_set_errhandler.
pub fn comm_set_errhandler(comm: &'static Comm, handler: &'static Errhandler) -> i32 {
    if comm.is_null() {
        return ERR_COMM;
    }
    set(comm.body.errhandler(), handler, HandlerUse::Comm)
}

/// MPI_Comm_get_errhandler.
pub fn comm_get_errhandler(comm: &'static Comm, out: &mut &'static Errhandler) -> i32 {
    if comm.is_null() {
        return ERR_COMM;
    }
    *out = comm.body.errhandler().get();
    SUCCESS
}

/// MPI_Errhandler_set, the deprecated form.
pub fn errhandler_set(comm: &'static Comm, handler: &'static Errhandler) -> i32 {
    comm_set_errhandler(comm, handler)
}

/// MPI_Errhandler_get, the deprecated form.
pub fn errhandler_get(comm: &'static Comm, out: &mut &'static Errhandler) -> i32 {
    comm_get_errhandler(comm, out)
}

/// MPI_Win_set_errhandler.
pub fn win_set_errhandler(win: &'static Win, handler: &'static Errhandler) -> i32 {
    if win.is_null() {
        return ERR_WIN;
    }
    set(win.body.errhandler(), handler, HandlerUse::Win)
}

/// MPI_Win_get_errhandler.
pub fn win_get_errhandler(win: &'static Win, out: &mut &'static Errhandler) -> i32 {
    if win.is_null() {
        return ERR_WIN;
    }
    *out = win.body.errhandler().get();
    SUCCESS
}

/// MPI_File_set_errhandler; MPI_FILE_NULL has the default for files opened later.
pub fn file_set_errhandler(file: &'static File, handler: &'static Errhandler) -> i32 {
    set(file.body.errhandler(), handler, HandlerUse::File)
}

/// MPI_File_get_errhandler.
pub fn file_get_errhandler(file: &'static File, out: &mut &'static Errhandler) -> i32 {
    *out = file.body.errhandler().get();
    SUCCESS
}

/// MPI_Session_set_errhandler.
pub fn session_set_errhandler(session: &'static Session, handler: &'static Errhandler) -> i32 {
    if session.is_null() {
        return ERR_SESSION;
    }
    set(session.body.errhandler(), handler, HandlerUse::Session)
}

/// MPI_Session_get_errhandler.
pub fn session_get_errhandler(session: &'static Session, out: &mut &'static Errhandler) -> i32 {
    if session.is_null() {
        return ERR_SESSION;
    }
    *out = session.body.errhandler().get();
    SUCCESS
}

/// MPI_Session_call_errhandler.
pub fn session_call_errhandler(session: &'static Session, code: i32) -> i32 {
    if session.is_null() {
        return ERR_SESSION;
    }
    raise::raise_session(session, code, "MPI_Session_call_errhandler");
    SUCCESS
}

/// MPI_Comm_call_errhandler.
pub fn comm_call_errhandler(comm: &'static Comm, code: i32) -> i32 {
    if comm.is_null() {
        return ERR_COMM;
    }
    raise::raise_comm(comm, code, "MPI_Comm_call_errhandler");
    SUCCESS
}

/// MPI_Win_call_errhandler.
pub fn win_call_errhandler(win: &'static Win, code: i32) -> i32 {
    if win.is_null() {
        return ERR_WIN;
    }
    raise::raise_win(win, code, "MPI_Win_call_errhandler");
    SUCCESS
}

/// MPI_File_call_errhandler.
pub fn file_call_errhandler(file: &'static File, code: i32) -> i32 {
    raise::raise_file(file, code, "MPI_File_call_errhandler");
    SUCCESS
}
