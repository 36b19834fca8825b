//! Exports of the front for MPICH, against the installed libraries and a list of Debian's.

use front_testing::{imports, installed, is_mpi, Front};
use skip::skip;

const FRONT: Front = Front {
    package: "stasis-front-mpich",
    soname: "libmpich.so.12",
};
/// MPICH's Fortran layer, which is loaded unchanged on top of the front.
const FORTRAN: &str = "libmpichfort.so.12";
/// MPICH's C++ bindings, which are loaded so, too. Intel MPI's import the same internal functions.
const CXX: &str = "libmpichcxx.so.12";

/// Symbols that Debian 12's programs and libraries import from MPICH's libraries: the dynamic symbols of the packages
/// that depend on MPICH, and each C function that one of their packages calls.
const DEBIAN: &str = include_str!("debian-12.names");

/// Whether a function of MPICH is of MPI 4.0 and not in the table yet.
fn is_newer_than_the_table(name: &str) -> bool {
    let parts = ["_T_event_", "_T_source_", "_events", "_num_events"];
    parts.iter().any(|part| name.contains(part))
}

#[test]
fn every_function_of_the_table() {
    FRONT.must_have_the_table();
}

#[test]
fn every_import_of_debian_programs() {
    FRONT.exports().must_have(DEBIAN.lines().map(str::to_owned));
}

#[test]
fn every_function_of_the_real_library() {
    let Some(real) = FRONT.real() else {
        skip!("{} is not installed", FRONT.soname);
    };
    let functions = real.functions.into_iter();
    let expected = functions.filter(|name| is_mpi(name) && !is_newer_than_the_table(name));
    FRONT.exports().must_have(expected);
}

#[test]
fn every_import_of_the_libraries_on_top() {
    let front = FRONT.exports();
    for library in [FORTRAN, CXX] {
        let Some(path) = installed(library) else {
            skip!("{library} is not installed");
        };
        let is_c = |name: &String| name.contains("MPI") && !name.starts_with("_Z");
        front.must_have(imports(&path).into_iter().filter(is_c));
    }
}

#[test]
fn data_symbols_have_the_sizes_that_programs_were_linked_with() {
    let Some(real) = FRONT.real() else {
        skip!("{} is not installed", FRONT.soname);
    };
    let front = FRONT.exports();
    front.must_have_data_only_of(&real);
    let version = |name: &str| name.starts_with("MPII_Version_");
    for (name, size) in real.data.iter().filter(|(name, _)| !version(name)) {
        assert_eq!(front.data.get(name), Some(size), "{name}");
    }
}
