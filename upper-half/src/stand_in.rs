//! Datatypes that the library below lacks: Fortran's types of a given size, which a library may have
//! been built without, and those that came with the standard ABI. A program that has their handles
//! may use them over any library; so another datatype of as many bytes takes their place below.
//!
//! One that is computed with in the same way stands for it as it is: reductions go on, and all that a
//! program can notice is that an operation of its own is told of the C type. Where there is none it is
//! one element of a type of as many bytes: data travels, and the library refuses reductions.
//!
//! # Safety
//! Crossings pass words of predefined datatypes and of what was made from them.
#![allow(unsafe_code)]

use crate::lower;
use crate::object::Datatype;
use crate::sync::Lock;
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

/// Words of the datatypes that were made below.
static MADE: Lock<Vec<usize>> = Lock::new(Vec::new());

/// Gives each datatype that the library lacks the word of what stands for it. What cannot be made keeps
/// the null datatype's: using it is then an error.
///
/// # Safety
/// Crosses; the predefined datatypes must have the library's words, or null's.
pub(crate) unsafe fn fill_in() {
    let null = Datatype::null().lower();
    let lacking = |&&(missing, _): &&(usize, usize)| Datatype::at(missing as u32).lower() == null;
    for &(missing, known) in SAME.iter().filter(lacking) {
        Datatype::at(missing as u32).set_lower(Datatype::at(known as u32).lower());
    }
    // Those of a library before a restart went with it.
    MADE.lock().clear();
    for &(missing, known) in AS_LARGE.iter().filter(lacking) {
        let mut word = null;
        // SAFETY: a predefined datatype's word, and the new one's.
        let made = unsafe {
            let known = Datatype::at(known as u32).lower();
            lower::MPI_Type_contiguous(1, known, &raw mut word) == SUCCESS
                && lower::MPI_Type_commit(&raw mut word) == SUCCESS
        };
        if made {
            Datatype::at(missing as u32).set_lower(word);
            MADE.lock().push(word);
        }
    }
}

/// Frees what was made, for there are libraries that complain of what is left when they are finalised.
///
/// # Safety
/// Crosses; no datatype may be used any more.
pub(crate) unsafe fn free() {
    for mut word in MADE.lock().drain(..) {
        // SAFETY: made by `fill_in`, and freed once. A failure leaks below.
        unsafe { lower::MPI_Type_free(&raw mut word) };
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
