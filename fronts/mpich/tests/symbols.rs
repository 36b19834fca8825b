//! The front exports what a program compiled against MPICH may refer to.

#[path = "../../common/testing/exports.rs"]
mod exports;

use skip::skip;

const FRONT: &str = "libstasis_front_mpich.so";
const REAL: &str = "libmpich.so.12";
/// Its Fortran layer, which is loaded as it is, on top of the front.
const FORTRAN: &str = "libmpichfort.so.12";

/// Of MPI 4.0, which MPICH exports and the table does not have yet.
fn is_newer_than_the_table(name: &str) -> bool {
    let parts = ["_T_event_", "_T_source_", "_events", "_num_events"];
    parts.iter().any(|part| name.contains(part))
}

#[test]
fn every_function_of_the_table() {
    let front = exports::of(&exports::front(FRONT));
    assert_eq!(front.soname, REAL);
    front.must_have_the_table();
}

/// What Debian 12's programs and libraries import of MPICH's libraries: the dynamic symbols of the packages
/// that depend on them, with all functions of C that any of its packages calls.
const DEBIAN: &str = include_str!("debian-12.names");

#[test]
fn whatever_debians_programs_import() {
    exports::of(&exports::front(FRONT)).must_have(DEBIAN.lines().map(str::to_owned));
}

#[test]
fn every_function_of_the_real_library() {
    let Some(real) = exports::installed(REAL) else {
        skip!("{REAL} is not installed");
    };
    let functions = exports::of(&real).functions.into_iter();
    let wanted = functions.filter(|name| exports::is_mpi(name) && !is_newer_than_the_table(name));
    exports::of(&exports::front(FRONT)).must_have(wanted);
}

#[test]
fn whatever_the_fortran_layer_wants() {
    let Some(path) = exports::installed(FORTRAN) else {
        skip!("{FORTRAN} is not installed");
    };
    let wanted = exports::wanted(&path).into_iter();
    exports::of(&exports::front(FRONT)).must_have(wanted.filter(|name| name.contains("MPI")));
}

#[test]
fn data_symbols_have_the_sizes_that_programs_were_linked_with() {
    let Some(real) = exports::installed(REAL) else {
        skip!("{REAL} is not installed");
    };
    let real = exports::of(&real);
    let front = exports::of(&exports::front(FRONT));
    front.must_have_data_only_of(&real);
    let version = |name: &str| name.starts_with("MPII_Version_");
    for (name, size) in real.data.iter().filter(|(name, _)| !version(name)) {
        assert_eq!(front.data.get(name), Some(size), "{name}");
    }
}
