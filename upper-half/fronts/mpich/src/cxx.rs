//! Functions beside MPI that the C++ bindings of MPICH's ABI need from `libmpich.so.12`, for operations and error
//! handlers: `libmpichcxx.so.12` of MPICH, `libmpicxx.so.12` of Intel MPI. Keyvals need
//! `MPII_Keyval_set_proxy` of `fortran`.
//!
//! The bindings register the program's function with MPI's function in C, and then name one of their own that is to
//! call it, with objects of their classes.
//!
//! # Safety
//! Only those libraries call these functions, with the arguments that MPICH's own functions of these names take.
#![allow(unsafe_code)]
#![allow(non_snake_case)]

use contract::HandleKind;
use core::ffi::{c_int, c_void};
use std::sync::OnceLock;

use crate::abi;

/// Function of the bindings that calls a function of the program as an operation's:
/// `(in, inout, elements, datatype, the program's function)`.
type CallOp = unsafe extern "C" fn(*mut c_void, *mut c_void, c_int, c_int, usize);

/// The same for an error handler's: `(kind, address of the handle, error code, the program's function)`.
type CallErrhandler = unsafe extern "C" fn(c_int, *mut usize, *mut c_int, usize);

static CALL_OP: OnceLock<CallOp> = OnceLock::new();
static CALL_ERRHANDLER: OnceLock<CallErrhandler> = OnceLock::new();

/// `Op::Init` of the C++ bindings, after MPI_Op_create with the program's function. There is one such `call` only.
#[no_mangle]
extern "C" fn MPII_Op_set_cxx(op: c_int, call: CallOp) {
    CALL_OP.get_or_init(|| call);
    upper_half::op_is_called_by(abi::op(op), call_op as *const () as usize);
}

unsafe extern "C" fn call_op(
    from: *mut c_void,
    to: *mut c_void,
    len: *const c_int,
    datatype: *const c_int,
    function: usize,
) {
    if let Some(call) = CALL_OP.get() {
        // SAFETY: the core passes the arguments of an operation's function in C, and the function of the program.
        unsafe { call(from, to, *len, *datatype, function) };
    }
}

/// `Create_errhandler` of the C++ bindings, after MPI_Comm_create_errhandler or its like. There is one such `call`
/// only.
#[no_mangle]
extern "C" fn MPII_Errhandler_set_cxx(handler: c_int, call: CallErrhandler) {
    CALL_ERRHANDLER.get_or_init(|| call);
    upper_half::errhandler_is_the_fronts(abi::errhandler(handler));
}

/// Runs an error handler of the C++ bindings. MPI's function then succeeds, as in MPICH, since the bindings would run
/// the handler again. `MPI::ERRORS_THROW_EXCEPTIONS` has no function: the bindings throw when MPI's function has
/// returned the error code.
pub fn run_error_handler(
    handler: usize,
    kind: HandleKind,
    object: usize,
    code: i32,
    _: &str,
) -> bool {
    let function = upper_half::errhandler_function(abi::errhandler(handler as c_int));
    let kind = match kind {
        HandleKind::Comm => 0,
        HandleKind::File => 1,
        HandleKind::Win => 2,
        _ => return true,
    };
    let (mut object, mut code) = (object, code);
    let Some(call) = CALL_ERRHANDLER.get().filter(|_| function != 0) else {
        return true;
    };
    // SAFETY: the bindings named this function for it. It gets the addresses of locals; a handle of 4 bytes is the
    // low half of the word (little-endian).
    unsafe { call(kind, &raw mut object, &raw mut code, function) };
    false
}
