//! The memory into which a call receives data, and its content. Memory without gaps is taken as it is. In other memory
//! the gaps belong to the program, so the library packs and unpacks.
//!
//! # Safety
//! A region is made for the arguments of a call that may write there, or has written there. Datatypes are live while
//! the call lasts, or for an operation under way until it is complete, since the upper half frees none that is in use.
#![allow(unsafe_code)]

use core::ffi::c_void;
use std::sync::OnceLock;

use contract::{abi, HandleKind};

use crate::mpi::{adapter, handwritten, predefined};

/// Most bytes that are packed at once.
const CHUNK: u64 = 1 << 28;

/// Some elements of a datatype.
#[derive(Clone, Copy)]
pub struct Part {
    /// Address, or MPI_BOTTOM.
    buffer: usize,
    /// Number of elements.
    count: i64,
    /// Lower handle.
    datatype: usize,
}

/// The memory into which a call receives.
#[derive(Clone)]
pub struct Region(Vec<Part>);

impl Region {
    /// None.
    pub fn none() -> Region {
        Region(Vec::new())
    }

    /// Elements at an address.
    pub fn of(buffer: *mut c_void, count: i64, datatype: usize) -> Region {
        Region::of_parts([(buffer, 0, count, datatype)])
    }

    /// Elements at offsets from an address: address, offset, number and datatype.
    pub fn of_parts(parts: impl IntoIterator<Item = (*mut c_void, isize, i64, usize)>) -> Region {
        let parts = parts
            .into_iter()
            .map(|(buffer, offset, count, datatype)| Part {
                buffer: (buffer as usize).wrapping_add_signed(offset),
                count,
                datatype,
            });
        Region(parts.filter(|part| part.count > 0).collect())
    }

    /// Whether nothing is received.
    pub fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Its parts.
    pub fn parts(&self) -> &[Part] {
        &self.0
    }
}

/// The properties of a datatype.
struct Layout {
    size: u64,
    extent: isize,
    true_bound: isize,
    true_extent: isize,
    has_gaps: bool,
}

fn layout(datatype: usize) -> Option<Layout> {
    let (mut size, mut bound, mut extent) = (0_i64, 0_isize, 0_isize);
    let (mut true_bound, mut true_extent) = (0_isize, 0_isize);
    // SAFETY: locals; the library checks the datatype.
    let errors = unsafe {
        [
            adapter::MPI_Type_size_x(datatype, &raw mut size),
            adapter::MPI_Type_get_extent(datatype, &raw mut bound, &raw mut extent),
            adapter::MPI_Type_get_true_extent(datatype, &raw mut true_bound, &raw mut true_extent),
        ]
    };
    let is_dense = true_bound == 0 && size == extent as i64 && size == true_extent as i64;
    (errors == [abi::SUCCESS; 3]).then(|| Layout {
        size: u64::try_from(size).unwrap_or(0),
        extent,
        true_bound,
        true_extent,
        has_gaps: !is_dense,
    })
}

/// Distance of two elements of a datatype.
pub fn extent(datatype: usize) -> isize {
    layout(datatype).map_or(0, |layout| layout.extent)
}

/// The bytes that elements of a datatype take: the offset of the first, and their number.
pub fn span(datatype: usize, count: i64) -> Option<(isize, usize)> {
    let layout = layout(datatype)?;
    let others = usize::try_from(count.checked_sub(1)?).ok()?;
    let bytes = layout.extent.unsigned_abs().checked_mul(others)?;
    let (begin, own) = (layout.true_bound, layout.true_extent);
    Some((begin, bytes.checked_add(usize::try_from(own).ok()?)?))
}

/// A communicator that packs.
fn packer() -> usize {
    static PACKER: OnceLock<usize> = OnceLock::new();
    *PACKER.get_or_init(|| predefined::lower(HandleKind::Comm as u32, abi::comm::COMM_SELF))
}

/// A failure to pack or unpack.
#[derive(Debug)]
pub struct CannotPack;

impl Part {
    /// Number of elements in the first `bytes` bytes of a message. An incomplete last element counts.
    pub fn elements(&self, bytes: u64) -> i64 {
        let size = layout(self.datatype).map_or(0, |layout| layout.size);
        match size {
            0 => 0,
            size => bytes.div_ceil(size).cast_signed().min(self.count),
        }
    }

