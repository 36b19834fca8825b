//! MPICH's handles. Bits 30 and 31 are the sort of the handle (1: built in; 2: direct), bits 26 to 29 the kind of the
//! object, and the other bits an index.
//!
//! Stasis gives dynamic objects direct handles with their index in the upper half. That index is at least 0x400; the
//! few direct constants of MPICH are below it. MPI_File is a pointer.
//!
//! # Safety
//! A file handle that is not null is the address of an object of the upper half, which begins with its own address. MPI
//! requires that the application passes no other value.
#![allow(unsafe_code)]

use contract::abi as standard;
use contract::HandleKind;
use upper_half::object::errhandler::ERRORS_THROW_EXCEPTIONS;
use upper_half::object::{
    self as upper, Comm, Datatype, Errhandler, Group, Info, Message, Op, Request, Session, Win,
    FIRST_DYNAMIC,
};

/// First bit of the kind in a handle.
const KIND_SHIFT: u32 = 26;
/// Bits of the index in a handle.
const INDEX: u32 = (1 << KIND_SHIFT) - 1;
/// Bit of direct handles, which contain the index of an object.
const DIRECT: u32 = 0x8000_0000;

/// MPICH's number of a kind. A message is a request for MPICH.
const fn kind_number(kind: HandleKind) -> u32 {
    match kind {
        HandleKind::Comm => 1,
        HandleKind::Group => 2,
        HandleKind::Datatype => 3,
        HandleKind::File => 4,
        HandleKind::Errhandler => 5,
        HandleKind::Op => 6,
        HandleKind::Info => 7,
        HandleKind::Win => 8,
        HandleKind::Request | HandleKind::Message => 11,
        HandleKind::Session => 14,
    }
}

/// Bits of a direct handle of that kind, without the index.
const fn direct(kind: HandleKind) -> u32 {
    DIRECT | kind_number(kind) << KIND_SHIFT
}

/// Defines the decoders of int handles: one comparison for a dynamic object, a short table for the predefined ones.
macro_rules! decode {
    ($($name:ident: $kind:ident, $predefined:expr;)*) => {$(
        #[doc = concat!("The object of an `MPI_", stringify!($kind), "`. An invalid handle gives the null object.")]
        #[inline(always)]
        pub fn $name(handle: i32) -> &'static $kind {
            let handle = handle as u32;
            let index = handle & INDEX;
            if handle & !INDEX == direct(HandleKind::$kind) && index >= FIRST_DYNAMIC {
                return $kind::at(index);
            }
            let predefined: fn(u32) -> usize = $predefined;
            $kind::at(predefined(handle) as u32)
        }
    )*};
}

decode! {
    comm: Comm, |handle| match handle {
        0x4400_0000 => standard::comm::COMM_WORLD,
        0x4400_0001 => standard::comm::COMM_SELF,
        _ => standard::comm::COMM_NULL,
    };
    group: Group, |handle| match handle {
        0x4800_0000 => standard::group::GROUP_EMPTY,
        _ => standard::group::GROUP_NULL,
    };
    datatype: Datatype, |handle| {
        let place = match handle & !0xffff {
            0x4c00_0000 => (handle & 0xff) as usize,
            0x8c00_0000 => PAIRS + (handle & 7) as usize,
            _ => 0,
        };
        DATATYPE_OF.get(place).map_or(standard::datatype::DATATYPE_NULL, |&index| index as usize)
    };
    op: Op, |handle| match handle & !0xf {
        0x5800_0000 => OPS[(handle & 0xf) as usize],
        _ => standard::op::OP_NULL,
    };
    errhandler: Errhandler, |handle| match handle {
        0x5400_0000 => standard::errhandler::ERRORS_ARE_FATAL,
        0x5400_0001 => standard::errhandler::ERRORS_RETURN,
        0x5400_0002 => ERRORS_THROW_EXCEPTIONS,
        0x5400_0003 => standard::errhandler::ERRORS_ABORT,
        _ => standard::errhandler::ERRHANDLER_NULL,
    };
    info: Info, |handle| match handle {
        0x5c00_0001 => standard::info::INFO_ENV,
        _ => standard::info::INFO_NULL,
    };
    request: Request, |_| standard::request::REQUEST_NULL;
    message: Message, |handle| match handle {
        0x6c00_0000 => standard::message::MESSAGE_NO_PROC,
        _ => standard::message::MESSAGE_NULL,
    };
    win: Win, |_| standard::win::WIN_NULL;
    session: Session, |_| standard::session::SESSION_NULL;
}

