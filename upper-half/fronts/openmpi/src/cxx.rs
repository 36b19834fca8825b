//! Functions beside MPI that Open MPI's `libmpi_cxx.so.40` needs from `libmpi.so.40`, for the parts of the C++ bindings
//! that need Open MPI's own structures: operations, error handlers and keyvals.
//!
//! That library goes from C to C++ in functions of its own. It reads and writes words of communicators and error
//! handlers at fixed offsets, those of Open MPI 4.1. A handle leads to a data symbol of `symbols` or
//! to an object of the core, and both have room at these offsets.
//!
//! # Safety
//! Only `libmpi_cxx.so.40` calls these functions, with the arguments that Open MPI's own functions of these names take.
//! Every offset lies within Open MPI's size of the data symbol, and within the room of the object
//! (`upper_half::object::table::FrontRoom`), which nothing else uses.
#![allow(unsafe_code)]

use crate::functions as c;
use crate::{abi, symbols};
use contract::abi as standard;
use contract::HandleKind;
use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::ffi::CString;
use upper_half::object::errhandler::HandlerUse;
use upper_half::{CallGuard, Form, Proxies};

/// Where a communicator has its flags.
const FLAGS: usize = 0xe8;
/// The flags that the C++ bindings read.
const INTER: u32 = 1;
const CART: u32 = 0x100;
const GRAPH: u32 = 0x200;

/// Where an error handler has the function of C++ that is to call the application's. C's has none.
const DISPATCH: usize = 0x78;

/// Where an error handler has the application's function for that kind of object.
fn function_at(kind: HandleKind) -> usize {
    match kind {
        HandleKind::File => 0x60,
        HandleKind::Win => 0x68,
        _ => 0x58,
    }
}

/// The word of an error handler at that offset.
///
/// # Safety
/// `handle` is an error handler's, and the offset one of those above.
unsafe fn word<'a>(handle: abi::Errhandler, offset: usize) -> &'a AtomicUsize {
    // SAFETY: an aligned word that is used through atomics alone (see the head).
    unsafe { &*((handle + offset) as *const AtomicUsize) }
}

/// `Op::Init` of the C++ bindings, after MPI_Op_create with a function of these: that gets the program's function, too.
#[no_mangle]
extern "C" fn ompi_op_set_cxx_callback(op: abi::Op, function: usize) {
    upper_half::op_passes(abi::op(op), function);
}

/// `Create_errhandler` of a communicator (1), a window (2) or a file (3). The bindings write the dispatching function
/// to what this returns.
#[no_mangle]
extern "C" fn ompi_errhandler_create(
    kind: c_int,
    function: usize,
    _language: c_int,
) -> abi::Errhandler {
    let _guard = CallGuard::enter();
    let (used_for, kind) = match kind {
        2 => (HandlerUse::Win, HandleKind::Win),
        3 => (HandlerUse::File, HandleKind::File),
        _ => (HandlerUse::Comm, HandleKind::Comm),
    };
    match upper_half::front_errhandler_create(used_for) {
        Ok(made) => {
            let handle = abi::errhandler_out(made);
            // SAFETY: an error handler, and an offset of this file.
            unsafe { word(handle, function_at(kind)) }.store(function, Ordering::Relaxed);
            handle
        }
        Err(code) => {
            upper_half::raise_comm(stasis_front_common::world(), code, "MPI::Create_errhandler");
            abi::errhandler_out(upper_half::Errhandler::null())
        }
    }
}

type Dispatch = unsafe extern "C" fn(*mut usize, *mut c_int, *const c_char, usize);

/// Runs an error handler of [`ompi_errhandler_create`], or `MPI::ERRORS_THROW_EXCEPTIONS`, for which the bindings have
/// written functions with C's arguments. The core calls it, with the handles of objects.
pub fn run_error_handler(
    handler: usize,
    kind: HandleKind,
    object: usize,
    code: i32,
    failed: &str,
) -> bool {
    // SAFETY: an error handler, and offsets of this file.
    let (dispatch, function) = unsafe {
        let at = |offset| word(handler, offset).load(Ordering::Relaxed);
        (at(DISPATCH), at(function_at(kind)))
    };
    let message = CString::new(failed).unwrap_or_default();
    let (mut object, mut code) = (object, code);
    let callee = if dispatch == 0 { function } else { dispatch };
    if callee == 0 {
        return true;
    }
    // SAFETY: the bindings wrote this function there, to be called so. It gets the addresses of locals.
    unsafe {
        let callee: Dispatch = core::mem::transmute::<usize, Dispatch>(callee);
        callee(&raw mut object, &raw mut code, message.as_ptr(), function);
    }
    true
}

