//! Arrays that cross: of handles, statuses, translated integers, and text of bounded length.
//!
//! If a native handle is as wide as a lower handle, the caller's array is used in place. Otherwise, and for statuses,
//! the array is copied, to the stack if it is short.
//!
//! # Safety
//! Pointers are those that a crossing passed: null (where MPI ignores the array), or valid for the number of entries
//! given. The native function uses the pointer only during the call.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_int};
use core::marker::PhantomData;
use core::mem::{size_of, MaybeUninit};

use contract::abi::{self, Status};
use mpi_sys::{MPI_Comm, MPI_Status};

use super::handle::Handle;
use super::{error, native, status, value_map};

/// Entries that are kept on the stack.
const SHORT: usize = 16;

/// A count of MPI as a length. A negative count becomes 0; the library reports it.
#[inline(always)]
pub fn length(count: impl TryInto<usize>) -> usize {
    count.try_into().unwrap_or(0)
}

/// Entries of an array of the caller's: none if it is null.
///
/// # Safety
/// `start` must be null or valid for reads of `n` entries.
pub unsafe fn entries<'a, T>(start: *const T, n: usize) -> &'a [T] {
    match start.is_null() {
        true => &[],
        // SAFETY: this function's contract.
        false => unsafe { core::slice::from_raw_parts(start, n) },
    }
}

/// Room for the copy of one array: on the stack, or on the heap if that is too short. It is made
/// where it stays and filled there, since moving it would cost more than filling it.
pub struct Room<T> {
    short: [MaybeUninit<T>; SHORT],
    long: Vec<MaybeUninit<T>>,
}

impl<T> Room<T> {
    /// Uninitialised room.
    #[inline(always)]
    pub fn new() -> Self {
        Room {
            short: [const { MaybeUninit::uninit() }; SHORT],
            long: Vec::new(),
        }
    }

    /// Address of `n` entries, each initialised to `entry` of its index.
    #[inline(always)]
    pub fn fill(&mut self, n: usize, mut entry: impl FnMut(usize) -> T) -> *mut T {
        let entries = match n > SHORT {
            false => &mut self.short[..n],
            true => {
                self.long.resize_with(n, MaybeUninit::uninit);
                &mut self.long[..]
            }
        };
        for (i, place) in entries.iter_mut().enumerate() {
            place.write(entry(i));
        }
        entries.as_mut_ptr().cast()
    }
}

/// An array of handles.
pub struct Handles<'a, T> {
    lower: *mut usize,
    n: usize,
    start: *mut T,
    room: PhantomData<&'a mut Room<T>>,
}

impl<'a, T: Handle> Handles<'a, T> {
    /// Whether lower handles are native handles already.
    const SAME: bool = size_of::<T>() == size_of::<usize>();

    /// The native handles of `n` lower handles.
    ///
    /// # Safety
    /// `lower` must be null or valid for reads of `n` handles, as long as this lives.
    #[inline(always)]
    pub unsafe fn read(room: &'a mut Room<T>, lower: *mut usize, n: usize) -> Self {
        // SAFETY: i < n, for which `lower` is valid.
        Self::new(room, lower, n, |i| unsafe { T::from_lower(*lower.add(i)) })
    }

    /// Room for `n` handles that the native function will write.
    ///
    /// # Safety
    /// `lower` must be null or valid for writes of `n` handles, as long as this lives.
    #[inline(always)]
    pub unsafe fn unset(room: &'a mut Room<T>, lower: *mut usize, n: usize) -> Self {
        // Entries that the function does not set are valid handles.
        Self::new(room, lower, n, |_| T::from_lower(0))
    }

    #[inline(always)]
    fn new(
        room: &'a mut Room<T>,
        lower: *mut usize,
        n: usize,
        entry: impl FnMut(usize) -> T,
    ) -> Self {
        let start = match Self::SAME || lower.is_null() {
            true => lower.cast(),
            false => room.fill(n, entry),
        };
        Handles {
            lower,
            n,
            start,
            room: PhantomData,
        }
    }

