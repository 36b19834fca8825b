//! The results of one crossing, as they are written to a record or read from it. A function names what the library
//! writes, in one order; the value goes from memory to the record, or from there to memory.
//!
//! # Safety
//! The arguments of the call are passed on: places that the library has written to, or that this may write to instead.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_void};

use contract::abi::{self, Status};
use contract::HandleKind;

use super::pending::Pendings;
use super::region::{extent, CannotPack, Part, Region};
use crate::mpi::convert::array;
use crate::mpi::convert::handle::handle;
use crate::mpi::predefined;

/// Addresses below this stand for special values, such as MPI_UNWEIGHTED.
const SPECIAL: usize = 4096;

/// Beginning of the handles that objects get in a run of one rank alone. No library has such handles.
const MADE: usize = 1 << 36;

/// The reason why a crossing cannot be recorded or answered.
#[derive(Debug)]
pub enum Trouble {
    /// The library does not pack some data.
    CannotPack,
    /// The record does not hold what the call asks for.
    Damaged,
}

/// The two directions.
enum Way<'a> {
    Write(Vec<u8>),
    Read(&'a [u8]),
}

/// The results of one crossing.
pub struct Io<'a> {
    way: Way<'a>,
    result: i32,
    /// Whether the call looked for something and found nothing.
    is_miss: bool,
    pendings: &'a mut Pendings,
    /// Number of handles that were made up.
    made: &'a mut usize,
    trouble: Option<Trouble>,
}

impl<'a> Io<'a> {
    /// Writes what a call has returned.
    pub fn write(result: i32, pendings: &'a mut Pendings, made: &'a mut usize) -> Self {
        Io::new(Way::Write(Vec::new()), result, pendings, made)
    }

    /// Reads what a call is to return.
    pub fn read(bytes: &'a [u8], pendings: &'a mut Pendings, made: &'a mut usize) -> Self {
        Io::new(Way::Read(bytes), abi::SUCCESS, pendings, made)
    }

    fn new(way: Way<'a>, result: i32, pendings: &'a mut Pendings, made: &'a mut usize) -> Self {
        Io {
            way,
            result,
            is_miss: false,
            pendings,
            made,
            trouble: None,
        }
    }

    /// The bytes that were written, and whether the call found nothing.
    pub fn written(self) -> Result<(Vec<u8>, bool), Trouble> {
        match (self.trouble, self.way) {
            (Some(trouble), _) => Err(trouble),
            (None, Way::Write(bytes)) => Ok((bytes, self.is_miss)),
            (None, Way::Read(_)) => Ok((Vec::new(), false)),
        }
    }

    /// The result that was read. All bytes must have been.
    pub fn was_read(self) -> Result<i32, Trouble> {
        match (self.trouble, self.way) {
            (Some(trouble), _) => Err(trouble),
            (None, Way::Read(rest)) if !rest.is_empty() => Err(Trouble::Damaged),
            _ => Ok(self.result),
        }
    }

    fn is_write(&self) -> bool {
        matches!(self.way, Way::Write(_))
    }

    /// A number that only the recorded run can find.
    pub fn number(&mut self, find: impl FnOnce() -> i64) -> i64 {
        match &mut self.way {
            Way::Write(bytes) => {
                let number = find();
                put(bytes, number);
                number
            }
            Way::Read(rest) => take(rest).unwrap_or_else(|| {
                self.trouble = Some(Trouble::Damaged);
                0
            }),
        }
    }

    /// The result of the call.
    pub fn result(&mut self) {
        let result = self.result;
        self.result = self.number(|| i64::from(result)) as i32;
    }

    /// The same for a number of entries.
    pub fn size(&mut self, find: impl FnOnce() -> usize) -> usize {
        array::length(self.number(|| find() as i64))
    }

    /// Whether the call has done something, so that its data are there.
    pub fn has_data(&self) -> bool {
        matches!(
            self.result,
            abi::SUCCESS | abi::ERR_TRUNCATE | abi::ERR_IN_STATUS
        )
    }

    /// Bytes at an address.
    unsafe fn bytes(&mut self, at: *mut u8, length: usize) {
        // SAFETY: the caller's promise.
        let place = unsafe { core::slice::from_raw_parts_mut(at, length) };
        match &mut self.way {
            Way::Write(bytes) => bytes.extend_from_slice(place),
            Way::Read(rest) => match rest.split_at_checked(length) {
                Some((bytes, after)) => {
                    place.copy_from_slice(bytes);
                    *rest = after;
                }
                None => self.trouble = Some(Trouble::Damaged),
            },
        }
    }

