//! Generates the crossing stubs (modules `crossing::stubs` and `object::lower_handle::named`) from the table of MPI
//! functions.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("stubs.rs"), mpi_table::generate::stubs())?;
    std::fs::write(out.join("named.rs"), mpi_table::generate::named())?;
    std::fs::write(out.join("functions.rs"), slots())?;
    Ok(())
}

/// A constant for each function whose calls the record of a run has with an outcome only: its slot.
fn slots() -> String {
    let functions = mpi_table::functions().iter();
    let recorded = functions.filter(|function| function.is_recorded_with_outcome());
    let constant = |function: &mpi_table::Function| {
        let (name, slot) = (function.snake_name().to_uppercase(), function.slot);
        format!("pub const {name}: u32 = {slot};\n")
    };
    recorded.map(constant).collect()
}
