//! Generates the crossing stubs (modules `crossing::stubs` and `object::lower_handle::named`) from the table of MPI
//! functions.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("stubs.rs"), mpi_table::generate::stubs())?;
    std::fs::write(out.join("named.rs"), mpi_table::generate::named())?;
    Ok(())
}
