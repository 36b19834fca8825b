//! The body of a matched message, which MPI_Mprobe has found and no receive has taken yet.

use crate::object::comm::Comm;
use crate::object::table::Body;
use crate::object::table::Object;
use crate::object::unexpected::Entry;
use crate::object_table;
use contract::abi::Status;
use contract::{abi, HandleKind};
use core::cell::Cell;

/// A matched message.
pub type Message = Object<MessageBody>;

/// What a matched message adds to an object.
pub struct MessageBody {
    pub(crate) comm: Option<&'static Comm>,
    /// What the probe told of it.
    pub(crate) status: Status,
    /// The message, if it is in the upper half already; otherwise the object's lower handle stands for it.
    pub(crate) entry: Cell<Option<Box<Entry>>>,
}

impl Body for MessageBody {
    const KIND: HandleKind = HandleKind::Message;
    const CAPACITY: u32 = 1 << 20;
    const NULL: usize = abi::message::MESSAGE_NULL;
    const PREDEFINED: &'static [(&'static str, usize)] = abi::message::ALL;

    object_table!(MessageBody);

    fn predefined(_index: u32) -> Self {
        MessageBody {
            comm: None,
            status: Status::PROC_NULL,
            entry: Cell::new(None),
        }
    }

    fn retire(message: &'static Message) {
        if let Some(comm) = message.body.comm {
            comm.release();
        }
    }
}
