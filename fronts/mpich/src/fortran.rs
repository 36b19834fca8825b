//! What MPICH's own Fortran layer (`libmpichfort.so.12`), which is loaded as it is on top of this
//! front, wants of `libmpich.so.12` beside MPI: attributes with integers as values, and callbacks in
//! Fortran's convention. Handles are the same integers in both languages, so operations and error
//! handlers of Fortran's are called like C's.
//!
//! # Safety
//! That layer passes what MPI's attribute functions are passed, a form behind it, and the functions
//! that the core calls for it.
#![allow(unsafe_code)]
#![allow(non_snake_case)]

use contract::abi::SUCCESS;
use core::ffi::c_void;
use stasis_front_common as common;
use upper_half::{CopyProxy, DeleteProxy, Form, Proxies, Wrapper};

use crate::abi;
use crate::functions as c;

/// The C keyval of a predefined attribute, of which Fortran has the next number.
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
        #[doc = concat!("`", $set_in_c, "` with a value of any form.")]
        #[no_mangle]
        unsafe extern "C" fn $set(object: i32, keyval: i32, word: usize, form: Form) -> i32 {
            let _guard = Wrapper::enter();
            let object = abi::$decode(object);
            match upper_half::$set_as(object, abi::keyval_in(keyval), word, form) {
                SUCCESS => SUCCESS,
                code => abi::error_out($raise(object, code, $set_in_c)),
            }
        }

        #[doc = concat!("`", stringify!($get_in_c), "`; the value is an integer.")]
        #[no_mangle]
        unsafe extern "C" fn $get(
            object: i32,
            keyval: i32,
            value: *mut isize,
            flag: *mut i32,
            _wanted: Form,
        ) -> i32 {
            let _guard = Wrapper::enter();
            let mut pointer = core::ptr::null_mut::<c_void>();
            let keyval = keyval_in_c(keyval);
            // SAFETY: see the module's head.
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

    MPII_Type_set_attr, "MPI_Type_set_attr", type_set_attr_as, raise_type;
    MPII_Type_get_attr, PMPI_Type_get_attr, type_attr_form, datatype;
}

/// Datatypes have no error handler: that of MPI_COMM_WORLD answers.
fn raise_type(_datatype: &upper_half::Datatype, code: i32, function: &str) -> i32 {
    let world = upper_half::Comm::at(contract::abi::comm::COMM_WORLD as u32);
    upper_half::raise_comm(world, code, function)
}

/// Makes the Fortran layer's functions call the callbacks of a keyval.
#[no_mangle]
extern "C" fn MPII_Keyval_set_proxy(keyval: i32, copy: CopyProxy, delete: DeleteProxy) {
    let _guard = Wrapper::enter();
    upper_half::set_proxies(abi::keyval_in(keyval), Proxies { copy, delete });
}

/// Makes the functions of a generalized request be called as Fortran's.
#[no_mangle]
extern "C" fn MPII_Grequest_set_lang_f77(request: i32) {
    let _guard = Wrapper::enter();
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
