//! MPI_Type_commit and MPI_Type_free.
//!
//! # Safety
//! The lower handle of a datatype is read right before the crossing that commits it.
#![allow(unsafe_code)]

use crate::attribute::callbacks;
use crate::crossing::stubs;
use crate::datatype::deferred_free;
use crate::object::Datatype;
use contract::abi::*;
use core::sync::atomic::Ordering;

/// MPI_Type_commit.
pub fn type_commit(datatype: &mut &'static Datatype) -> i32 {
    let given = *datatype;
    if given.is_null() {
        return ERR_TYPE;
    }
    if given.body.committed.load(Ordering::Relaxed) {
        return SUCCESS;
    }
    // SAFETY: the thread cannot park between the two lines. The place is a local.
    let code = unsafe {
        let mut lower_handle = given.lower();
        stubs::MPI_Type_commit(&raw mut lower_handle)
    };
    if code == SUCCESS {
        given.body.committed.store(true, Ordering::Relaxed);
    }
    code
}

/// MPI_Type_free: the datatype lives on while others are made from it or operations use it.
pub fn type_free(datatype: &mut &'static Datatype) -> i32 {
    let given = *datatype;
    if given.is_predefined() || given.body.permanent {
        return ERR_TYPE;
    }
    let code = callbacks::delete(&given.body.attributes, given.handle());
    if code != SUCCESS {
        return code;
    }
    deferred_free::free_datatype(given);
    *datatype = Datatype::null();
    SUCCESS
}
