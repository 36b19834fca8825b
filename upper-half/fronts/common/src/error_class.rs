//! Error classes: the classes of the tools interface, and translation to the classes of an ABI.

use contract::abi::{ERR_ARG, ERR_ERRHANDLER, ERR_OTHER};

use crate::INVALID;

/// Error classes of the tools interface in the standard ABI.
pub mod tool {
    #![allow(missing_docs)] // the names are the standard's own

    pub const CANNOT_INIT: i32 = 1001;
    pub const NOT_ACCESSIBLE: i32 = 1002;
    pub const NOT_INITIALIZED: i32 = 1003;
    pub const NOT_SUPPORTED: i32 = 1004;
    pub const MEMORY: i32 = 1005;
    pub const INVALID: i32 = 1006;
    pub const INVALID_INDEX: i32 = 1007;
    pub const INVALID_ITEM: i32 = 1008;
    pub const INVALID_SESSION: i32 = 1009;
    pub const INVALID_HANDLE: i32 = 1010;
    pub const INVALID_NAME: i32 = 1011;
    pub const OUT_OF_HANDLES: i32 = 1012;
    pub const OUT_OF_SESSIONS: i32 = 1013;
    pub const CVAR_SET_NOT_NOW: i32 = 1014;
    pub const CVAR_SET_NEVER: i32 = 1015;
    pub const PVAR_NO_WRITE: i32 = 1016;
    pub const PVAR_NO_STARTSTOP: i32 = 1017;
    pub const PVAR_NO_ATOMIC: i32 = 1018;
}

/// The number that an ABI gives a standard error class. `classes` lists standard classes by the number in that ABI.
/// A class of a later MPI standard, which has no number there, becomes the nearest older class, else MPI_ERR_OTHER.
#[cold]
pub fn class_out(classes: &[i32], class: i32) -> i32 {
    let number_of = |class| classes.iter().position(|&known| known == class);
    let older = match class {
        tool::NOT_SUPPORTED | tool::NOT_ACCESSIBLE => tool::INVALID,
        ERR_ERRHANDLER => ERR_ARG,
        _ => ERR_OTHER,
    };
    number_of(class)
        .or_else(|| number_of(older))
        .map_or(INVALID, |number| number as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::abi::{ERR_ABI, ERR_BUFFER, SUCCESS};

    #[test]
    fn a_class_without_a_number_becomes_an_older_one() {
        let classes = [SUCCESS, ERR_BUFFER, ERR_OTHER, ERR_ARG, tool::INVALID];
        for (class, number) in [
            (ERR_BUFFER, 1),
            (ERR_ABI, 2),
            (ERR_ERRHANDLER, 3),
            (tool::NOT_SUPPORTED, 4),
        ] {
            assert_eq!(class_out(&classes, class), number);
        }
        assert_eq!(class_out(&[SUCCESS], ERR_ABI), INVALID);
    }
}
