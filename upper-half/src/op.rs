//! Reduction operations. A user-defined one crosses twice: the library below calls a function of the lower half, which
//! comes back to [`apply`], which calls the application's.
//!
//! # Safety
//! The application's function is called as the C function that it was registered as, with the arguments that the
//! library below passes. Only a front makes a [`Function`].
#![allow(unsafe_code)]

use crate::argument::Out;
use crate::crossing::app_abi::abi;
use crate::crossing::stubs::service;
use crate::datatype::deferred_free;
use crate::object::datatype::{datatype_of_lower, DatatypeBody};
use crate::object::op::{Function, OpBody};
use crate::object::table::Body;
use crate::object::{Datatype, Op};
use contract::abi::*;
use contract::HandleKind;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A function of C takes no notice of the last argument if it has only the first four.
type User = unsafe extern "C" fn(*mut u8, *mut u8, *mut i32, *mut usize, usize);
type LargeUser = unsafe extern "C" fn(*mut u8, *mut u8, *mut i64, *mut usize);

/// The lower handle and the handle of the datatype of the last call: a reduction makes many in a row.
static LAST: [AtomicUsize; 2] = [AtomicUsize::new(usize::MAX), AtomicUsize::new(0)];

fn datatype_of(lower_handle: usize) -> &'static Datatype {
    let [last_lower, last_index] = &LAST;
    let index = last_index.load(Ordering::Acquire) as u32;
    if last_lower.load(Ordering::Acquire) == lower_handle {
        if let Some(known) = <DatatypeBody as Body>::table().get(index) {
            if known.has_lower(lower_handle) {
                return known;
            }
        }
    }
    let found = datatype_of_lower(lower_handle);
    last_lower.store(usize::MAX, Ordering::Release);
    last_index.store(found.index() as usize, Ordering::Release);
    last_lower.store(lower_handle, Ordering::Release);
    found
}

/// Applies the user-defined operation with index `data`. The lower half calls this function.
///
/// # Safety
/// `a` and `b` are buffers of `len` elements of the datatype.
unsafe extern "C" fn apply(data: usize, a: *mut u8, b: *mut u8, len: i32, datatype: usize) {
    let op = Op::at(data as u32);
    let mut len = len;
    let datatype = datatype_of(datatype);
    // A handle of 4 bytes is the low half of the word (little-endian).
    let mut handle = if op.body.fortran.load(Ordering::Relaxed) {
        (abi().fortran_of)(HandleKind::Datatype, datatype.index()) as usize
    } else {
        datatype.handle()
    };
    let function = op.body.function.load(Ordering::Relaxed);
    // SAFETY: the application registered the function with this type, and the buffers are the caller's promise.
    unsafe {
        if op.body.large {
            let user: LargeUser = core::mem::transmute::<usize, LargeUser>(function);
            let mut len = i64::from(len);
            user(a, b, &raw mut len, &raw mut handle);
        } else {
            let user: User = core::mem::transmute::<usize, User>(function);
            let further = op.body.further.load(Ordering::Relaxed);
            user(a, b, &raw mut len, &raw mut handle, further);
        }
    }
}

/// Makes the operation in the lower half, at first and at every restart. The call crosses.
pub(crate) fn make_op_below(op: &'static Op) -> i32 {
    let commute = i32::from(op.body.commute);
    // SAFETY: the service calls `apply` with this index and with the buffers of a reduction, as `apply` requires it.
    let lower_handle = unsafe { service::op_create(apply, op.index() as usize, commute) };
    if lower_handle == usize::MAX {
        return ERR_NO_MEM;
    }
    op.set_lower(lower_handle);
    SUCCESS
}

/// MPI_Op_create.
pub fn op_create(function: Function, commute: i32, new: &mut &'static Op) -> i32 {
    create(function, false, commute, new)
}

/// MPI_Op_create_c.
pub fn op_create_c(function: Function, commute: i32, new: &mut &'static Op) -> i32 {
    create(function, true, commute, new)
}

fn create(function: Function, large: bool, commute: i32, new: &mut &'static Op) -> i32 {
    deferred_free::free_unused();
    let body = OpBody {
        function: AtomicUsize::new(function.address()),
        fortran: AtomicBool::new(false),
        further: AtomicUsize::new(0),
        large,
        commute: commute != 0,
    };
    let made = match Op::make(Op::null_lower(), body) {
        Ok(made) => made,
        Err(code) => return code,
    };
    let code = make_op_below(made);
    if code == SUCCESS {
        *new = made;
    }
    code
}

/// Makes the operation's function be called as Fortran's.
pub fn op_is_fortran(op: &'static Op) {
    op.body.fortran.store(true, Ordering::Relaxed);
}

/// Gives the operation's function a further argument: in the C++ bindings of Open MPI, the function of the program.
pub fn op_passes(op: &'static Op, argument: usize) {
    op.body.further.store(argument, Ordering::Relaxed);
}

/// Makes this function be called in the place of the operation's, which it gets as the further argument: in the C++
/// bindings of MPICH.
pub fn op_is_called_by(op: &'static Op, caller: usize) {
    if !op.is_predefined() {
        let own = op.body.function.swap(caller, Ordering::Relaxed);
        op.body.further.store(own, Ordering::Relaxed);
    }
}

/// MPI_Op_free.
pub fn op_free(op: &mut &'static Op) -> i32 {
    let given = *op;
    if given.is_predefined() {
        return ERR_OP;
    }
    deferred_free::free_op(given);
    *op = Op::null();
    SUCCESS
}

/// MPI_Op_commutative.
pub fn op_commutative(op: &'static Op, mut commute: Out<'_, i32>) -> i32 {
    if op.is_null() {
        return ERR_OP;
    }
    commute.set(i32::from(op.body.commute));
    SUCCESS
}

/// The lower half's lower handles of datatypes change with a restart.
pub(crate) fn forget_lower_handles() {
    LAST[0].store(usize::MAX, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::init;

    #[test]
    fn a_user_function_gets_the_applications_handle() {
        init();
        let double = Datatype::at(contract::abi::datatype::DOUBLE as u32);
        // SAFETY: nothing parks here.
        let before = unsafe { double.lower() };
        double.set_lower(0x1234_5678);
        assert_eq!(datatype_of(0x1234_5678).handle(), double.handle());
        assert_eq!(datatype_of(0x1234_5678).handle(), double.handle());
        double.set_lower(before);
    }
}
