//! Translation of enumerations between the values of an ABI and the standard's.

/// Translation of an application's value that the ABI does not define. No enumeration has it as a valid value, so the
/// check of the argument fails.
pub const INVALID: i32 = i32::MIN;

/// Defines `fn(i32) -> i32` from the application's values to the standard's.
#[macro_export]
macro_rules! translate_in {
    ($(#[$doc:meta])* $name:ident { $($app:expr => $standard:ident),* $(,)? }) => {
        $(#[$doc])*
        #[inline(always)]
        pub fn $name(value: i32) -> i32 {
            $(if value == $app { return ::contract::abi::$standard; })*
            $crate::INVALID
        }
    };
}

/// Defines `fn(i32) -> i32` from the standard's values to the application's. A value that is not listed is not changed:
/// MPI_UNDEFINED is the same in all ABIs.
#[macro_export]
macro_rules! translate_out {
    ($(#[$doc:meta])* $name:ident { $($standard:ident => $app:expr),* $(,)? }) => {
        $(#[$doc])*
        #[inline(always)]
        pub fn $name(value: i32) -> i32 {
            match value {
                $(::contract::abi::$standard => $app,)*
                other => other,
            }
        }
    };
}

/// Defines a translation of bit sets in both directions.
#[macro_export]
macro_rules! translate_bits {
    ($in:ident, $out:ident { $($standard:ident = $app:expr),* $(,)? }) => {
        /// From the application's bits to the standard's.
        #[inline(always)]
        pub fn $in(value: i32) -> i32 {
            let mut result = 0;
            $(if value & $app != 0 { result |= ::contract::abi::$standard; })*
            result
        }

        /// From the standard's bits to the application's.
        #[inline(always)]
        #[allow(dead_code)] // assertions are only translated in
        pub fn $out(value: i32) -> i32 {
            let mut result = 0;
            $(if value & ::contract::abi::$standard != 0 { result |= $app; })*
            result
        }
    };
}
