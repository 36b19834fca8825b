//! The body of a reduction operation.
//!
//! # Safety
//! The crossing frees what the last reference leaves in the lower half.
#![allow(unsafe_code)]

use crate::crossing::stubs::service;
use crate::object::table::Body;
use crate::object::table::Object;

use crate::object_table;
use contract::abi::*;
use contract::HandleKind;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A reduction operation.
pub type Op = Object<OpBody>;

/// Address of an operation's function. Only the fronts make one, of what the application registers: that it is a
/// function of an operation, with the type of counts with which it is registered, is the application's promise.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Function(usize);

impl Function {
    /// The address.
    pub(crate) fn address(self) -> usize {
        self.0
    }
}

/// Body of an operation.
pub struct OpBody {
    /// Address of the function that is called, mostly the application's; 0 for a predefined operation.
    pub(crate) function: AtomicUsize,
    /// Whether the function takes its datatype as Fortran does, by an integer.
    pub(crate) fortran: AtomicBool,
    /// Further argument that the function gets, behind those of the standard; 0 for none.
    pub(crate) further: AtomicUsize,
    /// Whether the function takes the number of elements as an MPI_Count.
    pub(crate) large: bool,
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
            function: AtomicUsize::new(0),
            fortran: AtomicBool::new(false),
            further: AtomicUsize::new(0),
            large: false,
            commute,
        }
    }

    fn retire(op: &'static Op) {
        // SAFETY: the last reference is gone.
        unsafe { service::op_release(op.lower()) };
    }
}

impl OpBody {
    /// Whether it is the application's function.
    pub(crate) fn is_user_defined(&self) -> bool {
        self.function.load(Ordering::Relaxed) != 0
    }
}
