//! What the application has freed while a non-blocking reduction may still use it: its function is
//! called in the course of one, and is given the handle of the datatype. So user-defined operations,
//! and the datatypes that their functions may meet, stay until no such collective is under way.

use crate::message;
use crate::object::{Body, Datatype, Op, OpBody};
use crate::sync::Lock;

static OPERATIONS: Lock<Vec<&'static Op>> = Lock::new(Vec::new());
static DATATYPES: Lock<Vec<&'static Datatype>> = Lock::new(Vec::new());

/// Gives up the application's reference to an operation, as soon as nothing under way can use it.
pub(crate) fn free_op(op: &'static Op) {
    OPERATIONS.lock().push(op);
    end();
}

/// Gives up the application's reference to a datatype, as soon as no user-defined operation under
/// way can meet it.
pub(crate) fn free_datatype(datatype: &'static Datatype) {
    if OpBody::table().dynamic().next().is_none() {
        datatype.release();
        return;
    }
    DATATYPES.lock().push(datatype);
    end();
}

/// Ends what lingers if nothing under way can use it any more.
pub(crate) fn end() {
    if message::collectives_pending() {
        return;
    }
    for op in core::mem::take(&mut *OPERATIONS.lock()) {
        op.release();
    }
    for datatype in core::mem::take(&mut *DATATYPES.lock()) {
        datatype.release();
    }
}
