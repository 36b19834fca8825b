//! Functions beside MPI that MPICH's Fortran layer (`libmpichfort.so.12`) needs from `libmpich.so.12`: attributes whose
//! values are integers, and callbacks in Fortran's convention. That layer is loaded unchanged on top of this front.
//! Handles are the same integers in both languages, so operations and error handlers in Fortran are called as in C.
//!
//! # Safety
//! The Fortran layer passes the arguments of MPI's attribute functions with a form behind them, and proxies with the
//! signatures of [`CopyProxy`] and [`DeleteProxy`].
#![allow(unsafe_code)]
#![allow(non_snake_case)]

use contract::abi::SUCCESS;
use core::ffi::c_void;
use stasis_front_common as common;
use upper_half::{CallGuard, CopyProxy, DeleteProxy, Form, Proxies};

use crate::abi;
use crate::functions as c;

/// The C keyval for a Fortran keyval. The Fortran keyval of a predefined attribute is the next number.
fn keyval_in_c(keyval: i32) -> i32 {
    let is_predefined = |keyval| abi::keyval_in(keyval) != keyval;
    if !is_predefined(keyval) && is_predefined(keyval.wrapping_sub(1)) {
        keyval - 1
    } else {
        keyval
    }
}

macro_rules! attributes {
    ($(
        $set:ident, $set_in_c:literal, $set_as:ident, $raise:expr;
        $get:ident, $get_in_c:ident, $form_of:ident, $decode:ident;
    )*) => {$(
        #[doc = concat!("`", $set_in_c, "` with a value of the given form.")]
        #[no_mangle]
        unsafe extern "C" fn $set(object: i32, keyval: i32, word: usize, form: Form) -> i32 {
            let _guard = CallGuard::enter();
            let object = abi::$decode(object);
            match upper_half::$set_as(object, abi::keyval_in(keyval), word, form) {
                SUCCESS => SUCCESS,
                code => abi::error_out($raise(object, code, $set_in_c)),
            }
        }

        #[doc = concat!("`", stringify!($get_in_c), "` with an integer as value.")]
        #[no_mangle]
        unsafe extern "C" fn $get(
            object: i32,
            keyval: i32,
            value: *mut isize,
            flag: *mut i32,
            _wanted: Form,
        ) -> i32 {
            let _guard = CallGuard::enter();
            let mut pointer = core::ptr::null_mut::<c_void>();
            let keyval = keyval_in_c(keyval);
            // SAFETY: `value` and `flag` are the caller's output arguments. `pointer` is a local, and after a success
            // with a true flag it holds the attribute's value.
            unsafe {
                let code = c::$get_in_c(object, keyval, (&raw mut pointer).cast(), flag);
                if code == SUCCESS && *flag != 0 {
                    let keyval = abi::keyval_in(keyval);
                    let form = upper_half::$form_of(abi::$decode(object), keyval);
                    *value = common::attribute_as_integer(keyval, form, pointer);
                }
                code
            }
        }
    )*};
}

attributes! {
    MPII_Comm_set_attr, "MPI_Comm_set_attr", comm_set_attr_as, upper_half::raise_comm;
    MPII_Comm_get_attr, PMPI_Comm_get_attr, comm_attr_form, comm;

    MPII_Win_set_attr, "MPI_Win_set_attr", win_set_attr_as, upper_half::raise_win;
    MPII_Win_get_attr, PMPI_Win_get_attr, win_attr_form, win;

    MPII_Type_set_attr, "MPI_Type_set_attr", type_set_attr_as, common::raise_type;
    MPII_Type_get_attr, PMPI_Type_get_attr, type_attr_form, datatype;
}

/// Sets the functions of the Fortran layer that call the callbacks of a keyval.
#[no_mangle]
extern "C" fn MPII_Keyval_set_proxy(keyval: i32, copy: CopyProxy, delete: DeleteProxy) {
    let _guard = CallGuard::enter();
    upper_half::set_proxies(abi::keyval_in(keyval), Proxies { copy, delete });
}

/// Marks the functions of a generalized request as Fortran functions.
#[no_mangle]
extern "C" fn MPII_Grequest_set_lang_f77(request: i32) {
    let _guard = CallGuard::enter();
    upper_half::grequest_is_fortran(abi::request(request));
}

#[cfg(test)]
mod tests {
    use super::keyval_in_c;

    #[test]
    fn fortran_keyvals_of_predefined_attributes_are_the_next_numbers() {
        assert_eq!(keyval_in_c(0x6440_0002), 0x6440_0001);
        assert_eq!(keyval_in_c(0x6600_0004), 0x6600_0003);
        for same in [0x6440_0001, 0x1000, 0x1001, 0x2400_0000, -1] {
            assert_eq!(keyval_in_c(same), same);
        }
    }
}
