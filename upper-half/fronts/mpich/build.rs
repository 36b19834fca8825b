//! Generates the C functions from the table of MPI functions and the refused functions from their names, and sets the
//! library's SONAME.

fn main() -> std::io::Result<()> {
    let folder = mpi_table::generate::build_front("libmpich.so.12")?;
    println!("cargo::rerun-if-changed=refused.names");
    let names = std::fs::read_to_string("refused.names")?;
    std::fs::write(folder.join("refused.rs"), refusals(&names))
}

/// A function for each name, and one for its profiling name.
fn refusals(names: &str) -> String {
    let refusal = |exported: String, name: &str| {
        format!(
            "/// `{name}`: refused.\n#[no_mangle]\n\
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
