//! The library's constructor: it starts the core with this ABI, and sets the constants of MPICH's Fortran layer.
#![allow(unsafe_code)]

use stasis_front_common::ToolFirsts;
use upper_half::app_abi::Tool;
use upper_half::Abi;

use crate::{abi, cxx, handles, symbols};

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
    run_error_handler: cxx::run_error_handler,
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
    // SAFETY: this is the library's constructor.
    unsafe { symbols::set_fortran_constants() };
}

stasis_front_common::on_load!(start);
