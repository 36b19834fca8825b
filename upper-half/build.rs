//! Generates the crossing stubs (module `lower`) from the table of MPI functions.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?).join("lower.rs");
    std::fs::write(out, mpi_table::generate::stubs())?;
    Ok(())
}
