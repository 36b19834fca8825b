//! Datatypes of Fortran by precision, range and size.

use crate::argument::Out;
use crate::datatype::make::make_object;
use crate::object::datatype::{Contents, DatatypeBody};
use crate::object::table::Body;
use crate::object::Datatype;
use contract::abi::*;
use core::sync::atomic::AtomicBool;

/// The parametric Fortran type with these parameters: the same handle each time.
fn parametric(combiner: i32, integers: Vec<i32>) -> Result<&'static Datatype, i32> {
    let known = DatatypeBody::table().dynamic().find(|known| {
        let contents = &known.body.contents;
        known.body.permanent && contents.combiner == combiner && contents.integers == integers
    });
    if let Some(known) = known {
        return Ok(known);
    }
    let contents = Contents {
        combiner,
        integers,
        addresses: vec![],
        counts: vec![],
        datatypes: vec![],
    };
    make_object(contents, |contents| {
        let mut body = DatatypeBody::new(contents);
        body.permanent = true;
        body.committed = AtomicBool::new(true);
        body
    })
}

/// MPI_Type_create_f90_integer.
pub fn type_create_f90_integer(r: i32, new: &mut &'static Datatype) -> i32 {
    Out::from(new).give(parametric(COMBINER_F90_INTEGER, vec![r]))
}

/// MPI_Type_create_f90_real.
pub fn type_create_f90_real(p: i32, r: i32, new: &mut &'static Datatype) -> i32 {
    Out::from(new).give(parametric(COMBINER_F90_REAL, vec![p, r]))
}

/// MPI_Type_create_f90_complex.
pub fn type_create_f90_complex(p: i32, r: i32, new: &mut &'static Datatype) -> i32 {
    Out::from(new).give(parametric(COMBINER_F90_COMPLEX, vec![p, r]))
}

/// Fortran datatypes by class and size.
const SIZED: &[(i32, i32, usize)] = &[
    (TYPECLASS_INTEGER, 1, datatype::INTEGER1),
    (TYPECLASS_INTEGER, 2, datatype::INTEGER2),
    (TYPECLASS_INTEGER, 4, datatype::INTEGER4),
    (TYPECLASS_INTEGER, 8, datatype::INTEGER8),
    (TYPECLASS_INTEGER, 16, datatype::INTEGER16),
    (TYPECLASS_REAL, 2, datatype::REAL2),
    (TYPECLASS_REAL, 4, datatype::REAL4),
    (TYPECLASS_REAL, 8, datatype::REAL8),
    (TYPECLASS_REAL, 16, datatype::REAL16),
    (TYPECLASS_COMPLEX, 4, datatype::COMPLEX4),
    (TYPECLASS_COMPLEX, 8, datatype::COMPLEX8),
    (TYPECLASS_COMPLEX, 16, datatype::COMPLEX16),
    (TYPECLASS_COMPLEX, 32, datatype::COMPLEX32),
];

/// MPI_Type_match_size. A datatype that the application's ABI has no handle for is none.
pub fn type_match_size(class: i32, size: i32, out: &mut &'static Datatype) -> i32 {
    let found = SIZED
        .iter()
        .filter(|entry| (entry.0, entry.1) == (class, size))
        .map(|&(_, _, value)| Datatype::at(value as u32))
        .find(|datatype| {
            datatype.body.size() == i64::from(size)
                && datatype.handle() != Datatype::null().handle()
        });
    Out::from(out).give(found.ok_or(ERR_ARG))
}
