//! Arguments of MPI functions as safe types.
//!
//! C passes pointers, and only the caller knows that they are valid. A front is the one place that takes the caller's
//! word for it: [`pass`] makes the type that the function of this crate asks for, and that function is safe.
//!
//! | C | here |
//! |---|---|
//! | `int *rank`, a result | [`Out<i32>`](Out) |
//! | `int *count`, a result or NULL | `Option<Out<i32>>` |
//! | `int *flag`, read and written | [`InOut<i32>`](InOut) |
//! | `const int ranks[n]` | [`Input<i32>`](Input) |
//! | `const int counts[n]`, or of `MPI_Count` or `MPI_Aint` | [`Numbers`] |
//! | `int ranks[n]`, results | [`Output<i32>`](Output) |
//! | `const char *name` | [`CStr`] |
//! | `char name[MPI_MAX_OBJECT_NAME]`, a result | [`Output<c_char>`](Output) with [`Output::text`] |
//! | `char *value`, a result whose length the function knows | [`Text`] |
//! | `const void *buf`, `void *buf` | [`Buffer`] |
//! | a handle's result, a status or a translated array: locals of the front | `&mut T`, `&[T]`, `Option<&mut Status>` |
//!
//! The types for the application's memory hold raw pointers and never make references: an application may pass one
//! variable for two results, translate an array in place, or write to it from another thread. Under the native library
//! that is at worst a wrong number, and so it is here. A null pointer as the place of one value faults, as in the
//! native library. As an array it has no entries.
//!
//! To convert a function: change its parameter types, drop `unsafe`, and the generated fronts follow by inference.
//!
//! # Examples
//! A result is given to the caller's place, or the call has an error code.
//!
//! ```
//! use stasis_upper_half::argument::Out;
//!
//! let mut rank = -1;
//! let mut place = Out::from(&mut rank);
//! assert_eq!(place.give(Err(5)), 5);
//! assert_eq!(place.give(Ok(3)), contract::abi::SUCCESS);
//! assert_eq!(rank, 3);
//! ```
//!
//! # Safety
//! Only [`pass`] makes these types from a caller's pointer, with the promise that it is valid for the length beside it.
//! The others come from references or slices, whose lifetime they keep.
#![allow(unsafe_code)]

use core::ffi::{c_char, c_void, CStr};
use core::marker::PhantomData;

/// Place of a result.
#[repr(transparent)]
pub struct Out<'a, T>(*mut T, PhantomData<&'a mut T>);

impl<T> Out<'_, T> {
    /// Writes the result. What was there is not dropped.
    #[inline(always)]
    pub fn set(&mut self, value: T) {
        // SAFETY: the place is valid for a write, see the head.
        unsafe { self.0.write(value) }
    }

    /// The same place, for a function that is called in between.
    #[inline(always)]
    pub fn again(&mut self) -> Out<'_, T> {
        Out(self.0, PhantomData)
    }

    /// Writes the result and gives MPI_SUCCESS, or gives the error code.
    #[inline(always)]
    pub fn give(&mut self, made: Result<T, i32>) -> i32 {
        match made {
            Ok(value) => {
                self.set(value);
                contract::abi::SUCCESS
            }
            Err(code) => code,
        }
    }

    /// The pointer, for a crossing that writes the result.
    #[inline(always)]
    pub fn as_ptr(&mut self) -> *mut T {
        self.0
    }
}

impl<'a, T> From<&'a mut T> for Out<'a, T> {
    #[inline(always)]
    fn from(place: &'a mut T) -> Self {
        Out(place, PhantomData)
    }
}

/// Place of a value that is read and written.
#[repr(transparent)]
pub struct InOut<'a, T>(*mut T, PhantomData<&'a mut T>);

impl<T: Copy> InOut<'_, T> {
    /// The present value.
    #[inline(always)]
    pub fn get(&self) -> T {
        // SAFETY: the place is valid for a read, see the head.
        unsafe { self.0.read() }
    }

    /// Writes a value.
    #[inline(always)]
    pub fn set(&mut self, value: T) {
        // SAFETY: the place is valid for a write, see the head.
        unsafe { self.0.write(value) }
    }

    /// The pointer, for a crossing that reads and writes the value.
    #[inline(always)]
    pub fn as_ptr(&mut self) -> *mut T {
        self.0
    }

    /// The same place, for a function that is called in between.
    #[inline(always)]
    pub fn again(&mut self) -> InOut<'_, T> {
        InOut(self.0, PhantomData)
    }
}

impl<'a, T> From<&'a mut T> for InOut<'a, T> {
    #[inline(always)]
    fn from(place: &'a mut T) -> Self {
        InOut(place, PhantomData)
    }
}