/// Operations, by the low four bits of MPICH's handle.
const OPS: [usize; 16] = [
    standard::op::OP_NULL,
    standard::op::MAX,
    standard::op::MIN,
    standard::op::SUM,
    standard::op::PROD,
    standard::op::LAND,
    standard::op::BAND,
    standard::op::LOR,
    standard::op::BOR,
    standard::op::LXOR,
    standard::op::BXOR,
    standard::op::MINLOC,
    standard::op::MAXLOC,
    standard::op::REPLACE,
    standard::op::NO_OP,
    standard::op::OP_NULL,
];

/// Handle and index of each predefined datatype of MPICH. Bits 8 to 15 of a handle are the size of the type, so the low
/// byte identifies it.
const DATATYPES: &[(u32, usize)] = {
    use contract::abi::datatype as d;
    &[
        (0x0c00_0000, d::DATATYPE_NULL),
        (0x4c00_0101, d::CHAR),
        (0x4c00_0102, d::UNSIGNED_CHAR),
        (0x4c00_0203, d::SHORT),
        (0x4c00_0204, d::UNSIGNED_SHORT),
        (0x4c00_0405, d::INT),
        (0x4c00_0406, d::UNSIGNED),
        (0x4c00_0807, d::LONG),
        (0x4c00_0808, d::UNSIGNED_LONG),
        (0x4c00_0809, d::LONG_LONG),
        (0x4c00_040a, d::FLOAT),
        (0x4c00_080b, d::DOUBLE),
        (0x4c00_100c, d::LONG_DOUBLE),
        (0x4c00_010d, d::BYTE),
        (0x4c00_040e, d::WCHAR),
        (0x4c00_010f, d::PACKED),
        (0x4c00_0816, d::TWOINT),
        (0x4c00_0118, d::SIGNED_CHAR),
        (0x4c00_0819, d::UNSIGNED_LONG_LONG),
        (0x4c00_011a, d::CHARACTER),
        (0x4c00_041b, d::INTEGER),
        (0x4c00_041c, d::REAL),
        (0x4c00_041d, d::LOGICAL),
        (0x4c00_081e, d::COMPLEX),
        (0x4c00_081f, d::DOUBLE_PRECISION),
        (0x4c00_0820, d::TWOINTEGER),
        (0x4c00_0821, d::TWOREAL),
        (0x4c00_1022, d::DOUBLE_COMPLEX),
        (0x4c00_1023, d::TWODOUBLE_PRECISION),
        (0x4c00_0427, d::REAL4),
        (0x4c00_0828, d::COMPLEX8),
        (0x4c00_0829, d::REAL8),
        (0x4c00_102a, d::COMPLEX16),
        (0x4c00_102b, d::REAL16),
        (0x4c00_202c, d::COMPLEX32),
        (0x4c00_012d, d::INTEGER1),
        (0x4c00_022f, d::INTEGER2),
        (0x4c00_0430, d::INTEGER4),
        (0x4c00_0831, d::INTEGER8),
        (0x4c00_0133, d::CXX_BOOL),
        (0x4c00_0834, d::CXX_FLOAT_COMPLEX),
        (0x4c00_1035, d::CXX_DOUBLE_COMPLEX),
        (0x4c00_2036, d::CXX_LONG_DOUBLE_COMPLEX),
        (0x4c00_0137, d::INT8_T),
        (0x4c00_0238, d::INT16_T),
        (0x4c00_0439, d::INT32_T),
        (0x4c00_083a, d::INT64_T),
        (0x4c00_013b, d::UINT8_T),
        (0x4c00_023c, d::UINT16_T),
        (0x4c00_043d, d::UINT32_T),
        (0x4c00_083e, d::UINT64_T),
        (0x4c00_013f, d::C_BOOL),
        (0x4c00_0840, d::C_FLOAT_COMPLEX),
        (0x4c00_1041, d::C_DOUBLE_COMPLEX),
        (0x4c00_2042, d::C_LONG_DOUBLE_COMPLEX),
        (0x4c00_0843, d::AINT),
        (0x4c00_0844, d::OFFSET),
        (0x4c00_0845, d::COUNT),
        (0x8c00_0000, d::FLOAT_INT),
        (0x8c00_0001, d::DOUBLE_INT),
        (0x8c00_0002, d::LONG_INT),
        (0x8c00_0003, d::SHORT_INT),
        (0x8c00_0004, d::LONG_DOUBLE_INT),
    ]
};

