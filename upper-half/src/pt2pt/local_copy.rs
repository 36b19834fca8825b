//! Copies of data that datatypes describe: of the data that is sent while the same buffer is received into, and from
//! one place to another. Data is packed. Data that cannot be packed goes as a message to ourselves; not all does,
//! because in MPICH 4.0 a receive of any tag of the application's takes such messages.
//!
//! # Safety
//! The front promises that a buffer is valid, see [`Buffer`]. A copy has room for what is copied.
#![allow(unsafe_code)]

use crate::argument::{pass, App, Buffer};
use crate::crossing::mpi_result::check;
use crate::datatype::extent::{is_contiguous, span};
use crate::object::lower_handle::named;
use crate::object::request::pair::{CopyMemory, SendCopy};
use crate::object::request::Args;
use crate::object::{Comm, Datatype};
use crate::quiesce::unexpected::to_ourselves;
use crate::runtime::syscall::Mapping;
use contract::abi;
use contract::abi::{ERR_NO_MEM, ERR_TRUNCATE};
use core::ffi::c_void;

/// The most bytes that are packed: MPI_Pack_size, whose answer is an int, may ask for more room.
const MOST_PACKED: i64 = i32::MAX as i64 / 2;

impl SendCopy {
    /// Copies what is to be sent: what the buffer of a receive holds before the receive is posted.
    pub(crate) fn of(receive: &Args) -> Result<SendCopy, i32> {
        let Args {
            buffer,
            count,
            datatype,
            comm,
            ..
        } = *receive;
        let bytes = i64::from(count).saturating_mul(datatype.body.size());
        match bytes > MOST_PACKED {
            true => SendCopy::mapped(buffer, count, datatype),
            false => SendCopy::packed(buffer, count, datatype, comm),
        }
    }

    /// The copy as a message.
    pub(crate) fn message(&self, dest: i32, tag: i32, comm: &'static Comm) -> Args {
        Args::new(self.buffer, self.count, self.datatype, dest, tag, comm)
    }

    fn packed(
        buf: Buffer<'_>,
        count: i32,
        datatype: &'static Datatype,
        comm: &'static Comm,
    ) -> Result<SendCopy, i32> {
        let (mut size, mut position) = (0, 0);
        let mut bytes = Vec::<u8>::new();
        check(named::MPI_Pack_size(count, datatype, comm, &mut size))?;
        let capacity = usize::try_from(size).unwrap_or(0);
        bytes.try_reserve_exact(capacity).map_err(|_| ERR_NO_MEM)?;
        let place = bytes.as_mut_ptr().cast::<c_void>();
        // SAFETY: the program's buffer may be read. The copy has room for as many bytes as MPI_Pack_size asks for, and
        // keeps them until the send is over.
        let buffer = unsafe {
            check(named::MPI_Pack(
                buf.as_ptr(),
                count,
                datatype,
                place,
                size,
                &raw mut position,
                comm,
            ))?;
            bytes.set_len(usize::try_from(position).unwrap_or(0).min(capacity));
            match bytes.is_empty() {
                true => Buffer::NONE,
                false => pass(App(place)),
            }
        };
        Ok(SendCopy {
            buffer,
            count: bytes.len() as i32,
            datatype: Datatype::at(abi::datatype::PACKED as u32),
            _memory: CopyMemory::Packed { _bytes: bytes },
        })
    }

    fn mapped(buf: Buffer<'_>, count: i32, datatype: &'static Datatype) -> Result<SendCopy, i32> {
        let (below, bytes) = span(count.into(), datatype)?;
        let memory = Mapping::anonymous(bytes).ok_or(ERR_NO_MEM)?;
        let place = memory.start().wrapping_offset(-below).cast::<c_void>();
        let copy = SendCopy {
            // SAFETY: the memory spans that many elements. The copy keeps it until the send is over.
            buffer: unsafe { pass(App(place)) },
            count,
            datatype,
            _memory: CopyMemory::Mapped { _memory: memory },
        };
        // SAFETY: the program's buffer may be read, and the memory spans as much.
        check(unsafe { to_ourselves((buf.as_ptr(), count, datatype), (place, count, datatype)) })?;
        Ok(copy)
    }
}

/// Elements of a datatype, in a buffer that is valid for them.
type Data<'a> = (Buffer<'a>, i32, &'static Datatype);

/// Copies elements of one place to another, which may have room for more.
#[inline]
pub(crate) fn copy(from: Data<'_>, to: Data<'_>, comm: &'static Comm) -> Result<(), i32> {
    let bytes = i64::from(from.1) * from.2.body.size();
    let element = to.2.body.size();
    if bytes > i64::from(to.1) * element {
        return Err(ERR_TRUNCATE);
    }
    if bytes == 0 {
        return Ok(());
    }
    if is_contiguous(from.2) && is_contiguous(to.2) {
        // SAFETY: the one may be read and the other, which has room for as many bytes of data, be written.
        unsafe {
            let (from, to) = (from.0.as_ptr().cast::<u8>(), to.0.as_ptr().cast::<u8>());
            core::ptr::copy(from, to, bytes as usize);
        }
        return Ok(());
    }
    if bytes > MOST_PACKED || bytes % element != 0 {
        let lower_handles = |data: Data<'_>| (data.0.as_ptr(), data.1, data.2);
        // SAFETY: the one may be read and the other, which has room for as many bytes of data, be written.
        return check(unsafe { to_ourselves(lower_handles(from), lower_handles(to)) });
    }
    let packed = SendCopy::packed(from.0, from.1, from.2, comm)?;
    let mut position = 0;
    // SAFETY: there is room for what is unpacked, which is what was packed.
    check(unsafe {
        named::MPI_Unpack(
            packed.buffer.as_ptr(),
            packed.count,
            &raw mut position,
            to.0.as_ptr(),
            (bytes / element) as i32,
            to.2,
            comm,
        )
    })
}