    /// What the native function gets.
    #[inline(always)]
    pub fn pointer(&mut self) -> *mut T {
        self.start
    }

    /// Writes the handles back to the caller's array.
    ///
    /// # Safety
    /// The array must be valid for writes.
    #[inline(always)]
    pub unsafe fn write_back(&mut self) {
        if !Self::SAME && !self.lower.is_null() {
            for i in 0..self.n {
                // SAFETY: i < n, for which `lower` is valid and the room is filled.
                unsafe { self.lower.add(i).write((*self.start.add(i)).lower()) };
            }
        }
    }
}

/// An array of statuses that one call fills.
pub struct Statuses<'a> {
    wanted: *mut Status,
    n: usize,
    start: *mut MPI_Status,
    room: PhantomData<&'a mut Room<MPI_Status>>,
}

impl<'a> Statuses<'a> {
    /// Room for `n` statuses, for the caller's `wanted`.
    ///
    /// # Safety
    /// `wanted` must be null or valid for writes of `n` statuses, as long as this lives.
    #[inline(always)]
    pub unsafe fn new(room: &'a mut Room<MPI_Status>, wanted: *mut Status, n: usize) -> Self {
        let start = match wanted.is_null() {
            true => native::STATUS_IGNORE as *mut MPI_Status,
            false => room.fill(n, |_| native::EMPTY_STATUS),
        };
        Statuses {
            wanted,
            n,
            start,
            room: PhantomData,
        }
    }

    /// What the native function gets.
    #[inline(always)]
    pub fn pointer(&mut self) -> *mut MPI_Status {
        self.start
    }

    /// Writes `n` statuses to the caller's array, with their errors if the call returned MPI_ERR_IN_STATUS.
    #[inline(always)]
    pub fn write_back(&mut self, n: usize, code: c_int) {
        if self.wanted.is_null() {
            return;
        }
        let failed = code != value_map::NATIVE_SUCCESS && error::class(code) == abi::ERR_IN_STATUS;
        for i in 0..n.min(self.n) {
            // SAFETY: not null, so valid by the contract of `new`, and the room is filled.
            unsafe {
                let filled = &*self.start.add(i);
                self.wanted.add(i).write(match failed {
                    false => status::standard(filled),
                    true => status::standard_with_error(filled),
                });
            }
        }
    }
}

/// Translated copy of `n` integers.
///
/// # Safety
/// `values` must be null or valid for reads of `n`.
pub unsafe fn ints(values: *const i32, n: usize, translate: fn(i32) -> i32) -> Vec<i32> {
    let n = if values.is_null() { 0 } else { n };
    // SAFETY: i < n.
    (0..n)
        .map(|i| translate(unsafe { *values.add(i) }))
        .collect()
}

/// Translates `n` integers where they are.
///
/// # Safety
/// `values` must be null or valid for reads and writes of `n`.
pub unsafe fn map(values: *mut i32, n: usize, translate: fn(i32) -> i32) {
    let n = if values.is_null() { 0 } else { n };
    for i in 0..n {
        // SAFETY: i < n.
        unsafe { *values.add(i) = translate(*values.add(i)) };
    }
}

/// Bytes for the longest string of any library.
const LONGEST_TEXT: usize = 8192;

/// A string that the library writes. The caller's buffer may be shorter.
pub struct Text([u8; LONGEST_TEXT]);

impl Text {
    /// An empty string.
    pub fn new() -> Self {
        Text([0; LONGEST_TEXT])
    }

    /// What the native function gets.
    pub fn pointer(&mut self) -> *mut c_char {
        self.0.as_mut_ptr().cast()
    }

