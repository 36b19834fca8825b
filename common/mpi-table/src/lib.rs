//! The table of MPI functions, and the generators that read it.
//!
//! The table is `mpi.table`; its head says how to add a function. [`functions`] returns it, and [`generate`] has the
//! generators. The two halves of a rank compare [`hash`], so that they work together only if their tables are the same.
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
/// If the table has a mistake. The tests of this crate find it before.
///
/// # Examples
/// ```
/// let send = stasis_mpi_table::functions().iter().find(|function| function.name == "MPI_Send").unwrap();
/// let parameters: Vec<&str> = send.params.iter().map(|param| param.name.as_str()).collect();
/// assert_eq!(parameters, ["buf", "count", "datatype", "dest", "tag", "comm"]);
/// ```
pub fn functions() -> &'static [Function] {
    static FUNCTIONS: OnceLock<Vec<Function>> = OnceLock::new();
    FUNCTIONS.get_or_init(|| {
        parse(TEXT, contract::FIRST_MPI_SLOT).unwrap_or_else(|error| panic!("{error}"))
    })
}

/// FNV-1a hash of the rows as they were read ([`Function::row`]), which must be the same for both halves. Comments,
/// headings, line breaks and the names of parameters are not hashed: existing checkpoints stay valid when they change.
pub fn hash() -> u64 {
    hash_of(functions())
}

/// Hash of the rows, and hashes in older checkpoints that fit them: of the table's text, before rows were hashed, and
/// of rows that said `direct` where the upper half answers by itself now. The list is valid only while the rows are
/// the same; remove a hash when a row changes that its checkpoints use otherwise.
const OLDER: (u64, [u64; 2]) = (
    0x40a7_7c23_f4b4_d406,
    [0x52e5_cbe3_cbbf_0c0d, 0xeaa9_1c27_1584_fb0c],
);

/// Hashes in older checkpoints that stand for the rows of this table.
pub fn older_hashes() -> Vec<u64> {
    let (rows, older) = OLDER;
    match rows == hash() {
        true => older.into(),
        false => Vec::new(),
    }
}

fn hash_of(functions: &[Function]) -> u64 {
    let rows = functions.iter().map(|function| function.row() + "\n");
    rows.flat_map(String::into_bytes)
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash_of_text(text: &str) -> u64 {
        hash_of(&parse(text, contract::FIRST_MPI_SLOT).expect("a table"))
    }

    #[test]
    fn older_checkpoints_are_of_this_table() {
        assert_eq!(older_hashes(), OLDER.1, "the rows' hash is {:#x}", hash());
    }

    #[test]
    fn comments_and_names_are_not_hashed() {
        assert_eq!(hash_of_text(TEXT), hash());
        for same in [
            format!("# A comment.\n\n{TEXT}"),
            TEXT.replace("## ", "## Of "),
            TEXT.replace(",\n    ", ", "),
            TEXT.replace(
                "rank source, tag tag, comm comm, out",
                "rank from, tag mark, comm of, out",
            ),
        ] {
            assert_ne!(same, TEXT);
            assert_eq!(hash_of_text(&same), hash());
        }
    }

    #[test]
    fn each_part_of_a_signature_is_hashed() {
        for (row, other) in [
            (
                "MPI_Probe(rank source, tag tag,",
                "MPI_Probe(tag tag, rank source,",
            ),
            ("MPI_Probe(", "MPI_Proba("),
            ("array_of_requests[count]", "array_of_requests[*]"),
            ("MPI_Cancel(inout request", "MPI_Cancel(request"),
            (
                "int/count count, datatype datatype, rank source",
                "int count, datatype datatype, rank source",
            ),
            ("[completion core]", "[completion direct]"),
        ] {
            let changed = TEXT.replacen(row, other, 1);
            assert_ne!(changed, TEXT, "{row}");
            assert_ne!(hash_of_text(&changed), hash(), "{row}");
        }
    }

    #[test]
    fn slots_fit_the_gate() {
        let functions = super::functions();
        assert!(functions
            .iter()
            .zip(contract::FIRST_MPI_SLOT..)
            .all(|(f, slot)| f.slot == slot));
        assert!(functions.last().expect("functions").slot < contract::END_OF_MPI_SLOTS);
    }
}
