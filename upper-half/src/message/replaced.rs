//! MPI_Sendrecv_replace.
//!
//! # Safety
//! Buffers are the application's, under the promises that MPI asks of it; handles are descriptors.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // the same for all: see above

use super::copy::Copy;
use super::receive;
use crate::object::{Comm, Datatype};
use contract::abi::{Status, PROC_NULL};
use core::ffi::c_void;

/// MPI_Sendrecv_replace
#[allow(clippy::too_many_arguments)] // those of MPI_Sendrecv_replace
pub unsafe fn sendrecv_replace(
    buf: *mut c_void,
    count: i32,
    datatype: &'static Datatype,
    dest: i32,
    sendtag: i32,
    source: i32,
    recvtag: i32,
    comm: &'static Comm,
    status: *mut Status,
) -> i32 {
    // SAFETY: as promised by the caller; the copy lives until the send is over.
    unsafe {
        if dest == PROC_NULL {
            return receive::recv(buf, count, datatype, source, recvtag, comm, status);
        }
        let copy = match Copy::of(buf, count, datatype, comm) {
            Ok(copy) => copy,
            Err(error) => return error,
        };
        receive::sendrecv(
            copy.buffer,
            copy.count,
            copy.datatype,
            dest,
            sendtag,
            buf,
            count,
            datatype,
            source,
            recvtag,
            comm,
            status,
        )
    }
}
