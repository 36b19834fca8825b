//! Lower handles: the native handles, zero-extended to 64 bits. Crossings pass them.

/// A handle of the native library. Implemented in the `native_*` files, where its width is known.
pub trait Handle: Copy {
    /// The native handle of a lower handle.
    fn from_lower(lower: usize) -> Self;
    /// The lower handle of this native handle.
    fn lower(self) -> usize;
}

/// The native handle of a lower handle.
#[inline(always)]
pub fn handle<T: Handle>(lower: usize) -> T {
    T::from_lower(lower)
}

/// The lower handle of a native handle.
#[inline(always)]
pub fn lower<T: Handle>(handle: T) -> usize {
    handle.lower()
}
