//! Copies of data that datatypes describe: of what is sent while the same buffer is received into, and
//! from one place to another. Messages to ourselves would do for all, were it not that MPICH 4.0 lets a
//! receive of any tag of the application's take them; they serve what cannot be packed.
//!
//! # Safety
//! Buffers are the application's, under the promises that MPI asks of it; handles are descriptors.
#![allow(unsafe_code)]

use super::unexpected::to_ourselves;
use crate::code::check;
use crate::datatype::span;
use crate::object::{Comm, Datatype};
use crate::{lower, system};
use contract::abi::{self, ERR_NO_MEM};
use core::ffi::c_void;

/// The most bytes that are packed: MPI_Pack_size, whose answer is an int, may ask for more room.
const MOST_PACKED: i64 = i32::MAX as i64 / 2;

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
            match bytes > MOST_PACKED {
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
        let (below, bytes) = span(count, datatype)?;
        let start = system::map(bytes).ok_or(ERR_NO_MEM)?;
        let buffer = start.wrapping_offset(-below).cast::<c_void>();
        let copy = Copy {
            buffer,
            count,
            datatype,
            memory: Memory::Mapped { start, bytes },
        };
        let word = datatype.lower();
        // SAFETY: the application's buffer, and memory that spans as much.
        check(unsafe { to_ourselves((buf, count, word), (buffer, count, word)) })?;
        Ok(copy)
    }
}

/// Copies elements of one place to another, which may have room for more.
///
/// # Safety
/// The one may be read and the other, which has room for as many bytes of data, be written. Crosses.
pub(crate) unsafe fn copy(
    from: (*mut c_void, i32, &'static Datatype),
    to: (*mut c_void, i32, &'static Datatype),
    comm: &'static Comm,
) -> Result<(), i32> {
    let bytes = i64::from(from.1) * from.2.body.size();
    if bytes == 0 {
        return Ok(());
    }
    let element = to.2.body.size();
    // SAFETY: the caller's promise; what is unpacked is what was packed.
    unsafe {
        if bytes > MOST_PACKED || bytes % element != 0 {
            let words =
                |(place, count, datatype): (_, _, &Datatype)| (place, count, datatype.lower());
            return check(to_ourselves(words(from), words(to)));
        }
        let packed = Copy::packed(from.0, from.1, from.2, comm)?;
        let mut position = 0;
        check(lower::MPI_Unpack(
            packed.buffer,
            packed.count,
            &raw mut position,
            to.0,
            (bytes / element) as i32,
            to.2.lower(),
            comm.lower(),
        ))
    }
}