/// Position of the direct constants, which are the pairs of a value and an int, in [`DATATYPE_OF`].
const PAIRS: usize = 0x100;

/// Indices of the predefined datatypes by the low byte of MPICH's handle, then those of the pairs.
static DATATYPE_OF: [u16; PAIRS + 8] = {
    let mut table = [standard::datatype::DATATYPE_NULL as u16; PAIRS + 8];
    let mut entry = 0;
    while entry < DATATYPES.len() {
        let (handle, index) = DATATYPES[entry];
        if handle >> KIND_SHIFT == 0x8c00_0000 >> KIND_SHIFT {
            table[PAIRS + (handle & 7) as usize] = index as u16;
        } else {
            table[(handle & 0xff) as usize] = index as u16;
        }
        entry += 1;
    }
    table
};

/// MPICH's constant for a predefined object. An object for which MPICH has no constant gets the null handle.
fn constant(kind: HandleKind, index: usize) -> u32 {
    let null = if kind == HandleKind::Message {
        0x2c00_0000
    } else {
        kind_number(kind) << KIND_SHIFT
    };
    match (kind, index) {
        (HandleKind::Comm, standard::comm::COMM_WORLD) => 0x4400_0000,
        (HandleKind::Comm, standard::comm::COMM_SELF) => 0x4400_0001,
        (HandleKind::Group, standard::group::GROUP_EMPTY) => 0x4800_0000,
        (HandleKind::Errhandler, standard::errhandler::ERRORS_ARE_FATAL) => 0x5400_0000,
        (HandleKind::Errhandler, standard::errhandler::ERRORS_RETURN) => 0x5400_0001,
        (HandleKind::Errhandler, ERRORS_THROW_EXCEPTIONS) => 0x5400_0002,
        (HandleKind::Errhandler, standard::errhandler::ERRORS_ABORT) => 0x5400_0003,
        (HandleKind::Info, standard::info::INFO_ENV) => 0x5c00_0001,
        (HandleKind::Message, standard::message::MESSAGE_NO_PROC) => 0x6c00_0000,
        (HandleKind::Op, index) => OPS
            .iter()
            .position(|&op| op == index && op != standard::op::OP_NULL)
            .map_or(null, |place| 0x5800_0000 | place as u32),
        (HandleKind::Datatype, index) => DATATYPES
            .iter()
            .find(|&&(_, known)| known == index)
            .map_or(null, |&(handle, _)| handle),
        _ => null,
    }
}

/// MPI_File's type in C: a pointer.
pub type File = usize;

