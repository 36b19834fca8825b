//! Exports of the front for the standard ABI.

use front_testing::Front;

const FRONT: Front = Front {
    package: "stasis-front-standard",
    soname: "libmpi_abi.so.1",
};

#[test]
fn every_function_of_the_table() {
    FRONT.must_have_the_table();
}

#[test]
fn no_data() {
    let mpi = |name: &&String| name.contains("MPI");
    assert_eq!(FRONT.exports().data.keys().find(mpi), None);
}
