//! Comparison of the table with the headers of two MPI libraries: the names of the functions, and their numbers of
//! parameters.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use skip::skip;

/// Number of parameters of each prototype `MPI_Name(...)` in a header.
fn prototypes(header: &str) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    let header = without_comments(header);
    // A preprocessor line would become part of the statement that follows it.
    let lines: Vec<&str> = header
        .lines()
        .filter(|line| !line.starts_with('#'))
        .collect();
    for statement in lines.join("\n").split(';') {
        let Some((head, rest)) = statement.split_once('(') else {
            continue;
        };
        let words: Vec<&str> = head.split_whitespace().collect();
        let (Some(name), true) = (words.last(), words.len() > 1) else {
            continue;
        };
        if !name.starts_with("MPI_") || words.contains(&"typedef") || words.contains(&"#define") {
            continue;
        }
        found.insert((*name).to_owned(), parameters(rest));
    }
    found
}

fn without_comments(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        kept.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    kept.push_str(rest);
    kept
}

/// Number of parameters in the text after an opening parenthesis.
fn parameters(rest: &str) -> usize {
    let mut depth = 1;
    let mut list = String::new();
    for c in rest.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        // Commas in the type of a function pointer do not separate parameters.
        list.push(if c == ',' && depth > 1 { ' ' } else { c });
    }
    list.split(',')
        .map(str::trim)
        .filter(|p| !p.is_empty() && *p != "void" && *p != "...")
        .count()
}

/// Compares the table with the headers in `files`. `missing` are the functions of the table that the headers do not
/// have; `newer` accepts functions of the headers that the table does not have.
fn compare(files: &[&str], missing: &[&str], newer: fn(&str) -> bool) {
    let text: String = files
        .iter()
        .map(|file| std::fs::read_to_string(file).expect("a readable header"))
        .collect();
    let header = prototypes(&text);
    let table: BTreeMap<String, usize> = stasis_mpi_table::functions()
        .iter()
        .map(|f| (f.name.clone(), f.params.len()))
        .collect();
    let wrong: Vec<_> = table
        .iter()
        .filter(|(name, count)| header.get(*name).is_some_and(|there| there != *count))
        .collect();
    assert!(wrong.is_empty(), "numbers of parameters differ: {wrong:?}");
    let absent: BTreeSet<&str> = table
        .keys()
        .map(String::as_str)
        .filter(|name| !header.contains_key(*name))
        .collect();
    assert_eq!(
        absent,
        missing.iter().copied().collect(),
        "functions that the header lacks"
    );
    let unknown: Vec<_> = header
        .keys()
        .filter(|name| !table.contains_key(*name) && !newer(name))
        .collect();
    assert!(
        unknown.is_empty(),
        "functions that the table lacks: {unknown:?}"
    );
}

#[test]
fn agrees_with_open_mpi() {
    let header = "/usr/lib/x86_64-linux-gnu/openmpi/include/mpi.h";
    if !Path::new(header).exists() {
        skip!("{header} is not installed");
    }
    let macros = ["MPI_Aint_add", "MPI_Aint_diff"];
    let unknown_to_it = ["MPI_Status_c2f08", "MPI_Status_f082c"];
    let functions = stasis_mpi_table::functions().iter();
    let newer = functions
        .filter(|f| f.is_of_mpi_4())
        .map(|f| f.name.as_str());
    let missing: Vec<&str> = newer.chain(macros).chain(unknown_to_it).collect();
    compare(&[header], &missing, |_| false);
}

#[test]
fn agrees_with_mpich() {
    let folder = "/usr/include/x86_64-linux-gnu/mpich";
    let files = [format!("{folder}/mpi_proto.h"), format!("{folder}/mpio.h")];
    if !files.iter().all(|file| Path::new(file).exists()) {
        skip!("{files:?} are not installed");
    }
    let macros = [
        "Comm",
        "Errhandler",
        "Group",
        "Message",
        "Op",
        "Request",
        "Session",
        "Type",
        "Win",
    ];
    let macros: Vec<String> = macros
        .iter()
        .flat_map(|kind| [format!("MPI_{kind}_c2f"), format!("MPI_{kind}_f2c")])
        .collect();
    let came_later = "MPI_Status_set_elements_c";
    let missing: Vec<&str> = macros
        .iter()
        .map(String::as_str)
        .chain([came_later])
        .collect();
    compare(&[&files[0], &files[1]], &missing, is_newer_in_mpich);
}

