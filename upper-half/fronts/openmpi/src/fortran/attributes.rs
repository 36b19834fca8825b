//! Attributes in Fortran. The values of MPI-2 attributes are integers of the size of an address; the values of the
//! deprecated MPI-1 attributes are plain integers. The core keeps proxies with a keyval, which call its callbacks.
//!
//! # Safety
//! The application passes integers by reference, of the size that the function's MPI version prescribes. A callback is
//! called with the signature under which the application has registered it.
#![allow(unsafe_code)]

use contract::abi::SUCCESS;
use contract::HandleKind;
use core::ffi::c_void;
use stasis_front_common as common;
use upper_half::{CallGuard, Form, Proxies};

use super::handles::integer_of;
use crate::functions as c;
use crate::{abi, start};

/// A copy callback: object, keyval, extra state, value, new value, flag, error.
type Copy<I> = unsafe extern "C" fn(*mut i32, *mut i32, *mut I, *mut I, *mut I, *mut i32, *mut i32);
/// A delete callback: object, keyval, value, extra state, error.
type Delete<I> = unsafe extern "C" fn(*mut i32, *mut i32, *mut I, *mut I, *mut i32);

/// Defines the proxies for a kind of object and a type of integer.
macro_rules! proxies {
    ($($module:ident: $kind:ident, $integer:ty;)*) => {$(
        mod $module {
            use super::*;

            unsafe extern "C" fn copy(
                callback: usize,
                handle: usize,
                keyval: i32,
                extra: usize,
                _form: Form,
                value: usize,
                new: *mut usize,
                flag: *mut i32,
            ) -> i32 {
                let (mut object, mut keyval) = (integer(HandleKind::$kind, handle), keyval);
                let (mut extra, mut value) = (extra as $integer, value as $integer);
                let (mut copied, mut code): ($integer, i32) = (0, SUCCESS);
                // SAFETY: `callback` is a copy function of the application, registered for this type of integer. The
                // arguments are locals, and the core passes pointers to a value and to a flag.
                unsafe {
                    let copy = core::mem::transmute::<usize, Copy<$integer>>(callback);
                    copy(
                        &raw mut object,
                        &raw mut keyval,
                        &raw mut extra,
                        &raw mut value,
                        &raw mut copied,
                        flag,
                        &raw mut code,
                    );
                    *new = copied as usize;
                }
                code
            }

            unsafe extern "C" fn delete(
                callback: usize,
                handle: usize,
                keyval: i32,
                _form: Form,
                value: usize,
                extra: usize,
            ) -> i32 {
                let (mut object, mut keyval) = (integer(HandleKind::$kind, handle), keyval);
                let (mut extra, mut value) = (extra as $integer, value as $integer);
                let mut code = SUCCESS;
                // SAFETY: `callback` is a delete function of the application, registered for this type of integer, and
                // the arguments are locals.
                unsafe {
                    let delete = core::mem::transmute::<usize, Delete<$integer>>(callback);
                    delete(
                        &raw mut object,
                        &raw mut keyval,
                        &raw mut value,
                        &raw mut extra,
                        &raw mut code,
                    );
                }
                code
            }

            pub const PROXIES: Proxies = Proxies { copy, delete };
        }
    )*};
}

proxies! {
    of_comm: Comm, isize;
    of_type: Datatype, isize;
    of_win: Win, isize;
    deprecated: Comm, i32;
}

/// The Fortran handle for a C handle.
fn integer(kind: HandleKind, handle: usize) -> i32 {
    integer_of(kind, start::index_of(kind, handle))
}

