//! Tests named in the documentation: each must exist, and each promise must name one.

use crate::harness::paths;
use crate::tidy::crates;
use anyhow::{ensure, Context, Result};
use std::collections::BTreeSet;
use std::fs;

const SPECIFICATION: &str = "docs/specification.md";
const FAULTS: &str = "docs/faults.md";
/// Head of the table in `docs/faults.md` whose last column names tests. Above it are names of files.
const TESTS_OF_FAULTS: &str = "| test |";

/// Fails with a line for each name of a test that does not exist and for each promise without one.
pub fn check() -> Result<()> {
    let read = |page: &str| {
        fs::read_to_string(paths::root().join(page)).with_context(|| format!("reading {page}"))
    };
    let tests = Tests::all()?;
    let promises = read(SPECIFICATION)?;
    let faults = read(FAULTS)?;
    let (_, faults) = faults
        .split_once(TESTS_OF_FAULTS)
        .with_context(|| format!("{FAULTS} has no table with a column '{TESTS_OF_FAULTS}'"))?;
    let mut wrong = tests.missing(&promises, SPECIFICATION);
    wrong.extend(tests.missing(faults, FAULTS));
    wrong.extend(without_test(&promises));
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// A name of a test in a page.
#[derive(Debug, PartialEq, Eq)]
enum Named<'a> {
    /// A case, or a prefix of cases, of `cargo xtask test`; or a file of the repository.
    Case(&'a str),
    /// The mode of a case.
    Mode(&'a str),
    /// A crate, and the parts behind it: folders and files of unit tests, or a test.
    Unit(&'a str, Vec<&'a str>),
}

/// Names of tests in `text`, whose words are one space apart.
fn named(text: &str) -> Vec<Named<'_>> {
    let parts: Vec<&str> = text.split('`').collect();
    let code = parts.windows(2).step_by(2).filter_map(|pair| match pair {
        [before, code] if before.ends_with("mode ") => Some(Named::Mode(code)),
        [_, code] if code.contains(' ') => None,
        [_, code] if code.starts_with("stasis-") => {
            let mut parts = code.split("::");
            Some(Named::Unit(parts.next()?, parts.collect()))
        }
        [_, code] if code.starts_with(|c: char| c.is_ascii_lowercase()) && code.contains('/') => {
            Some(Named::Case(code))
        }
        _ => None,
    });
    code.collect()
}

/// Joins words by one space, so that a name and the word before it are in one line.
fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Errors of the promises themselves: a duplicate number, or no test.
fn without_test(page: &str) -> Vec<String> {
    let page = in_one_line(page);
    let mut numbers = BTreeSet::new();
    let mut wrong = Vec::new();
    for promise in page.split(" - **").skip(1) {
        let number = promise.split("**").next().unwrap_or_default();
        if !numbers.insert(number) {
            wrong.push(format!("{SPECIFICATION}: {number} is there twice"));
        }
        let tests = promise.rsplit_once(" — ").map(|(_, tests)| tests);
        if !tests.is_some_and(|t| t.contains("*pending*") || !named(t).is_empty()) {
            wrong.push(format!("{SPECIFICATION}: {number} names no test"));
        }
    }
    if numbers.is_empty() {
        wrong.push(format!("{SPECIFICATION} has no promises"));
    }
    wrong
}

/// All existing tests.
struct Tests {
    /// Names of cases, those of `--full` among them.
    cases: Vec<String>,
    /// Files with unit tests: crate, path within it, text.
    units: Vec<(String, String, String)>,
}

impl Tests {
    fn all() -> Result<Tests> {
        let cases = crate::test::cases(true)?;
        let mut units = Vec::new();
        for one in crates::read()?.all.iter().filter(|one| one.ours) {
            let folders = ["src", "tests"].map(|part| one.folder.join(part));
            for folder in folders.iter().filter(|folder| folder.is_dir()) {
                for path in paths::rust_files(folder)? {
                    let text = fs::read_to_string(&path)?;
                    if text.contains("#[test]") {
                        let within = path.strip_prefix(&one.folder)?.display().to_string();
                        units.push((one.name.clone(), within, text));
                    }
                }
            }
        }
        Ok(Tests {
            cases: cases.into_iter().map(|case| case.name).collect(),
            units,
        })
    }

    fn missing(&self, text: &str, page: &str) -> Vec<String> {
        let text = in_one_line(text);
        let missing = named(&text).into_iter().filter(|name| !self.have(name));
        missing
            .map(|name| match name {
                Named::Case(name) => format!("{page}: no case is named {name}"),
                Named::Mode(name) => format!("{page}: no case has the mode {name}"),
                Named::Unit(name, parts) => {
                    format!("{page}: {name} has no tests {}", parts.join("::"))
                }
            })
            .collect()
    }

    fn have(&self, name: &Named<'_>) -> bool {
        match name {
            Named::Case(name) => {
                let is_this = |case: &String| match case.strip_prefix(name) {
                    Some(rest) => {
                        name.ends_with(['/', '-'])
                            || rest.is_empty()
                            || rest.starts_with(['.', ':', '/'])
                    }
                    None => false,
                };
                self.cases.iter().any(is_this)
                    || !name.ends_with('/') && paths::root().join(name).exists()
            }
            Named::Mode(mode) => {
                let mode = format!(":{mode}:");
                self.cases.iter().any(|case| case.contains(&mode))
            }
            Named::Unit(krate, parts) => self.units.iter().any(|(of, path, text)| {
                let here = |part: &&str| {
                    path.split(['/', '.']).any(|folder| folder == *part)
                        || text.contains(&format!("fn {part}("))
                };
                of == krate && parts.iter().all(here)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{without_test, Tests};

    #[test]
    fn names_without_a_test_are_found() {
        let tests = Tests {
            cases: ["p2p/ring.eager:plain:mpich@mpich", "undo/limit"]
                .map(String::from)
                .into(),
            units: vec![(
                "stasis-undo".into(),
                "src/state/record.rs".into(),
                "#[test] fn a_torn_record_is_no_record() {}".into(),
            )],
        };
        let there = "`p2p/` `p2p/ring` `p2p/ring.eager` `undo/limit` `/dev/null` `--undo-limit` mode\n `plain` \
                     `stasis-undo` `stasis-undo::record` `stasis-undo::state::a_torn_record_is_no_record` `stasis list`";
        assert_eq!(tests.missing(there, "page"), [""; 0]);
        let gone = "`p2p/rin` `undo/lim` `slurm/` mode `hang` `stasis-cli` `stasis-undo::apply` `stasis-undo::a_torn`";
        assert_eq!(tests.missing(gone, "page").len(), 7);
    }

    #[test]
    fn promises_without_tests_are_found() {
        let page = "- **A-1** Yes. — `p2p/ring`\n- **A-2** No.\n- **A-1** Yes. — *pending*\n";
        let wrong = without_test(&format!("head\n{page}"));
        assert_eq!(wrong.len(), 2, "{wrong:?}");
    }
}