/// The object of a file handle.
#[inline(always)]
pub fn file(handle: File) -> &'static upper::File {
    if handle == 0 {
        return upper::File::null();
    }
    // SAFETY: a file handle that is not null is the address of a word that holds the object's address.
    unsafe { *(handle as *const &'static upper::File) }
}

/// The application's handle of an object.
pub fn handle_of(kind: HandleKind, index: u32, object: *const ()) -> usize {
    if kind == HandleKind::File {
        return if index == standard::file::FILE_NULL as u32 {
            0
        } else {
            object as usize
        };
    }
    let handle = if index < FIRST_DYNAMIC {
        constant(kind, index as usize)
    } else {
        direct(kind) | index
    };
    handle as usize
}

/// The index of the object of an application's handle.
pub fn index_of(kind: HandleKind, handle: usize) -> u32 {
    let int = handle as i32;
    match kind {
        HandleKind::Comm => comm(int).index(),
        HandleKind::Group => group(int).index(),
        HandleKind::Datatype => datatype(int).index(),
        HandleKind::Op => op(int).index(),
        HandleKind::Errhandler => errhandler(int).index(),
        HandleKind::Info => info(int).index(),
        HandleKind::Request => request(int).index(),
        HandleKind::Message => message(int).index(),
        HandleKind::Win => win(int).index(),
        HandleKind::File => file(handle).index(),
        HandleKind::Session => session(int).index(),
    }
}

#[cfg(test)]
mod tests {
    //! The library's constructor runs before the tests, so the objects exist.

    use super::*;
    use upper_half::object::{Body, CommBody, DatatypeBody, OpBody};

    #[test]
    fn constants_lead_to_their_objects_and_back() {
        for &(handle, index) in DATATYPES {
            let object = datatype(handle as i32);
            assert_eq!(object.index() as usize, index, "{handle:#x}");
            assert_eq!(object.handle() as u32, handle, "{index:#x}");
        }
        for (place, &index) in OPS.iter().enumerate() {
            assert_eq!(op(0x5800_0000 | place as i32).index() as usize, index);
        }
        assert_eq!(comm(0x4400_0001).handle(), 0x4400_0001);
        assert_eq!(message(0x6c00_0000).handle(), 0x6c00_0000);
    }

    #[test]
    fn every_predefined_handle_is_decoded_to_its_own_object() {
        let without = [
            // Datatypes for which MPICH has no constant.
            standard::datatype::LOGICAL1,
            standard::datatype::LOGICAL2,
            standard::datatype::LOGICAL4,
            standard::datatype::LOGICAL8,
            standard::datatype::LOGICAL16,
            standard::datatype::INTEGER16,
            standard::datatype::REAL2,
            standard::datatype::COMPLEX4,
        ];
        let both = DatatypeBody::PREDEFINED
            .iter()
            .chain(OpBody::PREDEFINED)
            .chain(CommBody::PREDEFINED);
        for &(name, index) in both.filter(|(_, index)| !without.contains(index)) {
            let decoded = match index {
                ..0x100 => {
                    op(handle_of(HandleKind::Op, index as u32, core::ptr::null()) as i32).index()
                }
                0x100..0x200 => {
                    comm(handle_of(HandleKind::Comm, index as u32, core::ptr::null()) as i32)
                        .index()
                }
                _ => {
                    let handle = handle_of(HandleKind::Datatype, index as u32, core::ptr::null());
                    datatype(handle as i32).index()
                }
            };
            assert_eq!(decoded as usize, index, "{name}");
        }
    }

    #[test]
    fn an_invalid_handle_gives_the_null_object() {
        for handle in [
            0,
            -1,
            7,
            0x4c00_0000,
            0x4c00_00ff,
            0x8c00_0007_u32 as i32,
            0x5800_000f,
        ] {
            assert!(datatype(handle).is_null(), "{handle:#x}");
            assert!(comm(handle).is_null(), "{handle:#x}");
            assert!(op(handle).is_null(), "{handle:#x}");
            assert!(request(handle).is_null(), "{handle:#x}");
        }
    }

    #[test]
    fn dynamic_objects_carry_their_index() {
        let handle = handle_of(HandleKind::Comm, FIRST_DYNAMIC + 5, core::ptr::null());
        assert_eq!(handle, 0x8400_0405);
        assert_eq!(
            comm(handle as i32) as *const Comm,
            Comm::at(FIRST_DYNAMIC + 5) as *const Comm
        );
    }
}
