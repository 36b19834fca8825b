//! The exports of shared libraries, for the tests that compare a front with the MPI library that it replaces.

use goblin::elf::sym::{STT_FUNC, STT_GNU_IFUNC, STT_OBJECT};
use goblin::elf::Elf;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A front, and the library that it replaces.
pub struct Front {
    /// Name of the front's cargo package.
    pub package: &'static str,
    /// SONAME of the front, and of the real library.
    pub soname: &'static str,
}

impl Front {
    /// Builds the front and reads its exports. Cargo does not build the cdylib of a package for the package's tests.
    pub fn exports(&self) -> Exports {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "--quiet", "--package", self.package]);
        build.arg("--manifest-path");
        build.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        assert!(
            build.status().is_ok_and(|status| status.success()),
            "{build:?} failed"
        );
        let file = format!("lib{}.so", self.package.replace('-', "_"));
        let test = std::env::current_exe().expect("path of this test");
        let library = test
            .ancestors()
            .skip(1)
            .map(|directory| directory.join(&file))
            .find(|path| path.exists());
        Exports::of(&library.unwrap_or_else(|| panic!("{file} is not beside {}", test.display())))
    }

    /// Exports of the real library, if it is installed.
    pub fn real(&self) -> Option<Exports> {
        installed(self.soname).map(|path| Exports::of(&path))
    }

    /// Asserts that the front has the real library's SONAME and each function of the table.
    #[track_caller]
    pub fn must_have_the_table(&self) {
        let front = self.exports();
        assert_eq!(front.soname, self.soname);
        let names = mpi_table::functions()
            .iter()
            .flat_map(|function| [function.name.clone(), format!("P{}", function.name)]);
        front.must_have(names);
    }
}

/// Dynamic symbols that a shared library defines.
pub struct Exports {
    /// SONAME of the library.
    pub soname: String,
    /// Names of the functions.
    pub functions: Vec<String>,
    /// Sizes of the data symbols in bytes, by name.
    pub data: BTreeMap<String, u64>,
}

impl Exports {
    /// Reads the exports of the library at `path`.
    pub fn of(path: &Path) -> Exports {
        let bytes = read(path);
        let elf = parse(path, &bytes);
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

    /// Asserts that each of `names` is exported, as a function or as data.
    #[track_caller]
    pub fn must_have(&self, names: impl IntoIterator<Item = String>) {
        let missing: Vec<String> = names
            .into_iter()
            .filter(|name| !self.functions.contains(name) && !self.data.contains_key(name))
            .collect();
        assert!(missing.is_empty(), "not exported: {missing:?}");
    }

    /// Asserts that each data symbol is one of `real` with the same size. Symbols of the Rust runtime are exempt.
    #[track_caller]
    pub fn must_have_data_only_of(&self, real: &Exports) {
        for (name, size) in &self.data {
            let of_rust = !real.data.contains_key(name) && name.starts_with("rust");
            assert!(
                of_rust || real.data.get(name) == Some(size),
                "{name}: {size} bytes here"
            );
        }
    }
}

/// Whether `name` is that of an MPI function for C.
pub fn is_mpi(name: &str) -> bool {
    name.starts_with("MPI_") || name.starts_with("PMPI_")
}

/// Names of the dynamic symbols that the library at `path` imports.
pub fn imports(path: &Path) -> Vec<String> {
    let bytes = read(path);
    let elf = parse(path, &bytes);
    let imports = elf.dynsyms.iter().filter(|symbol| symbol.is_import());
    imports
        .filter_map(|symbol| elf.dynstrtab.get_at(symbol.st_name))
        .map(str::to_owned)
        .collect()
}

/// Path of the installed library with that SONAME, if there is one.
pub fn installed(soname: &str) -> Option<PathBuf> {
    let path = Path::new("/usr/lib/x86_64-linux-gnu").join(soname);
    path.exists().then_some(path)
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn parse<'a>(path: &Path, bytes: &'a [u8]) -> Elf<'a> {
    Elf::parse(bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
