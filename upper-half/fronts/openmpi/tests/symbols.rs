//! Exports of the front for Open MPI, against the installed libraries and a list of Debian's.

use front_testing::{imports, installed, is_mpi, Exports, Front};
use skip::skip;

const FRONT: Front = Front {
    package: "stasis-front-openmpi",
    soname: "libmpi.so.40",
};
/// Open MPI's Fortran layer. The front replaces it, too.
const FORTRAN: &str = "libmpi_mpifh.so.40";
/// Fortran libraries that are loaded unchanged on top of the front.
const ON_TOP: [&str; 2] = ["libmpi_usempif08.so.40", "libmpi_usempi_ignore_tkr.so.40"];

/// Symbols that Debian 12's programs and libraries import from Open MPI's libraries: the dynamic symbols of the
/// packages that depend on Open MPI, and each C function that one of their packages calls.
const DEBIAN: &str = include_str!("debian-12.names");

/// Whether a function implements the parametric datatypes. Only the real Fortran layer refers to these.
fn is_internal(name: &str) -> bool {
    name.ends_with("_F90")
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
    let expected = functions.filter(|name| is_mpi(name) && !is_internal(name));
    FRONT.exports().must_have(expected);
}

#[test]
fn every_function_for_fortran() {
    let front = FRONT.exports();
    let is_fortran = |name: &str| {
        let name = name.to_ascii_lowercase();
        ["mpi_", "pmpi_", "mpix_", "pmpix_", "ompi_", "ompix_"]
            .iter()
            .any(|start| name.starts_with(start))
    };
    for library in [FRONT.soname, FORTRAN] {
        let Some(path) = installed(library) else {
            skip!("{library} is not installed");
        };
        let functions = Exports::of(&path).functions.into_iter();
        front.must_have(functions.filter(|name| {
            // libmpi itself has the predefined callbacks, in any spelling.
            (library == FORTRAN && is_fortran(name)) || name.trim_end_matches('_').ends_with("_fn")
        }));
    }
}

#[test]
fn every_import_of_the_libraries_on_top() {
    let front = FRONT.exports();
    for library in ON_TOP {
        let Some(path) = installed(library) else {
            skip!("{library} is not installed");
        };
        let expected = imports(&path).into_iter();
        front.must_have(expected.filter(|name| name.to_ascii_lowercase().contains("mpi")));
    }
}

#[test]
fn every_attribute_function() {
    let Some(real) = FRONT.real() else {
        skip!("{} is not installed", FRONT.soname);
    };
    let functions = real.functions.into_iter();
    let expected = functions.filter(|name| name.starts_with("OMPI_C_"));
    FRONT.exports().must_have(expected);
}

#[test]
fn handles_have_the_sizes_that_programs_were_linked_with() {
    let Some(real) = FRONT.real() else {
        skip!("{} is not installed", FRONT.soname);
    };
    let front = FRONT.exports();
    front.must_have_data_only_of(&real);
    // Open MPI pads a predefined object to one of these sizes, and nothing else has one of them.
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
