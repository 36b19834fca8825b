//! Generates the C functions from the table of MPI functions, and sets the library's SONAME.

fn main() -> std::io::Result<()> {
    mpi_table::generate::build_front("libmpi_abi.so.1").map(|_| ())
}
