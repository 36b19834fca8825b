//! Generates the C and Fortran functions from the table of MPI functions, and sets the library's SONAME.

fn main() -> std::io::Result<()> {
    let folder = mpi_table::generate::build_front("libmpi.so.40")?;
    std::fs::write(folder.join("fortran.rs"), mpi_table::generate::fortran())
}