    /// Copies the string to a buffer of `size` bytes and truncates it if necessary. Returns its length without the NUL.
    ///
    /// # Safety
    /// `buffer` must be valid for writes of `size` bytes.
    pub unsafe fn write_back(&self, buffer: *mut c_char, size: usize) -> i32 {
        let length = self
            .0
            .iter()
            .position(|byte| *byte == 0)
            .unwrap_or(LONGEST_TEXT);
        let length = length.min(size.saturating_sub(1));
        // SAFETY: `length + 1 <= size` bytes are written.
        unsafe {
            self.0
                .as_ptr()
                .copy_to_nonoverlapping(buffer.cast(), length);
            buffer.add(length).write(0);
        }
        length as i32
    }
}

/// Number of processes in a collective operation: that of the remote group if `comm` is an intercommunicator.
pub fn comm_size(comm: MPI_Comm) -> usize {
    let (mut inter, mut size) = (0, 0);
    // SAFETY: locals; an invalid communicator is reported by the library, here and by the caller.
    unsafe {
        mpi_sys::MPI_Comm_test_inter(comm, &mut inter);
        match inter {
            0 => mpi_sys::MPI_Comm_size(comm, &mut size),
            _ => mpi_sys::MPI_Comm_remote_size(comm, &mut size),
        };
    }
    length(size)
}

/// Incoming and outgoing neighbours in the topology of `comm`.
pub fn neighbours(comm: MPI_Comm) -> (usize, usize) {
    let mut kind = mpi_sys::MPI_UNDEFINED;
    let (mut rank, mut incoming, mut outgoing, mut weighted) = (0, 0, 0, 0);
    // SAFETY: locals, and functions that are called for the topology that they are made for.
    unsafe {
        mpi_sys::MPI_Topo_test(comm, &mut kind);
        match value_map::topology_standard(kind) {
            abi::CART => {
                mpi_sys::MPI_Cartdim_get(comm, &mut incoming);
                incoming *= 2;
                outgoing = incoming;
            }
            abi::GRAPH => {
                mpi_sys::MPI_Comm_rank(comm, &mut rank);
                mpi_sys::MPI_Graph_neighbors_count(comm, rank, &mut incoming);
                outgoing = incoming;
            }
            abi::DIST_GRAPH => {
                mpi_sys::MPI_Dist_graph_neighbors_count(
                    comm,
                    &mut incoming,
                    &mut outgoing,
                    &mut weighted,
                );
            }
            _ => {}
        }
    }
    (length(incoming), length(outgoing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_any_number_go_both_ways() {
        for n in [0, 1, SHORT, SHORT + 1, 100] {
            let mut lower: Vec<usize> = (0..n).map(|i| 0x9800_0000 + i).collect();
            let expected = lower.clone();
            // SAFETY: an array of `n` handles.
            unsafe {
                let mut room = Room::<mpi_sys::MPI_Request>::new();
                let mut handles = Handles::read(&mut room, lower.as_mut_ptr(), lower.len());
                let pointer = handles.pointer();
                for (i, handle) in expected.iter().enumerate() {
                    assert_eq!((*pointer.add(i)).lower(), *handle);
                }
                handles.write_back();
            }
            assert_eq!(lower, expected);
        }
    }

    #[test]
    fn text_is_cut_at_the_callers_buffer() {
        let mut text = Text::new();
        text.0[..5].copy_from_slice(b"hello");
        let mut buffer = [1_u8; 8];
        // SAFETY: the buffer has as many bytes as said.
        let length = unsafe { text.write_back(buffer.as_mut_ptr().cast(), 4) };
        assert_eq!((length, &buffer), (3, b"hel\0\x01\x01\x01\x01"));
    }

    #[test]
    fn integers_are_translated() {
        let mut numbers = [1, 2, 3];
        // SAFETY: as many numbers as said.
        unsafe {
            assert_eq!(ints(numbers.as_ptr(), 3, |n| n * 2), [2, 4, 6]);
            assert!(ints(std::ptr::null(), 3, |n| n).is_empty());
            map(numbers.as_mut_ptr(), 2, |n| n + 1);
        }
        assert_eq!(numbers, [2, 3, 3]);
    }
}
