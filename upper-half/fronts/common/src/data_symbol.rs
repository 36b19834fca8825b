//! Data symbols that an MPI library exports beside its functions.
//!
//! # Safety
//! A front writes its data symbols in its constructor only, before the application can call MPI. A program or another
//! library may write a symbol too, as the real MPI library allows it; the front does not depend on the value then.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;

/// Writable memory of a data symbol, with the size and alignment of `T`.
#[repr(transparent)]
pub struct DataSymbol<T>(UnsafeCell<T>);

// SAFETY: no reference to the value is ever made. The only writes by the front are in its constructor, which no other
// thread runs beside.
unsafe impl<T> Sync for DataSymbol<T> {}

impl<T> DataSymbol<T> {
    /// A symbol with that initial value.
    pub const fn new(value: T) -> DataSymbol<T> {
        DataSymbol(UnsafeCell::new(value))
    }

    /// Address of the value.
    pub const fn as_ptr(&self) -> *mut T {
        self.0.get()
    }
}

/// Defines and exports data symbols of an MPI library: `"Library": symbol: type = initial value; ...`.
#[macro_export]
macro_rules! data_symbols {
    ($library:literal: $($symbol:ident: $of:ty = $value:expr;)*) => {$(
        #[doc = concat!($library, "'s `", stringify!($symbol), "`.")]
        #[no_mangle]
        pub static $symbol: $crate::DataSymbol<$of> = $crate::DataSymbol::new($value);
    )*};
}
