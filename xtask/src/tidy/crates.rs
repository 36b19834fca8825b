//! The crates of the workspace and their dependencies, from cargo metadata: licences and required Rust versions.

use crate::build::setup::cargo_command;
use crate::harness::paths;
use anyhow::{ensure, Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The only platform that Stasis is built for: crates for others are never compiled.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";
/// Crates of the programs in a package.
const SHIPPED: [&str; 5] = [
    "stasis-cli",
    "stasis-front-openmpi",
    "stasis-front-mpich",
    "stasis-front-standard",
    "stasis-lower-half",
];
/// Spack recipe of Stasis.
const RECIPE: &str = "packaging/spack/spack_repo/stasis/packages/stasis/package.py";
/// Name prefixes of files with copyright notices.
const NOTICES: [&str; 5] = ["LICENSE", "LICENCE", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// A crate at the version that the lock file names.
pub struct Crate {
    id: String,
    /// Name of the crate.
    pub name: String,
    /// Version of the crate.
    pub version: String,
    /// Its `rust-version`, if it has one.
    pub rust_version: Option<String>,
    /// Folder of its manifest.
    pub folder: PathBuf,
    /// Whether the crate is a member of the workspace.
    pub ours: bool,
    license: String,
}

/// All crates of the workspace and of the lock file that are built on our platform, with their dependencies.
pub struct Crates {
    /// The crates.
    pub all: Vec<Crate>,
    links: BTreeMap<String, Vec<String>>,
}

/// Runs cargo metadata.
pub fn read() -> Result<Crates> {
    let mut metadata = cargo_command(None, &["metadata", "--format-version=1", "--locked"]);
    let output = metadata
        .args(["--filter-platform", PLATFORM])
        .output()
        .context("starting cargo")?;
    ensure!(
        output.status.success(),
        "cargo metadata failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let nodes = list(&metadata["resolve"]["nodes"]);
    let links: BTreeMap<String, Vec<String>> = nodes
        .map(|node| (text(&node["id"]), linked(node)))
        .collect();
    let members: BTreeSet<String> = list(&metadata["workspace_members"]).map(text).collect();
    let all = list(&metadata["packages"])
        .map(|package| Crate::new(package, &members))
        .filter(|one| links.contains_key(&one.id))
        .collect();
    Ok(Crates { all, links })
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The ids of a crate's ordinary dependencies: neither of its build script nor of its tests.
fn linked(node: &Value) -> Vec<String> {
    list(&node["deps"])
        .filter(|dep| list(&dep["dep_kinds"]).any(|kind| kind["kind"].is_null()))
        .map(|dep| text(&dep["pkg"]))
        .collect()
}

impl Crate {
    fn new(package: &Value, members: &BTreeSet<String>) -> Crate {
        let id = text(&package["id"]);
        let manifest = PathBuf::from(text(&package["manifest_path"]));
        Crate {
            name: text(&package["name"]),
            version: text(&package["version"]),
            rust_version: package["rust_version"].as_str().map(str::to_owned),
            folder: manifest.parent().unwrap_or(Path::new("")).to_owned(),
            ours: members.contains(&id),
            license: text(&package["license"]),
            id,
        }
    }

    /// Texts of its licences and notices, those of bundled C sources included.
    fn notices(&self) -> Result<BTreeSet<String>> {
        let mut texts = BTreeSet::new();
        let mut folders = vec![self.folder.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
                let entry = entry?;
                let name = entry.file_name().to_string_lossy().to_uppercase();
                if entry.file_type()?.is_dir() {
                    folders.push(entry.path());
                } else if NOTICES.iter().any(|notice| name.starts_with(notice))
                    && !name.ends_with(".RS")
                {
                    texts.insert(String::from_utf8_lossy(&fs::read(entry.path())?).into_owned());
                }
            }
        }
        Ok(texts)
    }
}

impl Crates {
    /// Third-party crates in the programs of a package.
    fn shipped(&self) -> Vec<&Crate> {
        let first = self.all.iter();
        let first = first.filter(|one| SHIPPED.contains(&one.name.as_str()));
        let mut open: Vec<&str> = first.map(|one| one.id.as_str()).collect();
        let mut seen = BTreeSet::new();
        while let Some(id) = open.pop() {
            if seen.insert(id) {
                let links = self.links.get(id).into_iter().flatten();
                open.extend(links.map(String::as_str));
            }
        }
        let all = self.all.iter();
        let mut shipped: Vec<&Crate> = all
            .filter(|one| !one.ours && seen.contains(one.id.as_str()))
            .collect();
        shipped.sort_by_key(|one| (&one.name, &one.version));
        shipped
    }

    /// Text about third-party crates in a package: names, licences, and notices, each text once.
    pub fn third_party(&self) -> Result<String> {
        let mut page = String::from("The programs of Stasis hold code of these Rust crates:\n\n");
        let mut notices: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for one in self.shipped() {
            let name = format!("{} {}", one.name, one.version);
            writeln!(page, "{name}: {}", one.license)?;
            for text in one.notices()? {
                notices.entry(text).or_default().push(name.clone());
            }
        }
        page.push_str("\nTheir licences and notices, each after the crates that it is of:\n");
        for (text, crates) in notices {
            write!(page, "\n{}\n{}:\n\n", "-".repeat(72), crates.join(", "))?;
            writeln!(page, "{}", text.trim_end())?;
        }
        Ok(page)
    }
}

/// Fails unless all crates of the workspace require its Rust version, no dependency requires a newer one, and the Spack
/// recipe requires the same.
pub fn check_rust_version() -> Result<()> {
    let root = paths::root();
    let manifest = fs::read_to_string(root.join("Cargo.toml"))?;
    let ours = between(&manifest, "\nrust-version = \"", "\"").context("Cargo.toml")?;
    let recipe = fs::read_to_string(root.join(RECIPE)).context(RECIPE)?;
    let spack = between(&recipe, "depends_on(\"rust@", ":\"").context(RECIPE)?;
    ensure!(
        spack == ours,
        "{RECIPE} asks for rust@{spack}, Cargo.toml for {ours}"
    );
    for one in read()?.all {
        let asked = one.rust_version.as_deref();
        if one.ours {
            let manifest = fs::read_to_string(one.folder.join("Cargo.toml"))?;
            ensure!(
                manifest.contains("\nrust-version.workspace = true\n"),
                "{} does not inherit it: its Cargo.toml needs `rust-version.workspace = true`",
                one.name
            );
        }
        ensure!(
            asked.is_none_or(|asked| number(asked) <= number(ours)),
            "{} {} needs Rust {}, Cargo.toml names {ours}",
            one.name,
            one.version,
            asked.unwrap_or_default()
        );
    }
    Ok(())
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    text.split_once(before)?
        .1
        .split_once(after)
        .map(|(it, _)| it)
}

/// Parses a version: `1.88` is (1, 88, 0).
fn number(version: &str) -> (u32, u32, u32) {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next())
}

#[cfg(test)]
mod tests {
    use super::{between, number, read};
    use crate::harness::paths;
    use std::fs;
    use std::path::Path;

    #[test]
    fn versions_of_rust_are_compared_by_number() {
        assert!(number("1.9") < number("1.88"));
        assert!(number("1.88") < number("1.88.1"));
        assert_eq!(number("1.88"), number("1.88.0"));
    }

    #[test]
    fn the_readme_names_the_folder_of_each_crate() {
        let readme = fs::read_to_string(paths::root().join("README.md")).unwrap();
        for one in read().unwrap().all.into_iter().filter(|one| one.ours) {
            let folder = one.folder.strip_prefix(paths::root()).unwrap();
            let named = |folder: &Path| readme.contains(&format!("`{}`", folder.display()));
            let mut folders = folder
                .ancestors()
                .filter(|folder| !folder.as_os_str().is_empty());
            let is_named = folders.any(named);
            assert!(is_named, "README.md does not name {}", folder.display());
        }
    }

    #[test]
    fn the_citation_has_the_version_of_the_workspace() {
        let read = |name| fs::read_to_string(paths::root().join(name)).unwrap();
        let (manifest, citation) = (read("Cargo.toml"), read("CITATION.cff"));
        let ours = between(&manifest, "[workspace.package]\nversion = \"", "\"").unwrap();
        assert_eq!(between(&citation, "\nversion: ", "\n"), Some(ours));
    }

    #[test]
    fn a_package_names_what_it_holds_of_others() {
        let page = read().and_then(|crates| crates.third_party()).unwrap();
        let (list, notices) = page.split_once("licences and notices").unwrap();
        assert!(list.contains("\nlibc "), "{list}");
        assert!(
            !list.contains("stasis-") && !list.contains("proptest"),
            "{list}"
        );
        // zstd's C library, which a crate bundles.
        assert!(notices.contains("Meta Platforms"), "nothing of zstd");
    }
}
