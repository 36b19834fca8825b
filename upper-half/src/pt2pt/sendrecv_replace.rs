//! MPI_Sendrecv_replace.

use crate::argument::Buffer;
use crate::object::request::pair::SendCopy;
use crate::object::request::Args;
use crate::object::{Comm, Datatype};
use crate::pt2pt::receive;
use contract::abi::{Status, PROC_NULL};

/// MPI_Sendrecv_replace
#[allow(clippy::too_many_arguments)] // those of MPI_Sendrecv_replace
pub fn sendrecv_replace(
    buf: Buffer<'static>,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    sendtag: i32,
    source: i32,
    recvtag: i32,
    comm: &'static Comm,
    status: Option<&mut Status>,
) -> i32 {
    if dest == PROC_NULL {
        return receive::recv(buf, count, datatype, source, recvtag, comm, status);
    }
    let received = Args::new(buf, count, datatype, source, recvtag, comm);
    // The copy is kept until the send is over.
    match SendCopy::of(&received) {
        Ok(copy) => receive::exchange(copy.message(dest, sendtag, comm), received, status),
        Err(error) => error,
    }
}
