//! Generates the C and Fortran functions from the table of MPI functions, and gives the library the name under
//! which applications look for it.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmpi.so.40");
    // The lower half calls it, and increments build upon its never being replaced.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // A jump from MPI_Xxx to PMPI_Xxx stays inside the library, whatever else defines that name.
    // Data symbols are not bound like this: applications may hold copies of them.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("functions.rs"), mpi_table::generate::front())?;
    std::fs::write(out.join("fortran.rs"), mpi_table::generate::fortran())?;
    Ok(())
}
