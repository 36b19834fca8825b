//! What happens when the library is loaded: the core is started with this ABI.
//!
//! # Safety
//! The constructor runs once, when ld.so has relocated the library and before the constructors of
//! whatever refers to it.
#![allow(unsafe_code)]

use stasis_front_common::ToolFirsts;
use upper_half::abi::Tool;
use upper_half::Abi;

use crate::{abi, handles, symbols};

static ABI: Abi = Abi {
    name: "MPICH",
    table_hash: crate::functions::TABLE_HASH,
    handle_of: handles::handle_of,
    index_of: handles::index_of,
    fortran_of: abi::fortran_of,
    handle_size: size_of::<i32>(),
    error_out: abi::error_out,
    error_in: abi::error_in,
    status_size: size_of::<abi::Status>(),
    status_out: abi::write_status,
    status_in: abi::read_status,
    keyval_out: abi::keyval_out,
    tool: Tool {
        out: |group, value| TOOL.out(group, value),
        class_in: |class| TOOL.class_in(class),
        all_handles: symbols::all_handles,
    },
};

static TOOL: ToolFirsts = ToolFirsts {
    verbosity: 221,
    bind: 9700,
    scope: 60438,
    pvar_class: 240,
};

extern "C" fn start() {
    upper_half::start(&ABI);
    // SAFETY: see the module's head.
    unsafe { symbols::tell_fortran() };
}

#[used]
#[link_section = ".init_array"]
static START: extern "C" fn() = start;

extern "C" fn end() {
    upper_half::at_exit();
}

#[used]
#[link_section = ".fini_array"]
static END: extern "C" fn() = end;