    /// Number of elements there is room for.
    pub fn count(&self) -> i64 {
        self.count
    }

    /// Appends the first `count` elements to `bytes`.
    pub fn save(&self, count: i64, bytes: &mut Vec<u8>) -> Result<(), CannotPack> {
        let layout = layout(self.datatype).ok_or(CannotPack)?;
        if layout.has_gaps || self.buffer == abi::BOTTOM {
            for (at, elements) in chunks(&layout, count) {
                self.pack(&layout, at, elements, bytes)?;
            }
            return Ok(());
        }
        let length =
            usize::try_from(layout.size * count.cast_unsigned()).map_err(|_| CannotPack)?;
        // SAFETY: see the head; an element has as many bytes, one behind the other.
        bytes.extend_from_slice(unsafe {
            core::slice::from_raw_parts(self.buffer as *const u8, length)
        });
        Ok(())
    }

    /// Takes the first `count` elements from the beginning of `bytes`.
    pub fn load(&self, count: i64, bytes: &mut &[u8]) -> Result<(), CannotPack> {
        let layout = layout(self.datatype).ok_or(CannotPack)?;
        if layout.has_gaps || self.buffer == abi::BOTTOM {
            for (at, elements) in chunks(&layout, count) {
                self.unpack(&layout, at, elements, bytes)?;
            }
            return Ok(());
        }
        let length =
            usize::try_from(layout.size * count.cast_unsigned()).map_err(|_| CannotPack)?;
        let (data, rest) = bytes.split_at_checked(length).ok_or(CannotPack)?;
        // SAFETY: as in `save`.
        unsafe { core::ptr::copy(data.as_ptr(), self.buffer as *mut u8, length) };
        *bytes = rest;
        Ok(())
    }

    /// Address of an element.
    fn address(&self, layout: &Layout, at: i64) -> *mut c_void {
        self.buffer
            .wrapping_add_signed(layout.extent.wrapping_mul(at as isize)) as *mut c_void
    }

    fn pack(
        &self,
        layout: &Layout,
        at: i64,
        elements: i32,
        bytes: &mut Vec<u8>,
    ) -> Result<(), CannotPack> {
        let mut length = 0;
        // SAFETY: locals, and room of the length that the library asks for; see the head.
        let code = unsafe {
            adapter::MPI_Pack_size(elements, self.datatype, packer(), &raw mut length);
            let begin = bytes.len() + size_of::<u32>();
            let room = usize::try_from(length).map_err(|_| CannotPack)?;
            bytes.resize(begin + room, 0);
            let mut position = 0;
            let code = handwritten::MPI_Pack(
                self.address(layout, at),
                elements,
                self.datatype,
                bytes[begin..].as_mut_ptr().cast(),
                length,
                &raw mut position,
                packer(),
            );
            bytes.truncate(begin + position as usize);
            bytes[begin - size_of::<u32>()..begin]
                .copy_from_slice(&(position as u32).to_le_bytes());
            code
        };
        (code == abi::SUCCESS).then_some(()).ok_or(CannotPack)
    }

    fn unpack(
        &self,
        layout: &Layout,
        at: i64,
        elements: i32,
        bytes: &mut &[u8],
    ) -> Result<(), CannotPack> {
        let (length, rest) = bytes.split_first_chunk().ok_or(CannotPack)?;
        let length = u32::from_le_bytes(*length) as usize;
        let (packed, rest) = rest.split_at_checked(length).ok_or(CannotPack)?;
        let mut position = 0;
        // SAFETY: the packed elements, a local, and see the head.
        let code = unsafe {
            handwritten::MPI_Unpack(
                packed.as_ptr().cast(),
                packed.len() as i32,
                &raw mut position,
                self.address(layout, at),
                elements,
                self.datatype,
                packer(),
            )
        };
        *bytes = rest;
        (code == abi::SUCCESS).then_some(()).ok_or(CannotPack)
    }
}

/// Elements in chunks that can be packed: the first of each, and their number.
fn chunks(layout: &Layout, count: i64) -> impl Iterator<Item = (i64, i32)> {
    let most = CHUNK.checked_div(layout.size).unwrap_or(CHUNK).max(1);
    let most = most.cast_signed();
    (0..count)
        .step_by(most as usize)
        .map(move |at| (at, (count - at).min(most) as i32))
}