    /// Entries that the call has written: numbers, or statuses.
    pub unsafe fn array<T: Copy>(&mut self, at: *mut T, entries: usize) {
        if at as usize >= SPECIAL {
            // SAFETY: the caller's promise.
            unsafe { self.bytes(at.cast(), entries * size_of::<T>()) };
        }
    }

    /// A text that ends with a zero, in room for `most` bytes.
    pub unsafe fn text(&mut self, at: *mut c_char, most: usize) {
        // SAFETY: the caller's promise, for as many bytes as the text has, and the zero.
        unsafe {
            let length = |at| core::ffi::CStr::from_ptr(at).count_bytes() + 1;
            let ok = self.succeeded();
            let length = self.size(|| if ok { length(at).min(most) } else { 0 });
            self.bytes(at.cast(), length.min(most));
        }
    }

    /// The handle of an object that the call has made.
    pub unsafe fn made(&mut self, at: *mut usize, kind: HandleKind) {
        // SAFETY: the caller's promise.
        let place = unsafe { &mut *at };
        let is_null = *place == null(kind);
        if self.number(|| i64::from(!is_null)) == 0 {
            *place = null(kind);
        } else if !self.is_write() {
            *self.made += 1;
            *place = MADE + *self.made;
        }
    }

    /// A handle that the call may have made null.
    pub unsafe fn changed(&mut self, at: *mut usize, kind: HandleKind) {
        // SAFETY: the caller's promise.
        let place = unsafe { &mut *at };
        let is_null = *place == null(kind);
        if self.number(|| i64::from(!is_null)) == 0 {
            *place = null(kind);
        }
    }

    /// The flag that says whether the call has found what it looked for. The result is that flag.
    pub unsafe fn looked(&mut self, flag: *mut i32) -> bool {
        // SAFETY: the caller's promise.
        let found = unsafe {
            self.array(flag, 1);
            *flag != 0
        };
        if !found && self.succeeded() {
            self.found_nothing();
        }
        found
    }

    /// The call has looked for something in vain.
    pub fn found_nothing(&mut self) {
        self.is_miss = true;
    }

    /// Whether the call has succeeded.
    pub fn succeeded(&self) -> bool {
        self.result == abi::SUCCESS
    }

    /// Whether this process is the root of an operation.
    pub fn is_root(&mut self, comm: usize, root: i32) -> bool {
        self.number(|| {
            i64::from(match is_inter(comm) {
                true => root == abi::ROOT,
                false => root == rank(comm),
            })
        }) != 0
    }

    /// Whether this process sends in an operation in which one process does.
    pub fn is_sender(&mut self, comm: usize, root: i32) -> bool {
        self.number(|| {
            i64::from(match is_inter(comm) {
                true => root < 0,
                false => root == rank(comm),
            })
        }) != 0
    }

    /// One block from each process.
    pub fn blocks(
        &mut self,
        buffer: *mut c_void,
        count: i64,
        datatype: usize,
        blocks: impl FnOnce() -> usize,
    ) -> Region {
        let blocks = self.size(blocks);
        Region::of(buffer, count.saturating_mul(blocks as i64), datatype)
    }

    /// The block of this process, whose size is among those of all.
    pub unsafe fn own_block<C: Copy + Into<i64>>(
        &mut self,
        buffer: *mut c_void,
        counts: *const C,
        datatype: usize,
        comm: usize,
    ) -> Region {
        let rank = self.size(|| array::length(rank(comm)));
        // SAFETY: the caller's promise: there is a count for each process.
        let count = unsafe { *counts.add(rank) };
        Region::of(buffer, count.into(), datatype)
    }

    /// A block from each process, at its own place.
    pub unsafe fn blocks_at<C: Copy + Into<i64>, D: Copy + TryInto<isize>>(
        &mut self,
        buffer: *mut c_void,
        counts: *const C,
        displs: *const D,
        datatype: usize,
        blocks: impl FnOnce() -> usize,
    ) -> Region {
        let blocks = self.size(blocks);
        let extent = extent(datatype);
        Region::of_parts((0..blocks).map(|i| {
            // SAFETY: the caller's promise: there are as many counts and displacements.
            let (count, at) = unsafe { (*counts.add(i), *displs.add(i)) };
            let at = at.try_into().unwrap_or(0).wrapping_mul(extent);
            (buffer, at, count.into(), datatype)
        }))
    }

    /// The same with datatypes for each process, and places in bytes.
    pub unsafe fn blocks_of_types<C: Copy + Into<i64>, D: Copy + TryInto<isize>>(
        &mut self,
        buffer: *mut c_void,
        counts: *const C,
        displs: *const D,
        datatypes: *const usize,
        blocks: impl FnOnce() -> usize,
    ) -> Region {
        let blocks = self.size(blocks);
        Region::of_parts((0..blocks).map(|i| {
            // SAFETY: as in `blocks_at`.
            let (count, at, datatype) =
                unsafe { (*counts.add(i), *displs.add(i), *datatypes.add(i)) };
            (buffer, at.try_into().unwrap_or(0), count.into(), datatype)
        }))
    }

