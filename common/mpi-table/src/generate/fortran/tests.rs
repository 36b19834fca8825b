//! The generated text of a few functions.

use super::fortran_of;
use crate::generate::front::tests::holds_in_order;
use crate::parse;

fn generate(table: &str) -> String {
    fortran_of(&parse(table, 32).expect("a valid table"))
}

#[test]
fn arguments_come_by_reference() {
    let text = generate(
        "[receive core]\nMPI_Recv(recvbuf buf, int count, datatype datatype, rank source, \
         tag tag, comm comm, out status status)\n",
    );
    holds_in_order(
        &text,
        &[
            "fn ompi_recv_f(buf: *mut c_void, count: *mut i32, datatype: *mut i32",
            "status: *mut c_void, ierror: *mut i32) {",
            "let mut status_ = Status::of(status);",
            "c::PMPI_Recv(super::buffer(buf) as _, *count, abi::datatype_f2c(*datatype), *source, \
             *tag, abi::comm_f2c(*comm), status_.place());",
            "status_.write();",
            "super::finish(ierror, code);",
            "spellings! { ompi_recv_f: mpi_recv, pmpi_recv, mpi_recv_, pmpi_recv_, mpi_recv__,",
            "MPI_RECV, PMPI_RECV, MPI_Recv_f, PMPI_Recv_f,",
        ],
    );
}

#[test]
fn lengths_of_strings_come_last() {
    let text = generate(
        "[local core]\nMPI_Info_get(info info, string key, int valuelen, out string value, \
         out flag flag)\n",
    );
    holds_in_order(
        &text,
        &[
            "flag: *mut i32, ierror: *mut i32, key_len: i32, value_len: i32) {",
            "let _guard = CallGuard::enter();",
            "let key_ = Name::of(key, key_len);",
            "if code == contract::abi::SUCCESS && *flag != 0 { value_.write(value, value_len); }",
        ],
    );
}

#[test]
fn places_of_requests_count_from_one() {
    let text = generate(
        "[completion core]\nMPI_Waitsome(int incount, inout request array_of_requests[incount], \
         out int-or-undefined outcount, out int array_of_indices[outcount], \
         out status array_of_statuses[outcount])\n",
    );
    holds_in_order(
        &text,
        &[
            "Statuses::of(array_of_statuses, common::entries(*incount));",
            "abi::request_c2f(handle);",
            "*outcount = outcount_;",
            "map_in_place(array_of_indices, common::entries(*outcount), |index| index + 1);",
        ],
    );
}

#[test]
fn the_whole_table_has_rules() {
    assert!(!super::fortran().contains("compile_error!"));
}
