//! MPI_SIZEOF. It is a generic function with a specific name for each type and number of dimensions. The name
//! determines the size, and the argument is not read.

use std::fmt::Write;

/// Names of Fortran's types, with their sizes in bytes. The name of a complex type has the size of its parts.
const TYPES: [(&str, usize); 12] = [
    ("character", 1),
    ("logical", 4),
    ("int8", 1),
    ("int16", 2),
    ("int32", 4),
    ("int64", 8),
    ("real32", 4),
    ("real64", 8),
    ("real128", 16),
    ("complex32", 8),
    ("complex64", 16),
    ("complex128", 32),
];

/// Largest number of dimensions of an array.
const RANKS: usize = 15;

/// Writes all specific functions.
pub fn write(text: &mut String) -> std::fmt::Result {
    for (name, bytes) in TYPES {
        let first = format!("mpi_sizeof_{name}_scalar_");
        writeln!(text, "\n/// MPI_SIZEOF of a type of {bytes} bytes.")?;
        writeln!(text, "#[no_mangle]")?;
        writeln!(
            text,
            "pub unsafe extern \"C\" fn {first}(_x: *mut c_void, size: *mut i32, ierror: *mut i32) {{"
        )?;
        writeln!(text, "    *size = {bytes};")?;
        writeln!(
            text,
            "    super::finish(ierror, contract::abi::SUCCESS);\n}}"
        )?;
        let arrays = (1..=RANKS).map(|rank| format!("mpi_sizeof_{name}_r{rank}_"));
        let others: Vec<String> = arrays
            .flat_map(|array| [format!("p{array}"), array])
            .collect();
        writeln!(
            text,
            "spellings! {{ {first}: p{first}, {} }}",
            others.join(", ")
        )?;
    }
    Ok(())
}
