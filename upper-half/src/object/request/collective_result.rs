//! Where a non-blocking collective operation puts its result. A record with digests looks there when the operation is
//! complete.

use crate::argument::Buffer;
use crate::object::comm::CommBody;
use crate::object::request::Request;
use crate::object::{Comm, Datatype, DatatypeBody, ObjectRef};
use std::rc::Rc;

/// The place of a result. The application may free the communicator and the datatype before the operation is complete.
pub(crate) struct CollectiveResult {
    pub(crate) buffer: Buffer<'static>,
    pub(crate) count: i64,
    pub(crate) datatype: ObjectRef<DatatypeBody>,
    pub(crate) comm: ObjectRef<CommBody>,
}

impl CollectiveResult {
    pub(crate) fn new(
        buffer: Buffer<'static>,
        count: i64,
        datatype: &'static Datatype,
        comm: &'static Comm,
    ) -> Self {
        CollectiveResult {
            buffer,
            count,
            datatype: ObjectRef::new(datatype),
            comm: ObjectRef::new(comm),
        }
    }
}

impl Request {
    /// Keeps the place of the operation's result until the request is collected.
    pub(crate) fn keep_result(&'static self, result: CollectiveResult) {
        self.body.collective_result.set(Some(Rc::new(result)));
    }

    /// The place of the operation's result, if it is kept.
    pub(crate) fn kept_result(&'static self) -> Option<Rc<CollectiveResult>> {
        let place = &self.body.collective_result;
        let kept = place.take();
        place.set(kept.clone());
        kept
    }
}
