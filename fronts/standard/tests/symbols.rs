//! The front exports what a program compiled against the standard ABI may refer to.

#[path = "../../common/testing/exports.rs"]
mod exports;

#[test]
fn every_function_of_the_table() {
    let front = exports::of(&exports::front("libstasis_front_standard.so"));
    assert_eq!(front.soname, "libmpi_abi.so.1");
    front.must_have_the_table();
}

#[test]
fn no_data() {
    let front = exports::of(&exports::front("libstasis_front_standard.so"));
    let mpi = |name: &&String| name.contains("MPI");
    assert_eq!(front.data.keys().find(mpi), None);
}
