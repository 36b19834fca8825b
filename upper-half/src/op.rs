//! Reduction operations. A user-defined one crosses twice: the library below calls a function of
//! the lower half, which comes back to [`apply`], which calls the application's.
//!
//! # Safety
//! The application's function is called as the C function that it was registered as, with what the
//! library below passes.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // MPI's own contracts, see the head

use crate::abi::abi;
use crate::object::{Body, Datatype, Op};
use crate::{datatype, lingering, lower, object_table};
use contract::abi::*;
use contract::HandleKind;
use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Body of an operation.
pub struct OpBody {
    /// Address of the application's function; 0 for a predefined operation.
    function: usize,
    /// Whether the function takes its datatype as Fortran does, by an integer.
    fortran: AtomicBool,
    /// Whether the function takes the number of elements as an MPI_Count.
    large: bool,
    pub(crate) commute: bool,
}

impl Body for OpBody {
    const KIND: HandleKind = HandleKind::Op;
    const CAPACITY: u32 = 1 << 16;
    const NULL: usize = op::OP_NULL;
    const PREDEFINED: &'static [(&'static str, usize)] = op::ALL;
    object_table!(OpBody);

    fn predefined(index: u32) -> Self {
        let commute = !matches!(index as usize, op::REPLACE | op::NO_OP | op::OP_NULL);
        OpBody {
            function: 0,
            fortran: AtomicBool::new(false),
            large: false,
            commute,
        }
    }

    fn retire(op: &'static Op) {
        // SAFETY: the last reference is gone.
        unsafe { lower::service::op_release(op.lower()) };
    }
}

impl OpBody {
    /// Whether it is the application's function.
    pub(crate) fn is_user_defined(&self) -> bool {
        self.function != 0
    }
}

type User = unsafe extern "C" fn(*mut u8, *mut u8, *mut i32, *mut usize);
type LargeUser = unsafe extern "C" fn(*mut u8, *mut u8, *mut i64, *mut usize);

/// The word and the handle of the datatype of the last call: a reduction makes many in a row.
static LAST: [AtomicUsize; 2] = [AtomicUsize::new(usize::MAX), AtomicUsize::new(0)];

fn datatype_of(word: usize) -> &'static Datatype {
    let [last_word, last_index] = &LAST;
    let index = last_index.load(Ordering::Acquire) as u32;
    if last_word.load(Ordering::Acquire) == word {
        if let Some(known) = <datatype::DatatypeBody as Body>::table().get(index) {
            if known.has_word(word) {
                return known;
            }
        }
    }
    let found = datatype::of_word(word);
    last_word.store(usize::MAX, Ordering::Release);
    last_index.store(found.index() as usize, Ordering::Release);
    last_word.store(word, Ordering::Release);
    found
}

/// What the lower half calls: applies the user-defined operation with index `data`.
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
    // SAFETY: see the module's head.
    unsafe {
        if op.body.large {
            let user: LargeUser = core::mem::transmute::<usize, LargeUser>(op.body.function);
            let mut len = i64::from(len);
            user(a, b, &raw mut len, &raw mut handle);
        } else {
            let user: User = core::mem::transmute::<usize, User>(op.body.function);
            user(a, b, &raw mut len, &raw mut handle);
        }
    }
}

/// Makes the operation in the lower half, at first and at every restart.
///
/// # Safety
/// Crosses.
pub(crate) unsafe fn make_below(op: &'static Op) -> i32 {
    let commute = i32::from(op.body.commute);
    // SAFETY: `apply` takes what the service says it passes.
    let word = unsafe { lower::service::op_create(apply, op.index() as usize, commute) };
    if word == usize::MAX {
        return ERR_NO_MEM;
    }
    op.set_lower(word);
    SUCCESS
}

/// MPI_Op_create.
pub unsafe fn op_create(function: *const c_void, commute: i32, new: *mut &'static Op) -> i32 {
    // SAFETY: passed on.
    unsafe { create(function, false, commute, new) }
}

/// MPI_Op_create_c.
pub unsafe fn op_create_c(function: *const c_void, commute: i32, new: *mut &'static Op) -> i32 {
    // SAFETY: passed on.
    unsafe { create(function, true, commute, new) }
}

unsafe fn create(function: *const c_void, large: bool, commute: i32, new: *mut &'static Op) -> i32 {
    lingering::end();
    let body = OpBody {
        function: function as usize,
        fortran: AtomicBool::new(false),
        large,
        commute: commute != 0,
    };
    let made = match Op::make(Op::null().lower(), body) {
        Ok(made) => made,
        Err(code) => return code,
    };
    // SAFETY: just made.
    let code = unsafe { make_below(made) };
    if code == SUCCESS {
        // SAFETY: MPI's contract for an out parameter.
        unsafe { *new = made };
    }
    code
}

/// Makes the operation's function be called as Fortran's.
pub fn op_is_fortran(op: &'static Op) {
    op.body.fortran.store(true, Ordering::Relaxed);
}

/// MPI_Op_free.
pub unsafe fn op_free(op: *mut &'static Op) -> i32 {
    // SAFETY: MPI's contract for an inout parameter.
    let given = unsafe { *op };
    if given.is_predefined() {
        return ERR_OP;
    }
    lingering::free_op(given);
    // SAFETY: as above.
    unsafe { *op = Op::null() };
    SUCCESS
}

/// MPI_Op_commutative.
pub unsafe fn op_commutative(op: &'static Op, commute: *mut i32) -> i32 {
    if op.is_null() {
        return ERR_OP;
    }
    // SAFETY: MPI's contract for an out parameter.
    unsafe { *commute = i32::from(op.body.commute) };
    SUCCESS
}

/// The lower half's words of datatypes change with a restart.
pub(crate) fn forget_words() {
    LAST[0].store(usize::MAX, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_function_gets_the_applications_handle() {
        crate::object::init();
        let double = Datatype::at(contract::abi::datatype::DOUBLE as u32);
        // SAFETY: nothing parks here.
        let before = unsafe { double.lower() };
        double.set_lower(0x1234_5678);
        assert_eq!(datatype_of(0x1234_5678).handle(), double.handle());
        assert_eq!(datatype_of(0x1234_5678).handle(), double.handle());
        double.set_lower(before);
    }
}
