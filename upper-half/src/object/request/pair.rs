//! Requests that stand for two operations: those of MPI_Isendrecv with the copy of what MPI_Isendrecv_replace sends,
//! and the two duplicates of MPI_Comm_idup while collective operations are reduced to messages.

use crate::argument::Buffer;
use crate::object::datatype::Datatype;
use crate::object::request::Request;
use crate::runtime::syscall::Mapping;

/// The operations that a request stands for.
pub(crate) struct Pair {
    /// The one whose status is that of the whole.
    pub(crate) main: &'static Request,
    pub(crate) other: &'static Request,
    /// What is sent, where the receive replaces it.
    pub(crate) _copy: Option<SendCopy>,
}

impl Pair {
    /// Both operations.
    pub(crate) fn parts(&self) -> [&'static Request; 2] {
        [self.other, self.main]
    }
}

/// A copy of what is sent. To be kept until the send is over.
pub(crate) struct SendCopy {
    pub(crate) buffer: Buffer<'static>,
    pub(crate) count: i32,
    pub(crate) datatype: &'static Datatype,
    pub(crate) _memory: CopyMemory,
}

/// Where a copy lies.
pub(crate) enum CopyMemory {
    /// As MPI_Pack made it.
    Packed { _bytes: Vec<u8> },
    /// In the layout of the buffer: of more than MPI_Pack can tell the size of.
    Mapped { _memory: Mapping },
}
