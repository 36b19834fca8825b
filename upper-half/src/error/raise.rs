//! Errors of MPI's functions: the error handler of the object runs.
//!
//! # Safety
//! User handlers are called as the C functions that they were registered as, through a variadic type since theirs is
//! variadic.
#![allow(unsafe_code)]

use crate::crossing::app_abi::abi;
use crate::crossing::call_guard;
use crate::crossing::report::{fatal, has_lower_half};
use crate::crossing::stubs::service;
use crate::error::class::text_of;
use crate::object::comm::CommBody;
use crate::object::errhandler::Handler;
use crate::object::table::{Body, Object};
use crate::object::{Comm, File, Session, Win};
use crate::request::error_origin;
use crate::request::error_origin::take;
use contract::abi::*;
use contract::{gate, MpiState};

/// The lower library's own text for its last failing call on this thread.
fn lower_text() -> Option<String> {
    if !gate().mpi_is(MpiState::Initialised) {
        return None;
    }
    let mut buffer = [0u8; 1024];
    // SAFETY: the service writes at most that many bytes.
    let n = unsafe { service::error_string(buffer.as_mut_ptr(), buffer.len()) };
    let text = buffer.get(..n)?;
    (!text.is_empty()).then(|| String::from_utf8_lossy(text).trim_end().to_owned())
}

fn die(code: i32, function: &str, on: &str) -> ! {
    let text = text_of(code).unwrap_or_else(|| format!("error code {code}"));
    let below = lower_text().map_or_else(String::new, |text| format!("; the MPI library: {text}"));
    fatal(
        &format!("{function} failed on {on}: {text}{below} (MPI_ERRORS_ARE_FATAL: the job ends)"),
        if code == 0 { 1 } else { code },
    )
}

/// Type of an error handler of the application.
type User = unsafe extern "C" fn(*mut usize, *mut i32, ...);

fn run<B: Body>(
    handler: Handler,
    object: &Object<B>,
    code: i32,
    function: &str,
    on: impl Fn() -> String,
) -> i32 {
    match handler {
        Handler::Return => {}
        Handler::Fatal | Handler::Abort | Handler::Null => die(code, function, &on()),
        Handler::ByFront(error_handler) => {
            let (handle, out) = (object.handle(), (abi().error_out)(code));
            let run = abi().run_error_handler;
            let returned =
                call_guard::outside(|| run(error_handler, B::KIND, handle, out, function));
            if !returned {
                return SUCCESS;
            }
        }
        Handler::User(registered) | Handler::Fortran(registered) => {
            let mut handle = match handler {
                Handler::Fortran(_) => (abi().fortran_of)(B::KIND, object.index()) as usize,
                _ => object.handle(),
            };
            let mut out = (abi().error_out)(code);
            call_guard::outside(|| {
                // SAFETY: the application registered this function for the kind of object that it is
                // called for. A handle of 4 bytes is the low half of the word (little-endian).
                unsafe {
                    let user: User = core::mem::transmute::<usize, User>(registered.address());
                    user(&raw mut handle, &raw mut out);
                }
            });
        }
    }
    code
}

/// Runs the error handler of `comm`, and gives the code back if the handler returns. The front calls this when a
/// function failed with `code`.
#[cold]
pub fn raise_comm(comm: &'static Comm, code: i32, function: &str) -> i32 {
    if has_lower_half() {
        if gate().mpi_is(MpiState::NotInitialised) {
            fatal(&format!("{function} was called before MPI_Init"), 1);
        }
        if gate().mpi_is(MpiState::Finalised) {
            fatal(&format!("{function} was called after MPI_Finalize"), 1);
        }
    }
    error_origin::take();
    let comm = if comm.is_null() {
        Comm::at(comm::COMM_WORLD as u32)
    } else {
        comm
    };
    let handler = comm.body.handler();
    run(handler, comm, code, function, || comm.body.describe())
}

/// The same for a window.
#[cold]
pub fn raise_win(win: &'static Win, code: i32, function: &str) -> i32 {
    if win.is_null() {
        return raise_comm(Comm::null(), code, function);
    }
    let handler = win.body.handler();
    run(handler, win, code, function, || "a window".to_owned())
}

/// The same for a file. MPI_FILE_NULL has the handler for errors without a file.
#[cold]
pub fn raise_file(file: &'static File, code: i32, function: &str) -> i32 {
    let handler = file.body.handler();
    run(handler, file, code, function, || "a file".to_owned())
}

/// The same for a session.
#[cold]
pub fn raise_session(session: &'static Session, code: i32, function: &str) -> i32 {
    let handler = session.body.handler();
    run(handler, session, code, function, || "a session".to_owned())
}

/// The same for a function that names requests or messages.
#[cold]
pub fn raise_request(code: i32, function: &str) -> i32 {
    let comm = take()
        .and_then(|index| CommBody::table().get(index))
        .unwrap_or_else(Comm::null);
    raise_comm(comm, code, function)
}
