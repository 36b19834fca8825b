//! What shared libraries export, and what a front must: for the fronts' tests.
#![allow(dead_code)] // no front's tests need all of it

use goblin::elf::sym::{STT_FUNC, STT_GNU_IFUNC, STT_OBJECT};
use goblin::elf::Elf;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a library exports: names of its functions, and sizes of its data.
pub struct Exports {
    /// The library's own name.
    pub soname: String,
    /// Functions.
    pub functions: Vec<String>,
    /// Data symbols with their sizes.
    pub data: BTreeMap<String, u64>,
}

/// Reads a library.
pub fn of(path: &Path) -> Exports {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let elf = Elf::parse(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut exports = Exports {
        soname: elf.soname.unwrap_or_default().to_owned(),
        functions: Vec::new(),
        data: BTreeMap::new(),
    };
    for symbol in elf.dynsyms.iter().filter(|symbol| !symbol.is_import()) {
        let name = elf
            .dynstrtab
            .get_at(symbol.st_name)
            .unwrap_or_default()
            .to_owned();
        match symbol.st_type() {
            STT_FUNC | STT_GNU_IFUNC => exports.functions.push(name),
            STT_OBJECT => {
                exports.data.insert(name, symbol.st_size);
            }
            _ => {}
        }
    }
    exports
}

impl Exports {
    /// Asserts that everything of these names is there.
    #[track_caller]
    pub fn must_have(&self, names: impl IntoIterator<Item = String>) {
        let missing: Vec<String> = names
            .into_iter()
            .filter(|name| !self.functions.contains(name) && !self.data.contains_key(name))
            .collect();
        assert!(missing.is_empty(), "not exported: {missing:?}");
    }

    /// Asserts that every function of the table is there, under both its names.
    #[track_caller]
    pub fn must_have_the_table(&self) {
        let names = mpi_table::functions()
            .iter()
            .flat_map(|function| [function.name.clone(), format!("P{}", function.name)]);
        self.must_have(names);
    }

    /// Asserts that all data, except what Rust puts there, is the real library's and as large.
    #[track_caller]
    pub fn must_have_data_only_of(&self, real: &Exports) {
        for (name, size) in &self.data {
            let stasis_own = !real.data.contains_key(name) && name.starts_with("rust");
            assert!(
                stasis_own || real.data.get(name) == Some(size),
                "{name}: {size} bytes here"
            );
        }
    }
}

/// Whether this is the name of one of MPI's functions for C.
pub fn is_mpi(name: &str) -> bool {
    name.starts_with("MPI_") || name.starts_with("PMPI_")
}

/// Names that a library wants from others.
pub fn wanted(path: &Path) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let elf = Elf::parse(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let imports = elf.dynsyms.iter().filter(|symbol| symbol.is_import());
    imports
        .filter_map(|symbol| elf.dynstrtab.get_at(symbol.st_name))
        .map(str::to_owned)
        .collect()
}

/// The front of this package, built: cargo does not build a package's cdylib for its tests.
pub fn front(file: &str) -> PathBuf {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--manifest-path"]);
    build.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    if !cfg!(debug_assertions) {
        build.arg("--release");
    }
    assert!(
        build.status().is_ok_and(|status| status.success()),
        "{build:?} failed"
    );
    let test = std::env::current_exe().expect("path of this test");
    test.ancestors()
        .skip(1)
        .map(|directory| directory.join(file))
        .find(|path| path.exists())
        .unwrap_or_else(|| panic!("{file} is not beside {}", test.display()))
}

/// The installed library whose place a front takes, if there is one.
pub fn installed(soname: &str) -> Option<PathBuf> {
    let path = Path::new("/usr/lib/x86_64-linux-gnu").join(soname);
    if path.exists() {
        Some(path)
    } else {
        eprintln!("{soname} is not installed: nothing to compare with");
        None
    }
}