/// Whether a function of MPICH is not in the table: events of the tools interface, and functions that no standard has.
fn is_newer_in_mpich(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "MPI_DUP_FN",
        "MPI_Status_f082f",
        "MPI_Status_f2f08",
        "MPI_T_category_get_events",
        "MPI_T_category_get_num_events",
    ];
    NAMES.contains(&name) || name.starts_with("MPI_T_event_") || name.starts_with("MPI_T_source_")
}

/// The header of MPICH 5, from PyPI (`xtask/src/build/pypi.rs`).
const STANDARD: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../target/pypi/mpich-abi/include/mpi_abi.h"
);

#[test]
fn agrees_with_the_standard_abi() {
    let Ok(text) = std::fs::read_to_string(STANDARD) else {
        skip!("{STANDARD} is not installed");
    };
    let header = prototypes(&text);
    for function in stasis_mpi_table::functions() {
        let there = header.get(&function.name).copied();
        let ours = function
            .is_of_standard_abi()
            .then_some(function.params.len());
        assert_eq!(there, ours, "{}", function.name);
    }
}

/// The values that the lower half for this ABI passes on unchanged.
#[test]
fn handles_are_those_of_the_standard_abi() {
    use contract::abi;
    let Ok(text) = std::fs::read_to_string(STANDARD) else {
        skip!("{STANDARD} is not installed");
    };
    let defined = |name: &str| {
        let mut lines = text.lines().map(str::split_whitespace);
        lines.find_map(|mut words| {
            let is_it = words.next() == Some("#define") && words.next() == Some(name);
            is_it.then(|| words.next().unwrap_or_default().to_owned())
        })
    };
    let value = |name: &str| {
        let word = defined(name)?;
        // Some have two names.
        let word = defined(&word).unwrap_or(word);
        let (_, number) = word.trim_end_matches(')').rsplit_once("0x")?;
        usize::from_str_radix(number, 16).ok()
    };
    for all in [
        abi::comm::ALL,
        abi::group::ALL,
        abi::datatype::ALL,
        abi::op::ALL,
        abi::errhandler::ALL,
        abi::info::ALL,
        abi::request::ALL,
        abi::message::ALL,
        abi::win::ALL,
        abi::file::ALL,
    ] {
        for (name, ours) in all {
            assert_eq!(value(name), Some(*ours), "{name}");
        }
    }
}

/// The integers of `contract::abi`, by their text: they go to a library of this ABI unchanged, too.
#[test]
fn integers_are_those_of_the_standard_abi() {
    let Ok(header) = std::fs::read_to_string(STANDARD) else {
        skip!("{STANDARD} is not installed");
    };
    let header = without_comments(&header);
    let number = |text: &str| {
        let text = text
            .trim()
            .trim_end_matches([',', ';'])
            .trim_matches(['(', ')']);
        text.parse::<i64>().ok()
    };
    let of_enum = |line: &str| {
        let (name, value) = line.split_once('=')?;
        Some((name.trim().to_owned(), number(value)?))
    };
    let of_macro = |line: &str| {
        let (name, value) = line.strip_prefix("#define")?.trim().split_once(' ')?;
        Some((name.to_owned(), number(value)?))
    };
    let theirs: BTreeMap<String, i64> = header
        .lines()
        .filter_map(|line| of_macro(line).or_else(|| of_enum(line)))
        .collect();
    let ours = include_str!("../../contract/src/abi.rs").lines();
    let mut compared = 0;
    for line in ours.filter_map(|line| line.trim().strip_prefix("pub const ")) {
        let value = line.split_once(": i32 = ");
        let Some((name, Some(value))) = value.map(|(name, value)| (name, number(value))) else {
            continue;
        };
        if let Some(wanted) = theirs.get(&format!("MPI_{name}")) {
            assert_eq!(value, *wanted, "{name}");
            compared += 1;
        }
    }
    assert!(compared > 150, "only {compared} are in both");
}
