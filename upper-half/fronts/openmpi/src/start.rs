//! The library's constructor: it starts the core with this ABI, and writes the addresses of the predefined objects to
//! their data symbols.
//!
//! # Safety
//! The constructor runs once: after ld.so has relocated the library and each program and library that refers to it, and
//! before their constructors. So no other code uses the data symbols yet.
#![allow(unsafe_code)]

use contract::HandleKind;
use stasis_front_common::ToolFirsts;
use upper_half::app_abi::Tool;
use upper_half::object::{
    Comm, Datatype, Errhandler, File, Group, Info, Message, Op, Request, Session, Win,
};
use upper_half::Abi;

use crate::symbols::HANDLES;
use crate::{abi, cxx, fortran};

static ABI: Abi = Abi {
    name: "Open MPI",
    table_hash: crate::functions::TABLE_HASH,
    handle_of,
    index_of,
    fortran_of: fortran::handles::integer_of,
    handle_size: size_of::<usize>(),
    error_out: abi::error_out,
    error_in: abi::error_in,
    status_size: size_of::<abi::Status>(),
    status_out: abi::write_status,
    status_in: abi::read_status,
    keyval_out: abi::keyval_out,
    run_error_handler: cxx::run_error_handler,
    tool: Tool {
        out: |group, value| TOOL.out(group, value),
        class_in: |class| TOOL.class_in(class),
        all_handles: || usize::MAX,
    },
};

static TOOL: ToolFirsts = ToolFirsts {
    verbosity: 0,
    bind: 0,
    scope: 0,
    pvar_class: 0,
};

/// The handle of an object: the address of its symbol for a predefined object, else the address of the object.
fn handle_of(_kind: HandleKind, index: u32, object: *const ()) -> usize {
    HANDLES
        .iter()
        .find(|handle| handle.index == index)
        .map_or(object as usize, |handle| handle.symbol as usize)
}

/// Calls a macro with the object type and the decoding function of a kind.
macro_rules! of_kind {
    ($kind:expr, $with:ident) => {
        match $kind {
            HandleKind::Comm => $with!(Comm, comm),
            HandleKind::Group => $with!(Group, group),
            HandleKind::Datatype => $with!(Datatype, datatype),
            HandleKind::Op => $with!(Op, op),
            HandleKind::Errhandler => $with!(Errhandler, errhandler),
            HandleKind::Info => $with!(Info, info),
            HandleKind::Request => $with!(Request, request),
            HandleKind::Message => $with!(Message, message),
            HandleKind::Win => $with!(Win, win),
            HandleKind::File => $with!(File, file),
            HandleKind::Session => $with!(Session, session),
        }
    };
}

/// The index of a handle's object.
pub fn index_of(kind: HandleKind, handle: usize) -> u32 {
    macro_rules! index {
        ($object:ident, $decode:ident) => {
            abi::$decode(handle).index()
        };
    }
    of_kind!(kind, index)
}

/// The address of an object.
fn address_of(kind: HandleKind, index: u32) -> usize {
    macro_rules! address {
        ($object:ident, $decode:ident) => {
            core::ptr::from_ref($object::at(index)) as usize
        };
    }
    of_kind!(kind, address)
}

extern "C" fn start() {
    upper_half::start(&ABI);
    for handle in HANDLES {
        // SAFETY: the symbol has at least one word, and the constructor is the only code that uses it yet.
        unsafe { handle.symbol.write(address_of(handle.kind, handle.index)) };
    }
}

stasis_front_common::on_load!(start);

#[cfg(test)]
mod tests {
    //! The library's constructor runs before the tests, so each symbol holds the address of its object.

    use super::*;

    #[test]
    fn symbols_lead_to_their_objects() {
        for handle in HANDLES {
            assert_eq!(index_of(handle.kind, handle.symbol as usize), handle.index);
        }
    }

    #[test]
    fn predefined_objects_have_a_symbol() {
        let symbol = |name: &str| {
            HANDLES
                .iter()
                .any(|handle| handle.symbol as usize == abi_handle(name))
        };
        assert!(symbol("MPI_INT") && symbol("MPI_DOUBLE_COMPLEX"));
        assert_eq!(abi::comm_out(Comm::null()), abi::comm_out(abi::comm(0)));
    }

    fn abi_handle(name: &str) -> usize {
        let known = contract::abi::datatype::ALL
            .iter()
            .find(|(known, _)| *known == name);
        known.map_or(0, |&(_, index)| Datatype::at(index as u32).handle())
    }
}
