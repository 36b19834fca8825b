//! The functions of MPI that the examples call, found in their sources.

use crate::harness::paths;
use crate::test::programs::mpi::folders;
use anyhow::{Context, Result};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;

/// Examples that are run and cut, by name (`folder/stem`), each with the functions of the table that it calls, itself
/// or in a header of its folder. Calls in the header of all examples do not count.
pub fn of_examples() -> Result<Vec<(String, Vec<String>)>> {
    let functions: HashMap<String, &str> = mpi_table::functions()
        .iter()
        .map(|function| (function.name.to_ascii_lowercase(), function.name.as_str()))
        .collect();
    let mut found = Vec::new();
    for folder in folders()? {
        let folder_path = paths::examples().join(&folder);
        for entry in fs::read_dir(&folder_path)? {
            let path = entry?.path();
            let extension = path.extension().unwrap_or_default().to_string_lossy();
            let is_fortran = extension == "f90";
            if !is_fortran && !["c", "cpp"].contains(&extension.as_ref()) {
                continue;
            }
            let mut names = BTreeSet::new();
            calls_in(&path, is_fortran, &mut BTreeSet::new(), &mut |word| {
                names.extend(functions.get(word).map(|name| (*name).to_owned()));
            })?;
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            found.push((format!("{folder}/{stem}"), names.into_iter().collect()));
        }
    }
    Ok(found)
}

/// Passes every word called in the file, or in its includes from the same folder, in lower case.
fn calls_in(
    path: &Path,
    is_fortran: bool,
    seen: &mut BTreeSet<String>,
    found: &mut impl FnMut(&str),
) -> Result<()> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    for line in text.lines() {
        let included = line
            .strip_prefix("#include \"")
            .and_then(|rest| rest.strip_suffix('"'));
        match included {
            Some(name) if !name.contains('/') && seen.insert(name.to_owned()) => {
                calls_in(&path.with_file_name(name), is_fortran, seen, found)?;
            }
            _ => calls_on(line, is_fortran, found),
        }
    }
    Ok(())
}

/// In C, a name at the beginning of a line defines or declares a function.
fn calls_on(line: &str, is_fortran: bool, found: &mut impl FnMut(&str)) {
    if !is_fortran && !line.starts_with([' ', '\t', '#']) {
        return;
    }
    let code = match is_fortran {
        true => line.split('!').next().unwrap_or_default(),
        false => line.split("//").next().unwrap_or_default(),
    };
    let of_words = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut rest = code;
    while let Some(start) = rest.find(of_words) {
        rest = &rest[start..];
        let end = rest.find(|c| !of_words(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        let is_call = after.trim_start().starts_with('(');
        let is_exact = is_fortran || word.starts_with("MPI_");
        if is_call && is_exact {
            found(&word.to_ascii_lowercase());
        }
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::calls_on;

    fn calls(line: &str, is_fortran: bool) -> Vec<String> {
        let mut found = Vec::new();
        calls_on(line, is_fortran, &mut |word| found.push(word.to_owned()));
        found
    }

    #[test]
    fn calls_are_told_from_names_and_definitions() {
        let c = |line| calls(line, false);
        assert_eq!(
            c("    MPI_OK(MPI_Send(&a, 1, MPI_INT, f(b), 0, comm)); // MPI_Recv(x)"),
            ["mpi_ok", "mpi_send"]
        );
        assert_eq!(c("    PMPI_Barrier(comm); x = MPI_Wtime;"), [""; 0]);
        assert_eq!(c("int MPI_Barrier(MPI_Comm comm)"), [""; 0]);
        let fortran = "  call MPI_BARRIER(comm, ierr) ! mpi_send(";
        assert_eq!(calls(fortran, true), ["mpi_barrier"]);
    }
}
