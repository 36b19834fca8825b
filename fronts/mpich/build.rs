//! Generates the C functions from the table of MPI functions and those that are refused from their
//! names, and gives the library the name under which applications look for it.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libmpich.so.12");
    // The lower half calls it, and increments build upon its never being replaced.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // A jump from MPI_Xxx to PMPI_Xxx stays inside the library, whatever else defines that name.
    // Data symbols are not bound like this: applications may hold copies of them.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
    println!("cargo::rerun-if-changed=refused.names");
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("functions.rs"), mpi_table::generate::front())?;
    let refused = std::fs::read_to_string("refused.names")?;
    std::fs::write(out.join("refused.rs"), refusals(&refused))?;
    Ok(())
}

/// A function for each name, and one for its profiling name.
fn refusals(names: &str) -> String {
    let refusal = |exported: String, name: &str| {
        format!(
            "/// Refused.\n#[no_mangle]\n\
             extern \"C\" fn {exported}() -> i32 {{ refuse(\"{name}\") }}\n"
        )
    };
    names
        .lines()
        .flat_map(|name| {
            [
                refusal(name.to_owned(), name),
                refusal(format!("P{name}"), name),
            ]
        })
        .collect()
}
