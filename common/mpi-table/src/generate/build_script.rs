//! The part that the build scripts of all fronts have in common.

use std::io;
use std::path::PathBuf;

/// Gives the front the name `soname` and its linker options, writes the C functions to `functions.rs` in Cargo's output
/// folder, and returns that folder. Only for build scripts: the options go to Cargo by standard output.
///
/// # Errors
/// If `OUT_DIR` is not set, or the file cannot be written.
pub fn build_front(soname: &str) -> io::Result<PathBuf> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    // The lower half calls the front, and increments rely on the fact that its memory is never unmapped.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // The jump from MPI_Xxx to PMPI_Xxx stays inside the library when another library defines that name, too. Data
    // symbols are not bound to the library: a program may have a copy of one.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    let folder = std::env::var_os("OUT_DIR")
        .map(PathBuf::from)
        .ok_or_else(|| io::Error::other("OUT_DIR is not set; only a build script may call this"))?;
    std::fs::write(folder.join("functions.rs"), super::front())?;
    Ok(folder)
}