/// Input array.
pub struct Input<'a, T> {
    first: *const T,
    len: usize,
    lives: PhantomData<&'a [T]>,
}

impl<T> Clone for Input<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Input<'_, T> {}

impl<'a, T: Copy> Input<'a, T> {
    /// Number of entries. A null pointer has none.
    #[inline(always)]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether it has no entries.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// One entry, if there is one with that index.
    #[inline(always)]
    pub fn get(self, index: usize) -> Option<T> {
        // SAFETY: the array has `len` readable entries, see the head.
        (index < self.len).then(|| unsafe { self.first.add(index).read() })
    }

    /// All entries, each read when it is asked for.
    #[inline(always)]
    pub fn iter(self) -> impl ExactSizeIterator<Item = T> + DoubleEndedIterator + 'a {
        (0..self.len).map(move |index| {
            // SAFETY: the array has `len` readable entries, see the head.
            unsafe { self.first.add(index).read() }
        })
    }

    /// A copy of all entries.
    pub fn to_vec(self) -> Vec<T> {
        self.iter().collect()
    }

    /// The pointer, for a crossing.
    #[inline(always)]
    pub fn as_ptr(self) -> *const T {
        self.first
    }
}

impl<'a, T> From<&'a [T]> for Input<'a, T> {
    #[inline(always)]
    fn from(entries: &'a [T]) -> Self {
        Input {
            first: entries.as_ptr(),
            len: entries.len(),
            lives: PhantomData,
        }
    }
}

/// Array of results.
pub struct Output<'a, T> {
    first: *mut T,
    len: usize,
    lives: PhantomData<&'a mut [T]>,
}

impl<T: Copy> Output<'_, T> {
    /// The same array, for a function that is called in between.
    #[inline(always)]
    pub fn again(&mut self) -> Output<'_, T> {
        Output {
            first: self.first,
            len: self.len,
            lives: PhantomData,
        }
    }

    /// Number of entries for which there is room. A null pointer has none.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no room.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// One entry, which a crossing has written, if there is room for it.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<T> {
        // SAFETY: the array has `len` entries, see the head.
        (index < self.len).then(|| unsafe { self.first.add(index).read() })
    }

    /// Writes one entry, if there is room for it.
    #[inline(always)]
    pub fn set(&mut self, index: usize, value: T) {
        if index < self.len {
            // SAFETY: the array has `len` writable entries, see the head.
            unsafe { self.first.add(index).write(value) }
        }
    }

    /// Writes the first entries, as many as there is room for.
    #[inline(always)]
    pub fn fill(&mut self, values: impl IntoIterator<Item = T>) {
        for (index, value) in (0..self.len).zip(values) {
            self.set(index, value);
        }
    }

    /// The pointer, for a crossing that writes the results.
    #[inline(always)]
    pub fn as_ptr(&mut self) -> *mut T {
        self.first
    }
}

impl Output<'_, c_char> {
    /// Writes a string and its NUL, cut to the room that there is. The result is the length without the NUL.
    pub fn text(&mut self, text: &[u8]) -> i32 {
        let length = text.len().min(self.len.saturating_sub(1));
        self.fill(text[..length].iter().map(|&byte| byte as c_char));
        self.set(length, 0);
        length as i32
    }
}

impl<'a, T> From<&'a mut [T]> for Output<'a, T> {
    #[inline(always)]
    fn from(entries: &'a mut [T]) -> Self {
        Output {
            first: entries.as_mut_ptr(),
            len: entries.len(),
            lives: PhantomData,
        }
    }
}

/// Place of a string. Only the called function knows its length.
#[repr(transparent)]
pub struct Text<'a>(*mut c_char, PhantomData<&'a mut c_char>);

impl Text<'_> {
    /// The place with its length.
    ///
    /// # Safety
    /// The MPI standard requires the application to have room for `len` characters there.
    #[inline(always)]
    pub unsafe fn room(&mut self, len: usize) -> Output<'_, c_char> {
        Output {
            first: self.0,
            len,
            lives: PhantomData,
        }
    }
}

/// Buffer of a message, or one of the special values MPI_BOTTOM and MPI_IN_PLACE, in the standard ABI. Nothing in this
/// crate reads or writes it but through a crossing or a typed copy.
///
/// A buffer is passed with a count and a datatype. The front promises that it is valid for that many elements of the
/// datatype: for a send it may be read, for a receive it may be written. The promise holds until the operation ends, as
/// MPI requires it of the program. So an operation, which may outlive the call that starts it, takes a
/// `Buffer<'static>`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Buffer<'a>(*mut c_void, PhantomData<&'a ()>);

