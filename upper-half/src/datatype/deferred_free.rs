//! Deferred freeing of operations and datatypes. A non-blocking reduction calls the application's function in its
//! course, and gives it the handle of the datatype. So user-defined operations, and the datatypes that their functions
//! may meet, stay until no such collective is under way.

use crate::object::op::OpBody;
use crate::object::table::Body;
use crate::object::{Datatype, Op};
use crate::request::collectives_pending;
use crate::runtime::lock::Lock;

static OPERATIONS: Lock<Vec<&'static Op>> = Lock::new(Vec::new());
static DATATYPES: Lock<Vec<&'static Datatype>> = Lock::new(Vec::new());

/// Gives up the application's reference to an operation, as soon as nothing under way can use it.
pub(crate) fn free_op(op: &'static Op) {
    OPERATIONS.lock().push(op);
    free_unused();
}

/// Gives up the application's reference to a datatype, as soon as no user-defined operation under
/// way can meet it.
pub(crate) fn free_datatype(datatype: &'static Datatype) {
    if OpBody::table().dynamic().next().is_none() {
        datatype.release();
        return;
    }
    DATATYPES.lock().push(datatype);
    free_unused();
}

/// Ends what lingers if nothing under way can use it any more.
pub(crate) fn free_unused() {
    if collectives_pending() {
        return;
    }
    for op in core::mem::take(&mut *OPERATIONS.lock()) {
        op.release();
    }
    for datatype in core::mem::take(&mut *DATATYPES.lock()) {
        datatype.release();
    }
}