macro_rules! keyvals {
    ($($name:ident, $in_c:ident, $proxies:ident, $integer:ty;)*) => {$(
        #[doc = concat!("`", stringify!($in_c), "` with callbacks in Fortran.")]
        pub unsafe fn $name(
            copy: *mut c_void,
            delete: *mut c_void,
            keyval: *mut i32,
            extra: *mut c_void,
        ) -> i32 {
            let _guard = CallGuard::enter();
            // SAFETY: `extra` points to an integer of this type, and `keyval` to the application's integer for the
            // keyval.
            unsafe {
                let extra = *extra.cast::<$integer>() as usize;
                let extra = core::ptr::without_provenance_mut::<c_void>(extra);
                let code = c::$in_c(copy, delete, keyval, extra);
                if code == SUCCESS {
                    upper_half::set_proxies(abi::keyval_in(*keyval), $proxies::PROXIES);
                }
                code
            }
        }
    )*};
}

keyvals! {
    comm_create_keyval, PMPI_Comm_create_keyval, of_comm, isize;
    type_create_keyval, PMPI_Type_create_keyval, of_type, isize;
    win_create_keyval, PMPI_Win_create_keyval, of_win, isize;
    keyval_create, PMPI_Keyval_create, deprecated, i32;
}

/// Defines the functions that set and get an attribute of one kind of object, with integers as values.
macro_rules! attributes {
    ($(
        $integer:ty as $form:ident:
        $set:ident, $set_in_c:literal, $set_as:ident, $raise:expr;
        $get:ident, $get_in_c:ident, $form_of:ident, $f2c:ident, $decode:ident;
    )*) => {$(
        #[doc = concat!("`", $set_in_c, "`.")]
        pub unsafe fn $set(object: *mut i32, keyval: *mut i32, value: *mut c_void) -> i32 {
            let _guard = CallGuard::enter();
            // SAFETY: the application passes integers by reference; `value` points to one of this type.
            let (object, keyval, word) = unsafe {
                (
                    abi::$decode(abi::$f2c(*object)),
                    abi::keyval_in(*keyval),
                    *value.cast::<$integer>() as usize,
                )
            };
            match upper_half::$set_as(object, keyval, word, Form::$form) {
                SUCCESS => SUCCESS,
                code => abi::error_out($raise(object, code, $set_in_c)),
            }
        }

        #[doc = concat!("`", stringify!($get_in_c), "`.")]
        pub unsafe fn $get(
            object: *mut i32,
            keyval: *mut i32,
            value: *mut c_void,
            flag: *mut i32,
        ) -> i32 {
            let _guard = CallGuard::enter();
            let mut pointer = core::ptr::null_mut::<c_void>();
            // SAFETY: the application passes integers by reference; `value` points to one of this type. `pointer` is a
            // local, and after a success with a true flag it holds the attribute's value.
            unsafe {
                let handle = abi::$f2c(*object);
                let code = c::$get_in_c(handle, *keyval, (&raw mut pointer).cast(), flag);
                if code == SUCCESS && *flag != 0 {
                    let keyval = abi::keyval_in(*keyval);
                    let form = upper_half::$form_of(abi::$decode(handle), keyval);
                    let integer = common::attribute_as_integer(keyval, form, pointer);
                    *value.cast::<$integer>() = integer as $integer;
                }
                code
            }
        }
    )*};
}

attributes! {
    isize as Address:
    comm_set_attr, "MPI_Comm_set_attr", comm_set_attr_as, upper_half::raise_comm;
    comm_get_attr, PMPI_Comm_get_attr, comm_attr_form, comm_f2c, comm;

    i32 as Integer:
    attr_put, "MPI_Attr_put", comm_set_attr_as, upper_half::raise_comm;
    attr_get, PMPI_Attr_get, comm_attr_form, comm_f2c, comm;

    isize as Address:
    win_set_attr, "MPI_Win_set_attr", win_set_attr_as, upper_half::raise_win;
    win_get_attr, PMPI_Win_get_attr, win_attr_form, win_f2c, win;

    isize as Address:
    type_set_attr, "MPI_Type_set_attr", type_set_attr_as, common::raise_type;
    type_get_attr, PMPI_Type_get_attr, type_attr_form, datatype_f2c, datatype;
}
