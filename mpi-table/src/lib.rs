//! The one table of MPI functions, and the generators that read it.
//!
//! The table is `mpi.table`; its head says how to add a function. [`functions`] is the table,
//! [`hash`] what two halves compare to know that they were generated from the same one, and
//! [`generate`] holds what is made from it.
#![forbid(unsafe_code)]

pub mod generate;
mod parse;
mod schema;

use std::sync::OnceLock;

pub use parse::{parse, Mistake, ParseError};
pub use schema::{Class, Direction, Function, Kind, Length, Param, Positioning, Returns, Via};

/// The table's text.
pub const TEXT: &str = include_str!("../mpi.table");

/// All functions, in the order of the table, which is the order of their slots.
///
/// # Panics
/// If the table that was compiled in has a mistake, which this crate's tests would have found.
pub fn functions() -> &'static [Function] {
    static FUNCTIONS: OnceLock<Vec<Function>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| {
        parse(TEXT, contract::FIRST_MPI_SLOT).unwrap_or_else(|error| panic!("{error}"))
    })
}

/// FNV-1a of the table's text.
pub fn hash() -> u64 {
    TEXT.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn slots_fit_the_gate() {
        let functions = super::functions();
        assert!(functions
            .iter()
            .zip(contract::FIRST_MPI_SLOT..)
            .all(|(f, slot)| f.slot == slot));
        assert!(functions.last().expect("functions").slot < contract::SLOTS);
    }
}