    /// Data that the call has received: `bytes` bytes, or as many as there is room for.
    pub fn data(&mut self, region: &Region, bytes: Option<u64>) {
        if !self.has_data() {
            return;
        }
        for part in region.parts() {
            if let Err(CannotPack) = self.part(part, bytes) {
                self.trouble = Some(match self.is_write() {
                    true => Trouble::CannotPack,
                    false => Trouble::Damaged,
                });
                return;
            }
        }
    }

    fn part(&mut self, part: &Part, bytes: Option<u64>) -> Result<(), CannotPack> {
        let all = part.count();
        let count = self.number(|| bytes.map_or(all, |bytes| part.elements(bytes)));
        if count > all || count < 0 {
            return Err(CannotPack);
        }
        match &mut self.way {
            Way::Write(written) => part.save(count, written),
            Way::Read(rest) => part.load(count, rest),
        }
    }

    /// A message that the call has received, of the length that the status says.
    pub unsafe fn received(&mut self, region: Region, status: *const Status) {
        // SAFETY: null or the caller's.
        let bytes = unsafe { status.as_ref() }.map(|status| status.count);
        self.data(&region, bytes);
    }

    /// An operation begins that will receive something.
    pub unsafe fn later(
        &mut self,
        request: *mut usize,
        region: Region,
        is_persistent: bool,
        by_status: bool,
    ) {
        if self.succeeded() && !region.is_none() {
            // SAFETY: the caller's promise.
            let handle = unsafe { *request };
            self.pendings
                .begin(handle, region, by_status, is_persistent);
        }
    }

    /// The request with this handle may be complete, with this status.
    pub fn completed(&mut self, handle: usize, is_complete: bool, status: Option<&Status>) {
        let complete = match is_complete && self.is_write() {
            true => self.pendings.completed(handle),
            false => None,
        };
        let number = self.number(|| complete.map_or(0, u64::cast_signed));
        let Some(pending) = self.pendings.take(number.cast_unsigned()) else {
            return;
        };
        let bytes = status
            .filter(|_| pending.by_status)
            .map(|status| status.count);
        self.data(&pending.region, bytes);
    }

    /// The receives under way.
    pub fn pendings(&mut self) -> &mut Pendings {
        self.pendings
    }
}

/// Appends a number: seven bits in a byte, the sign in the lowest.
pub fn put(bytes: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)).cast_unsigned();
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

/// Takes a number from the beginning.
pub fn take(bytes: &mut &[u8]) -> Option<i64> {
    let (mut value, mut shift) = (0_u64, 0);
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
        }
    }
}

/// The library's null handle.
pub fn null(kind: HandleKind) -> usize {
    let standard = match kind {
        HandleKind::Comm => abi::comm::COMM_NULL,
        HandleKind::Group => abi::group::GROUP_NULL,
        HandleKind::Datatype => abi::datatype::DATATYPE_NULL,
        HandleKind::Op => abi::op::OP_NULL,
        HandleKind::Errhandler => abi::errhandler::ERRHANDLER_NULL,
        HandleKind::Info => abi::info::INFO_NULL,
        HandleKind::Request => abi::request::REQUEST_NULL,
        HandleKind::Message => abi::message::MESSAGE_NULL,
        HandleKind::Win => abi::win::WIN_NULL,
        HandleKind::File => abi::file::FILE_NULL,
        HandleKind::Session => abi::session::SESSION_NULL,
    };
    predefined::lower(kind as u32, standard)
}

fn is_inter(comm: usize) -> bool {
    let mut inter = 0;
    // SAFETY: a communicator of the call, and a local.
    unsafe { mpi_sys::MPI_Comm_test_inter(handle(comm), &raw mut inter) };
    inter != 0
}

fn rank(comm: usize) -> i32 {
    let mut rank = 0;
    // SAFETY: as in `is_inter`.
    unsafe { mpi_sys::MPI_Comm_rank(handle(comm), &raw mut rank) };
    rank
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let numbers = [0, 1, -1, 63, -64, 64, 1 << 40, i64::MAX, i64::MIN];
        let mut bytes = Vec::new();
        numbers.iter().for_each(|number| put(&mut bytes, *number));
        let mut rest = &bytes[..];
        for number in numbers {
            assert_eq!(take(&mut rest), Some(number));
        }
        assert_eq!((rest.len(), take(&mut rest)), (0, None));
        assert_eq!(take(&mut &[0xff; 12][..]), None);
    }
}
