//! Arrays that cross: of handles, statuses, translated integers, and text of bounded length.
//!
//! Where a native handle is as wide as a word, the caller's array serves as it is. Otherwise, and
//! for statuses, there is a copy, on the stack if it is short.
//!
//! # Safety
//! Pointers are those that a crossing passed: null (where MPI ignores the array), or valid for the
//! number of entries given. The native function gets the pointer for the time of the call.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_int};
use core::marker::PhantomData;
use core::mem::{size_of, MaybeUninit};

use contract::abi::{self, Status};
use mpi_sys::{MPI_Comm, MPI_Status};

use super::handle::Handle;
use super::{error, native, status, values};

/// Entries that are kept on the stack.
const SHORT: usize = 16;

/// A count of MPI as a length; negative ones are the library's to complain about.
#[inline(always)]
pub fn length(count: impl TryInto<usize>) -> usize {
    count.try_into().unwrap_or(0)
}

/// Room for the copy of one array: on the stack, or on the heap if that is too short. It is made
/// where it stays and filled there, since moving it would cost more than filling it.
pub struct Room<T> {
    short: [MaybeUninit<T>; SHORT],
    long: Vec<MaybeUninit<T>>,
}

impl<T> Room<T> {
    /// Room that nothing was written to.
    #[inline(always)]
    pub fn new() -> Self {
        Room {
            short: [const { MaybeUninit::uninit() }; SHORT],
            long: Vec::new(),
        }
    }

    /// Where `n` entries are, each `entry` of its place.
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
    words: *mut usize,
    n: usize,
    start: *mut T,
    room: PhantomData<&'a mut Room<T>>,
}

impl<'a, T: Handle> Handles<'a, T> {
    /// Whether the words are native handles already.
    const SAME: bool = size_of::<T>() == size_of::<usize>();

    /// The native handles for `n` words.
    ///
    /// # Safety
    /// `words` must be null or valid for reads of `n` words, as long as this lives.
    #[inline(always)]
    pub unsafe fn read(room: &'a mut Room<T>, words: *mut usize, n: usize) -> Self {
        // SAFETY: i < n, for which the words are valid.
        Self::new(room, words, n, |i| unsafe { T::from_word(*words.add(i)) })
    }

    /// Room for `n` handles that the native function will write.
    ///
    /// # Safety
    /// `words` must be null or valid for writes of `n` words, as long as this lives.
    #[inline(always)]
    pub unsafe fn unset(room: &'a mut Room<T>, words: *mut usize, n: usize) -> Self {
        // What the function does not set stays a handle.
        Self::new(room, words, n, |_| T::from_word(0))
    }

    #[inline(always)]
    fn new(
        room: &'a mut Room<T>,
        words: *mut usize,
        n: usize,
        entry: impl FnMut(usize) -> T,
    ) -> Self {
        let start = match Self::SAME || words.is_null() {
            true => words.cast(),
            false => room.fill(n, entry),
        };
        Handles {
            words,
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

    /// Writes the handles back to the words.
    ///
    /// # Safety
    /// The words must be valid for writes.
    #[inline(always)]
    pub unsafe fn write_back(&mut self) {
        if !Self::SAME && !self.words.is_null() {
            for i in 0..self.n {
                // SAFETY: i < n, for which the words are valid and the room is filled.
                unsafe { self.words.add(i).write((*self.start.add(i)).word()) };
            }
        }
    }
}

/// An array of statuses that one call fills.
pub struct Statuses<'a> {
    wanted: *mut Status,
    start: *mut MPI_Status,
    room: PhantomData<&'a mut Room<MPI_Status>>,
}

impl<'a> Statuses<'a> {
    /// Room for `n` statuses, for the caller's `wanted`.
    #[inline(always)]
    pub fn new(room: &'a mut Room<MPI_Status>, wanted: *mut Status, n: usize) -> Self {
        let start = match wanted.is_null() {
            true => native::STATUS_IGNORE as *mut MPI_Status,
            false => room.fill(n, |_| native::EMPTY_STATUS),
        };
        Statuses {
            wanted,
            start,
            room: PhantomData,
        }
    }

    /// What the native function gets.
    #[inline(always)]
    pub fn pointer(&mut self) -> *mut MPI_Status {
        self.start
    }

    /// Hands `n` statuses to the caller, with their errors if the call returned that these say
    /// what failed.
    ///
    /// # Safety
    /// `wanted` must be null or valid for `n` writes, and `n` not above what room was made for.
    #[inline(always)]
    pub unsafe fn write_back(&mut self, n: usize, code: c_int) {
        if self.wanted.is_null() {
            return;
        }
        let failed = code != values::NATIVE_SUCCESS && error::class(code) == abi::ERR_IN_STATUS;
        for i in 0..n {
            // SAFETY: i < n, see this function's contract.
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

/// Bytes that every library's longest string fits into.
const LONGEST_TEXT: usize = 8192;

/// A string that the library writes, of which the caller's buffer may hold less.
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

    /// Copies the string to a buffer of `size` bytes, cut if need be; its length without the NUL.
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

/// Processes that a collective operation has to do with: those of the remote group if `comm` is an
/// intercommunicator.
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
        match values::topology_standard(kind) {
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
            let mut words: Vec<usize> = (0..n).map(|i| 0x9800_0000 + i).collect();
            let expected = words.clone();
            // SAFETY: as many words as said.
            unsafe {
                let mut room = Room::<mpi_sys::MPI_Request>::new();
                let mut handles = Handles::read(&mut room, words.as_mut_ptr(), words.len());
                let pointer = handles.pointer();
                for (i, word) in expected.iter().enumerate() {
                    assert_eq!((*pointer.add(i)).word(), *word);
                }
                handles.write_back();
            }
            assert_eq!(words, expected);
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