// SAFETY: an address, which has no owner. Any thread of the program may complete an operation on the buffer.
unsafe impl Send for Buffer<'_> {}

impl Buffer<'_> {
    /// No memory: the buffer of no elements.
    pub const NONE: Buffer<'static> = Buffer(core::ptr::null_mut(), PhantomData);

    /// Memory of this library. Who makes the buffer keeps it.
    pub(crate) fn of_own(memory: *mut u8) -> Buffer<'static> {
        Buffer(memory.cast(), PhantomData)
    }

    /// The address.
    #[inline(always)]
    pub fn address(self) -> usize {
        self.0 as usize
    }

    /// The pointer, for a crossing.
    #[inline(always)]
    pub fn as_ptr(self) -> *mut c_void {
        self.0
    }

    /// The buffer that begins as many bytes behind this one's start.
    #[inline(always)]
    pub(crate) fn at(self, bytes: isize) -> Self {
        Buffer(self.0.wrapping_byte_offset(bytes), PhantomData)
    }
}

/// Input array of counts or displacements, of which a function has forms with different types.
#[derive(Clone, Copy)]
pub enum Numbers<'a> {
    /// `int`.
    Int(Input<'a, i32>),
    /// `MPI_Count`.
    Count(Input<'a, i64>),
    /// `MPI_Aint`.
    Aint(Input<'a, isize>),
}

impl Numbers<'_> {
    /// The number at this index; 0 behind the end.
    pub(crate) fn at(self, index: i32) -> i64 {
        let index = index as usize;
        let number = match self {
            Numbers::Int(numbers) => numbers.get(index).map(i64::from),
            Numbers::Count(numbers) => numbers.get(index),
            Numbers::Aint(numbers) => numbers.get(index).map(|number| number as i64),
        };
        number.unwrap_or(0)
    }

    /// The least number; 0 of none.
    pub(crate) fn least(self) -> i64 {
        let length = match self {
            Numbers::Int(numbers) => numbers.len(),
            Numbers::Count(numbers) => numbers.len(),
            Numbers::Aint(numbers) => numbers.len(),
        };
        (0..length as i32)
            .map(|index| self.at(index))
            .min()
            .unwrap_or(0)
    }
}

/// A pointer of the application, whose C type has the same layout as the type that is asked for.
#[derive(Clone, Copy)]
pub struct App<P>(pub P);

/// A pointer to a local of the front, which nobody else knows.
#[derive(Clone, Copy)]
pub struct Local<P>(pub P);

/// A type of argument that can be made from a pointer `P`, or from a pointer and a length.
pub trait Passed<P> {
    /// See [`pass`].
    ///
    /// # Safety
    /// As for [`pass`].
    unsafe fn passed(pointer: P) -> Self;
}

/// The argument that the called function asks for, made from what the application passed.
///
/// # Safety
/// The pointer is valid as the MPI standard requires it of the argument, for as long as the result lives: for reading,
/// writing or both, and for as many entries as the length beside it says.
#[inline(always)]
pub unsafe fn pass<P, T: Passed<P>>(pointer: P) -> T {
    // SAFETY: the caller's promise.
    unsafe { T::passed(pointer) }
}

/// The number of entries at `pointer`: none at null.
#[inline(always)]
fn entries<T>(pointer: *const T, len: usize) -> usize {
    match pointer.is_null() {
        true => 0,
        false => len,
    }
}

/// Implements [`Passed`]: from a pointer pattern to an expression.
macro_rules! passed {
    ($([$($generics:tt)*] $given:ty => $made:ty: $pointer:pat => $value:expr;)*) => {$(
        impl<$($generics)*> Passed<$given> for $made {
            #[inline(always)]
            unsafe fn passed($pointer: $given) -> Self {
                $value
            }
        }
    )*};
}

passed! {
    ['a, T, U] App<*mut U> => Out<'a, T>: App(place) => Out(place.cast(), PhantomData);
    // Where the standard allows a null pointer: the application does not ask for the result.
    ['a, T, U] App<*mut U> => Option<Out<'a, T>>: App(place) =>
        (!place.is_null()).then(|| Out(place.cast(), PhantomData));
    ['a, T, U] App<*mut U> => InOut<'a, T>: App(place) => InOut(place.cast(), PhantomData);
    ['a, T, U] App<(*const U, usize)> => Input<'a, T>: App((first, len)) =>
        Input { first: first.cast(), len: entries(first, len), lives: PhantomData };
    ['a, T, U] App<(*mut U, usize)> => Output<'a, T>: App((first, len)) =>
        Output { first: first.cast(), len: entries(first, len), lives: PhantomData };
    ['a] App<(*const i32, usize)> => Numbers<'a>: App((first, len)) =>
        Numbers::Int(Input { first, len: entries(first, len), lives: PhantomData });
    ['a] App<(*const i64, usize)> => Numbers<'a>: App((first, len)) =>
        Numbers::Count(Input { first, len: entries(first, len), lives: PhantomData });
    ['a] App<(*const isize, usize)> => Numbers<'a>: App((first, len)) =>
        Numbers::Aint(Input { first, len: entries(first, len), lives: PhantomData });
    ['a] App<*mut c_void> => Buffer<'a>: App(address) => Buffer(address, PhantomData);
    // SAFETY: the caller passes a string that ends with a NUL.
    ['a] App<*const c_char> => &'a CStr: App(text) => unsafe { CStr::from_ptr(text) };
    ['a] App<*const c_char> => Option<&'a CStr>: App(text) =>
        // SAFETY: as in the line above; null if the application passes none.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) });
    ['a] App<*mut c_char> => Text<'a>: App(place) => Text(place, PhantomData);
    // Functions that take the pointers themselves.
    [T, U] App<*const U> => *const T: App(pointer) => pointer.cast();
    [T, U] App<*const U> => *mut T: App(pointer) => pointer.cast_mut().cast();
    [T, U] App<*mut U> => *mut T: App(pointer) => pointer.cast();
    [T, U] App<*mut U> => *const T: App(pointer) => pointer.cast();
    [T, U] App<(*const U, usize)> => *const T: App((first, _)) => first.cast();
    [T, U] App<(*mut U, usize)> => *mut T: App((first, _)) => first.cast();
    // SAFETY: a local of the front, which it does not touch during the call.
    ['a, T] Local<*mut T> => &'a mut T: Local(place) => unsafe { &mut *place };
    // SAFETY: as in the line above.
    ['a, T] Local<*mut T> => &'a T: Local(place) => unsafe { &*place };
    // SAFETY: as in the line above; null where the application ignores the status.
    ['a, T] Local<*mut T> => Option<&'a mut T>: Local(place) => unsafe { place.as_mut() };
    ['a, T] Local<(*mut T, usize)> => &'a [T]: Local((first, len)) =>
        // SAFETY: as in the lines above, with as many entries.
        unsafe { core::slice::from_raw_parts(first, len) };
    ['a, T] Local<(*mut T, usize)> => &'a mut [T]: Local((first, len)) =>
        // SAFETY: as in the line above.
        unsafe { core::slice::from_raw_parts_mut(first, len) };
    ['a, T] Local<(*mut T, usize)> => Option<&'a mut [T]>: Local((first, len)) =>
        // SAFETY: as in the line above; null where the application ignores the statuses.
        (!first.is_null()).then(|| unsafe { core::slice::from_raw_parts_mut(first, len) });
    [T] Local<*mut T> => *mut T: Local(pointer) => pointer;
    [T] Local<*mut T> => *const T: Local(pointer) => pointer;
    [T] Local<(*mut T, usize)> => *mut T: Local((first, _)) => first;
    [T] Local<(*mut T, usize)> => *const T: Local((first, _)) => first;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_variable_may_have_two_roles() {
        let mut values = [1, 2, 3, 7];
        let first = values.as_mut_ptr();
        // SAFETY: three entries of the local.
        let (input, mut output) = unsafe {
            let input: Input<'_, i32> = pass(App((first.cast_const(), 3)));
            let output: Output<'_, i32> = pass(App((first, 3)));
            (input, output)
        };
        for (index, value) in input.iter().enumerate() {
            output.set(index, value * 10);
        }
        output.set(3, 99);
        assert_eq!(input.to_vec(), [10, 20, 30]);
        assert_eq!((input.get(2), input.get(3)), (Some(30), None));
        assert_eq!(values, [10, 20, 30, 7]);
    }

    #[test]
    fn text_is_cut_to_its_room() {
        let mut room = [b'x' as c_char; 4];
        let mut output = Output::from(&mut room[..3]);
        assert_eq!(output.text(b"abc"), 2);
        assert_eq!(room, b"ab\0x".map(|byte| byte as c_char));
        let mut none = Output::from(&mut room[..0]);
        assert_eq!(none.text(b"abc"), 0);
    }

    #[test]
    fn nothing_is_at_null() {
        // SAFETY: null, which has no entries.
        let none: Input<'_, i32> = unsafe { pass(App((core::ptr::null::<i32>(), 5))) };
        assert!(none.is_empty() && none.get(0).is_none());
    }
}
