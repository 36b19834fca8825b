//! Substitutes for datatypes that the library below lacks: Fortran's types of a given size, which a library may have
//! been built without, and those that came with the standard ABI. A program that has their handles may use them over
//! any library. So another datatype of the same size takes their place below.
//!
//! A datatype with the same arithmetic is used as it is: reductions work, and only an operation of the program's own
//! can notice, which gets the C type. If there is none, the substitute is one element of a type of the same size: data
//! travels, and the library refuses reductions.

use crate::object::lower_handle::{named, Slot};
use crate::object::{Datatype, DatatypeBody};
use crate::runtime::lock::Lock;
use contract::abi::datatype::*;
use contract::abi::SUCCESS;

/// Datatypes that may be lacking, and what is computed with in the same way.
const SAME: &[(usize, usize)] = &[
    (LOGICAL1, INT8_T),
    (LOGICAL2, INT16_T),
    (LOGICAL4, INT32_T),
    (LOGICAL8, INT64_T),
    (INTEGER1, INT8_T),
    (INTEGER2, INT16_T),
    (INTEGER4, INT32_T),
    (INTEGER8, INT64_T),
    (REAL4, FLOAT),
    (REAL8, DOUBLE),
    (COMPLEX8, C_FLOAT_COMPLEX),
    (COMPLEX16, C_DOUBLE_COMPLEX),
];

/// Others, and what has as many bytes in one element. No type of extended precision is among these:
/// a processor that moves one as a number loses its unused bytes.
const AS_LARGE: &[(usize, usize)] = &[
    (REAL2, INT16_T),
    (COMPLEX4, INT32_T),
    (LOGICAL16, C_DOUBLE_COMPLEX),
    (INTEGER16, C_DOUBLE_COMPLEX),
    (REAL16, C_DOUBLE_COMPLEX),
];

/// The datatypes that were made below.
static MADE: Lock<Vec<Slot<DatatypeBody>>> = Lock::new(Vec::new());

/// Gives each datatype that the library lacks the lower handle of what stands for it. What cannot be made keeps the
/// null datatype's: using it is then an error. The predefined datatypes must have the library's lower handles, or
/// null's.
pub(crate) fn fill_in() {
    let pair = |&(missing, known): &(usize, usize)| {
        (Datatype::at(missing as u32), Datatype::at(known as u32))
    };
    let lacking = |(missing, _): &(&Datatype, &Datatype)| !missing.is_below();
    for (missing, known) in SAME.iter().map(pair).filter(lacking) {
        missing.share(known);
    }
    // Those of a library before a restart went with it.
    MADE.lock().clear();
    for (missing, known) in AS_LARGE.iter().map(pair).filter(lacking) {
        let mut made = Slot::empty();
        if named::MPI_Type_contiguous(1, known, &mut made) == SUCCESS
            && named::MPI_Type_commit(&mut made) == SUCCESS
        {
            missing.share(&made);
            MADE.lock().push(made);
        }
    }
}

/// Frees what was made, for there are libraries that complain of what is left when they are finalised. No datatype may
/// be used any more.
pub(crate) fn free() {
    for mut made in MADE.lock().drain(..) {
        // A failure leaks below.
        named::MPI_Type_free(&mut made);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_for_a_datatype_is_never_lacking_itself() {
        let all = || SAME.iter().chain(AS_LARGE);
        for (missing, known) in all() {
            assert!(all().all(|(other, _)| other != known), "{known:#x}");
            assert_eq!(all().filter(|(other, _)| other == missing).count(), 1);
        }
    }
}
