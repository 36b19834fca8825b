//! The library's constructor: it starts the core with this ABI.
#![allow(unsafe_code)]

use upper_half::app_abi::{Tool, NO_ERROR_HANDLERS};
use upper_half::Abi;

use crate::abi;

static ABI: Abi = Abi {
    name: "the standard ABI",
    table_hash: crate::functions::TABLE_HASH,
    handle_of: |_, index, _| index as usize,
    index_of: abi::index_of,
    fortran_of: |_, index| index as i32,
    handle_size: size_of::<usize>(),
    error_out: abi::error_out,
    error_in: abi::error_in,
    status_size: size_of::<abi::Status>(),
    status_out: abi::write_status,
    status_in: abi::read_status,
    keyval_out: abi::keyval_out,
    run_error_handler: NO_ERROR_HANDLERS,
    tool: Tool {
        out: |_, value| value,
        class_in: |class| class,
        all_handles: || 1,
    },
};

extern "C" fn start() {
    upper_half::start(&ABI);
}

stasis_front_common::on_load!(start);
