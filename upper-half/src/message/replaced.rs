//! MPI_Sendrecv_replace, and the copy of what is sent while the same buffer is received into.
//!
//! # Safety
//! Buffers are the application's, under the promises that MPI asks of it; handles are descriptors.
#![allow(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // the same for all: see above

use super::receive;
use super::unexpected::to_ourselves;
use crate::code::check;
use crate::object::{Comm, Datatype};
use crate::{lower, system};
use contract::abi::{self, Status, ERR_NO_MEM, PROC_NULL};
use core::ffi::c_void;

/// A copy of what is sent. To be kept until the send is over.
pub(super) struct Copy {
    pub(super) buffer: *const c_void,
    pub(super) count: i32,
    pub(super) datatype: &'static Datatype,
    memory: Memory,
}

/// Where a copy lies.
enum Memory {
    /// As MPI_Pack made it.
    Packed { _bytes: Vec<u8> },
    /// In the layout of the buffer: of more than MPI_Pack can tell the size of.
    Mapped { start: *mut u8, bytes: usize },
}

impl Drop for Copy {
    fn drop(&mut self) {
        if let Memory::Mapped { start, bytes } = self.memory {
            // SAFETY: our memory, which no operation uses any more.
            unsafe { system::unmap(start, bytes) };
        }
    }
}

impl Copy {
    /// Copies what is to be sent.
    ///
    /// # Safety
    /// The application's buffer, which is not received into yet.
    pub(super) unsafe fn of(
        buf: *mut c_void,
        count: i32,
        datatype: &'static Datatype,
        comm: &'static Comm,
    ) -> Result<Copy, i32> {
        let bytes = i64::from(count).saturating_mul(datatype.body.size());
        // SAFETY: passed on to the caller.
        unsafe {
            match bytes > i64::from(i32::MAX / 2) {
                true => Copy::mapped(buf, count, datatype),
                false => Copy::packed(buf, count, datatype, comm),
            }
        }
    }

    unsafe fn packed(
        buf: *mut c_void,
        count: i32,
        datatype: &'static Datatype,
        comm: &'static Comm,
    ) -> Result<Copy, i32> {
        let (mut size, mut position) = (0, 0);
        let mut bytes = Vec::<u8>::new();
        // SAFETY: the application's buffer, and room for as many bytes as MPI_Pack_size asks for.
        unsafe {
            check(lower::MPI_Pack_size(
                count,
                datatype.lower(),
                comm.lower(),
                &raw mut size,
            ))?;
            let capacity = usize::try_from(size).unwrap_or(0);
            bytes.try_reserve_exact(capacity).map_err(|_| ERR_NO_MEM)?;
            check(lower::MPI_Pack(
                buf,
                count,
                datatype.lower(),
                bytes.as_mut_ptr().cast(),
                size,
                &raw mut position,
                comm.lower(),
            ))?;
            bytes.set_len(usize::try_from(position).unwrap_or(0).min(capacity));
        }
        let buffer = match bytes.is_empty() {
            true => core::ptr::null(),
            false => bytes.as_ptr().cast(),
        };
        Ok(Copy {
            buffer,
            count: bytes.len() as i32,
            datatype: Datatype::at(abi::datatype::PACKED as u32),
            memory: Memory::Packed { _bytes: bytes },
        })
    }

    unsafe fn mapped(
        buf: *mut c_void,
        count: i32,
        datatype: &'static Datatype,
    ) -> Result<Copy, i32> {
        let (mut lower_bound, mut extent, mut true_lower, mut true_extent) = (0, 0, 0, 0);
        let word = datatype.lower();
        // SAFETY: a live datatype and places for its bounds.
        unsafe {
            check(lower::MPI_Type_get_true_extent(
                word,
                &raw mut true_lower,
                &raw mut true_extent,
            ))?;
            check(lower::MPI_Type_get_extent(
                word,
                &raw mut lower_bound,
                &raw mut extent,
            ))?;
        }
        let last = (count as isize - 1).saturating_mul(extent);
        let below = true_lower.saturating_add(last.min(0));
        let bytes = true_extent.saturating_add(last.saturating_abs());
        let bytes = usize::try_from(bytes).map_err(|_| ERR_NO_MEM)?;
        let start = system::map(bytes).ok_or(ERR_NO_MEM)?;
        let buffer = start.wrapping_offset(-below).cast::<c_void>();
        let copy = Copy {
            buffer,
            count,
            datatype,
            memory: Memory::Mapped { start, bytes },
        };
        // SAFETY: the application's buffer, and memory that spans as much.
        check(unsafe { to_ourselves((buf, count, word), (buffer, count, word)) })?;
        Ok(copy)
    }
}

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
