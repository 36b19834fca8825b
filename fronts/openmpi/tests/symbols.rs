//! The front exports what a program compiled against Open MPI may refer to.

#[path = "../../common/testing/exports.rs"]
mod exports;

use skip::skip;

const FRONT: &str = "libstasis_front_openmpi.so";
const REAL: &str = "libmpi.so.40";
/// Its Fortran layer, for which the same front stands.
const FORTRAN: &str = "libmpi_mpifh.so.40";
/// Fortran libraries that are loaded as they are, on top of the front.
const ON_TOP: [&str; 2] = ["libmpi_usempif08.so.40", "libmpi_usempi_ignore_tkr.so.40"];

/// Names of the parametric datatypes' insides, which only the real Fortran layer refers to.
fn is_internal(name: &str) -> bool {
    name.ends_with("_F90")
}

#[test]
fn every_function_of_the_table() {
    let front = exports::of(&exports::front(FRONT));
    assert_eq!(front.soname, REAL);
    front.must_have_the_table();
}

/// What Debian 12's programs and libraries import of Open MPI's libraries: the dynamic symbols of the packages
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
    let wanted = functions.filter(|name| exports::is_mpi(name) && !is_internal(name));
    exports::of(&exports::front(FRONT)).must_have(wanted);
}

#[test]
fn every_function_for_fortran() {
    let front = exports::of(&exports::front(FRONT));
    let is_fortrans = |name: &str| {
        let name = name.to_ascii_lowercase();
        ["mpi_", "pmpi_", "mpix_", "pmpix_", "ompi_", "ompix_"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    for library in [REAL, FORTRAN] {
        let Some(real) = exports::installed(library) else {
            skip!("{library} is not installed");
        };
        let functions = exports::of(&real).functions.into_iter();
        front.must_have(functions.filter(|name| {
            // Of libmpi itself, the predefined callbacks, in any spelling.
            (library == FORTRAN && is_fortrans(name)) || name.trim_end_matches('_').ends_with("_fn")
        }));
    }
}

#[test]
fn whatever_the_libraries_on_top_want() {
    let front = exports::of(&exports::front(FRONT));
    for library in ON_TOP {
        let Some(path) = exports::installed(library) else {
            skip!("{library} is not installed");
        };
        let wanted = exports::wanted(&path).into_iter();
        front.must_have(wanted.filter(|name| name.to_ascii_lowercase().contains("mpi")));
    }
}

#[test]
fn every_attribute_function() {
    let Some(real) = exports::installed(REAL) else {
        skip!("{REAL} is not installed");
    };
    let functions = exports::of(&real).functions.into_iter();
    let wanted = functions.filter(|name| name.starts_with("OMPI_C_"));
    exports::of(&exports::front(FRONT)).must_have(wanted);
}

#[test]
fn handles_have_the_sizes_that_programs_were_linked_with() {
    let Some(real) = exports::installed(REAL) else {
        skip!("{REAL} is not installed");
    };
    let real = exports::of(&real);
    let front = exports::of(&exports::front(FRONT));
    front.must_have_data_only_of(&real);
    // What stands for a handle is padded to one of these sizes, and is nothing else.
    let padded = [256, 512, 1024, 1536, 2048];
    let is_handle = |name: &str, size: &u64| {
        let predefined = ["ompi_mpi_", "ompi_request_", "ompi_message_"];
        padded.contains(size) && predefined.iter().any(|prefix| name.starts_with(prefix))
    };
    for (name, size) in real
        .data
        .iter()
        .filter(|(name, size)| is_handle(name, size))
    {
        assert_eq!(front.data.get(name), Some(size), "{name}");
    }
}
