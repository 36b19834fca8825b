//! Fortran handles. The handle of a predefined object is the integer of Open MPI's `mpif-handles.h`, which programs
//! were compiled with. The handle of any other object is its index in the upper half. The two do not overlap: Open
//! MPI's integers are below 73, and the index of such an object is at least 0x400.

use contract::abi::{
    comm, datatype as d, errhandler, file, group, info, message, op, request, session, win,
};
use contract::HandleKind;
use upper_half::object::{Body, Object, FIRST_DYNAMIC};

/// The predefined objects of a kind, in the order of their integers.
const fn predefined(kind: HandleKind) -> &'static [usize] {
    match kind {
        HandleKind::Comm => &[comm::COMM_WORLD, comm::COMM_SELF, comm::COMM_NULL],
        HandleKind::Group => &[group::GROUP_NULL, group::GROUP_EMPTY],
        HandleKind::Win => &[win::WIN_NULL],
        HandleKind::File => &[file::FILE_NULL],
        HandleKind::Session => &[session::SESSION_NULL],
        HandleKind::Message => &[message::MESSAGE_NULL, message::MESSAGE_NO_PROC],
        HandleKind::Info => &[info::INFO_NULL, info::INFO_ENV],
        HandleKind::Request => &[request::REQUEST_NULL],
        HandleKind::Errhandler => &[
            errhandler::ERRHANDLER_NULL,
            errhandler::ERRORS_ARE_FATAL,
            errhandler::ERRORS_RETURN,
        ],
        HandleKind::Op => &OPS,
        HandleKind::Datatype => &DATATYPES,
    }
}

const OPS: [usize; 15] = [
    op::OP_NULL,
    op::MAX,
    op::MIN,
    op::SUM,
    op::PROD,
    op::LAND,
    op::BAND,
    op::LOR,
    op::BOR,
    op::LXOR,
    op::BXOR,
    op::MAXLOC,
    op::MINLOC,
    op::REPLACE,
    op::NO_OP,
];

const DATATYPES: [usize; 73] = [
    d::DATATYPE_NULL,
    d::BYTE,
    d::PACKED,
    d::DATATYPE_NULL, // MPI_UB
    d::DATATYPE_NULL, // MPI_LB
    d::CHARACTER,
    d::LOGICAL,
    d::INTEGER,
    d::INTEGER1,
    d::INTEGER2,
    d::INTEGER4,
    d::INTEGER8,
    d::INTEGER16,
    d::REAL,
    d::REAL4,
    d::REAL8,
    d::REAL16,
    d::DOUBLE_PRECISION,
    d::COMPLEX,
    d::COMPLEX8,
    d::COMPLEX16,
    d::COMPLEX32,
    d::DOUBLE_COMPLEX,
    d::TWOREAL,
    d::TWODOUBLE_PRECISION,
    d::TWOINTEGER,
    d::DATATYPE_NULL, // MPI_2COMPLEX, never part of MPI
    d::DATATYPE_NULL, // MPI_2DOUBLE_COMPLEX, the same
    d::REAL2,
    d::LOGICAL1,
    d::LOGICAL2,
    d::LOGICAL4,
    d::LOGICAL8,
    d::WCHAR,
    d::CHAR,
    d::UNSIGNED_CHAR,
    d::SIGNED_CHAR,
    d::SHORT,
    d::UNSIGNED_SHORT,
    d::INT,
    d::UNSIGNED,
    d::LONG,
    d::UNSIGNED_LONG,
    d::LONG_LONG,
    d::UNSIGNED_LONG_LONG,
    d::FLOAT,
    d::DOUBLE,
    d::LONG_DOUBLE,
    d::FLOAT_INT,
    d::DOUBLE_INT,
    d::LONG_DOUBLE_INT,
    d::LONG_INT,
    d::TWOINT,
    d::SHORT_INT,
    d::CXX_BOOL,
    d::CXX_FLOAT_COMPLEX,
    d::CXX_DOUBLE_COMPLEX,
    d::CXX_LONG_DOUBLE_COMPLEX,
    d::INT8_T,
    d::UINT8_T,
    d::INT16_T,
    d::UINT16_T,
    d::INT32_T,
    d::UINT32_T,
    d::INT64_T,
    d::UINT64_T,
    d::AINT,
    d::OFFSET,
    d::C_BOOL,
    d::C_FLOAT_COMPLEX,
    d::C_DOUBLE_COMPLEX,
    d::C_LONG_DOUBLE_COMPLEX,
    d::COUNT,
];

