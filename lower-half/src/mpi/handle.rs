//! Handles as words: what crosses between the halves is the native handle, zero-extended.

/// A handle of the native library. Implemented in the `native_*` files, where its width is known.
pub trait Handle: Copy {
    /// The handle that a word stands for.
    fn from_word(word: usize) -> Self;
    /// The word for this handle.
    fn word(self) -> usize;
}

/// The native handle that a word stands for.
#[inline(always)]
pub fn handle<T: Handle>(word: usize) -> T {
    T::from_word(word)
}

/// The word for a native handle.
#[inline(always)]
pub fn word<T: Handle>(handle: T) -> usize {
    handle.word()
}