/// An error of the bindings themselves: a keyval could not be created. The error handler and its kind are void, because
/// the bindings read them at offsets that hold nothing here. The object says which handler to call.
#[no_mangle]
extern "C" fn ompi_errhandler_invoke(
    _handler: usize,
    object: usize,
    _kind: c_int,
    code: c_int,
    _message: *const c_char,
) -> c_int {
    let _guard = CallGuard::enter();
    let (code, failed) = (abi::error_in(code), "MPI::Create_keyval");
    let no_file = (&raw const symbols::ompi_mpi_file_null) as usize;
    abi::error_out(if object == no_file {
        upper_half::raise_file(upper_half::File::null(), code, failed)
    } else {
        upper_half::raise_comm(stasis_front_common::world(), code, failed)
    })
}

/// `Create_keyval` of communicators (1), datatypes (2) and windows (3), with callbacks in C or in C++. The bindings'
/// record of the callbacks, the last argument, is never freed.
#[no_mangle]
unsafe extern "C" fn ompi_attr_create_keyval(
    kind: c_int,
    copy: *mut c_void,
    delete: *mut c_void,
    keyval: *mut c_int,
    extra: *mut c_void,
    _flags: c_int,
    _record: *mut c_void,
) -> c_int {
    let _guard = CallGuard::enter();
    // SAFETY: the bindings pass callbacks of the standard's types for this kind, and the place of the keyval.
    unsafe {
        match kind {
            2 => c::PMPI_Type_create_keyval(copy, delete, keyval, extra),
            3 => c::PMPI_Win_create_keyval(copy, delete, keyval, extra),
            _ => {
                let code = c::PMPI_Comm_create_keyval(copy, delete, keyval, extra);
                if code == standard::SUCCESS {
                    upper_half::set_proxies(abi::keyval_in(*keyval), WITH_FLAGS);
                }
                code
            }
        }
    }
}

/// Calls of the callbacks for communicators, after the flags by which the bindings choose the class are written.
const WITH_FLAGS: Proxies = Proxies { copy, delete };

fn write_flags(handle: abi::Comm) {
    let comm = abi::comm(handle);
    let mut topology = standard::UNDEFINED;
    upper_half::topo_test(comm, (&mut topology).into());
    let flags = match topology {
        standard::CART => CART,
        standard::GRAPH => GRAPH,
        _ if comm.body.inter => INTER,
        _ => 0,
    };
    // SAFETY: an aligned half word that is used through atomics alone (see the head).
    let place = unsafe { &*((handle + FLAGS) as *const AtomicU32) };
    place.store(flags, Ordering::Relaxed);
}

/// The value as C sees it: a pointer, or the address of Fortran's integer.
fn seen(form: Form, value: &usize) -> usize {
    match form {
        Form::Pointer => *value,
        Form::Address | Form::Integer => core::ptr::from_ref(value) as usize,
    }
}

type Copy = unsafe extern "C" fn(usize, c_int, usize, usize, *mut usize, *mut c_int) -> c_int;
type Delete = unsafe extern "C" fn(usize, c_int, usize, usize) -> c_int;

unsafe extern "C" fn copy(
    callback: usize,
    handle: usize,
    keyval: i32,
    extra: usize,
    form: Form,
    value: usize,
    new: *mut usize,
    flag: *mut i32,
) -> i32 {
    write_flags(handle);
    let shown = seen(form, &value);
    // SAFETY: the bindings registered `callback` as a copy function. The core has places for its results.
    unsafe {
        let callback: Copy = core::mem::transmute::<usize, Copy>(callback);
        let code = callback(handle, keyval, extra, shown, new, flag);
        // The address of Fortran's integer was handed on: the duplicate has the integer.
        if *flag != 0 && *new == shown {
            *new = value;
        }
        code
    }
}

unsafe extern "C" fn delete(
    callback: usize,
    handle: usize,
    keyval: i32,
    form: Form,
    value: usize,
    extra: usize,
) -> i32 {
    write_flags(handle);
    let shown = seen(form, &value);
    // SAFETY: the bindings registered `callback` as a delete function.
    unsafe {
        let callback: Delete = core::mem::transmute::<usize, Delete>(callback);
        callback(handle, keyval, shown, extra)
    }
}