/// All kinds of objects.
const KINDS: [HandleKind; 11] = [
    HandleKind::Comm,
    HandleKind::Group,
    HandleKind::Datatype,
    HandleKind::Op,
    HandleKind::Errhandler,
    HandleKind::Info,
    HandleKind::Request,
    HandleKind::Message,
    HandleKind::Win,
    HandleKind::File,
    HandleKind::Session,
];

/// Integers of the predefined objects, by index. No two kinds share an index.
static INTEGERS: [u16; FIRST_DYNAMIC as usize] = {
    let mut integers = [0; FIRST_DYNAMIC as usize];
    let mut index = 0;
    while index < integers.len() {
        integers[index] = index as u16;
        index += 1;
    }
    let mut kind = 0;
    while kind < KINDS.len() {
        let objects = predefined(KINDS[kind]);
        // Where several integers stand for one object, the first is its handle.
        let mut integer = objects.len();
        while integer > 0 {
            integer -= 1;
            integers[objects[integer]] = integer as u16;
        }
        kind += 1;
    }
    integers
};

/// The handle of an object.
#[inline(always)]
pub fn integer_of(_kind: HandleKind, index: u32) -> i32 {
    match INTEGERS.get(index as usize) {
        Some(&integer) => i32::from(integer),
        None => index as i32,
    }
}

/// The object of a handle. An invalid handle gives the null object.
#[inline(always)]
pub fn object_of<B: Body>(integer: i32) -> &'static Object<B> {
    let Ok(place) = usize::try_from(integer) else {
        return Object::null();
    };
    match predefined(B::KIND).get(place) {
        Some(&index) => Object::at(index as u32),
        None => B::table().get(integer as u32).unwrap_or_else(Object::null),
    }
}

#[cfg(test)]
mod tests {
    //! The library's constructor runs before the tests, so the objects exist.

    use super::*;
    use std::collections::HashMap;
    use upper_half::object::{CommBody, DatatypeBody, ErrhandlerBody, OpBody};

    const HEADER: &str = "/usr/lib/x86_64-linux-gnu/openmpi/include/mpif-handles.h";

    /// Values of the parameters in the installed header, by name.
    fn header() -> Option<HashMap<String, i32>> {
        let text = std::fs::read_to_string(HEADER).ok()?;
        let parameter = |line: &str| {
            let (name, value) = line.trim().strip_prefix("parameter (")?.split_once('=')?;
            let value = value.strip_suffix(')')?.parse().ok()?;
            Some((name.to_owned(), value))
        };
        Some(text.lines().filter_map(parameter).collect())
    }

    fn agree<B: Body>(header: &HashMap<String, i32>) {
        for &(name, index) in B::PREDEFINED {
            let Some(&integer) = header.get(name) else {
                continue;
            };
            assert_eq!(object_of::<B>(integer).index() as usize, index, "{name}");
            assert_eq!(integer_of(B::KIND, index as u32), integer, "{name}");
        }
    }

    #[test]
    fn integers_are_those_of_the_installed_header() {
        let Some(header) = header() else {
            skip::skip!("{HEADER} is not installed");
        };
        assert!(header.len() > 50, "{HEADER} has other lines: {header:?}");
        agree::<CommBody>(&header);
        agree::<DatatypeBody>(&header);
        agree::<OpBody>(&header);
        agree::<ErrhandlerBody>(&header);
    }

    #[test]
    fn every_predefined_object_has_an_integer_of_its_own() {
        for &(name, index) in DatatypeBody::PREDEFINED {
            let integer = integer_of(HandleKind::Datatype, index as u32);
            let back = object_of::<DatatypeBody>(integer).index();
            assert_eq!(back as usize, index, "{name}");
        }
    }

    #[test]
    fn an_invalid_handle_gives_the_null_object() {
        for integer in [-1, i32::MIN, i32::MAX, 3, 0x3ff, 0x7fff] {
            assert!(object_of::<CommBody>(integer).is_null(), "{integer}");
        }
    }
}
