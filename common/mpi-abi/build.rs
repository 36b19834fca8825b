//! Generates the functions of the library from the table of MPI functions.

use std::path::Path;

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let out =
        std::env::var_os("OUT_DIR").ok_or_else(|| std::io::Error::other("OUT_DIR is not set"))?;
    std::fs::write(
        Path::new(&out).join("functions.rs"),
        mpi_table::generate::by_name(),
    )
}
