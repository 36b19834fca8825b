//! The environment variables that released programs read, compared with the page that lists them.

use crate::harness::paths;
use anyhow::{ensure, Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

const PAGE: &str = "docs/environment.md";
const PREFIX: &str = "STASIS_";
/// Prefix of the tests' own variables.
const OF_TESTS: &str = "STASIS_TEST_";

/// Fails if the sources have a variable that the page lacks, or the page has one that the sources lack.
pub fn check() -> Result<()> {
    let page = fs::read_to_string(paths::root().join(PAGE)).context(PAGE)?;
    let listed = names(&page, |before| before.ends_with('`'));
    let read = of_sources()?;
    let missing: Vec<_> = read.difference(&listed).cloned().collect();
    let gone: Vec<_> = listed.difference(&read).cloned().collect();
    ensure!(
        missing.is_empty(),
        "{PAGE} does not list {}: add a row to it",
        missing.join(", ")
    );
    ensure!(
        gone.is_empty(),
        "{PAGE} lists {}, which no source names: remove the row",
        gone.join(", ")
    );
    Ok(())
}

/// Variable names in string literals of the released sources.
fn of_sources() -> Result<BTreeSet<String>> {
    let mut list = Command::new("git");
    list.args(["ls-files", "*.rs", "*.c", "*.h", "*.f90"]);
    list.args([":!xtask", ":!examples", ":!fuzz"]);
    list.args([":!*/tests/*", ":!*/benches/*", ":!*/examples/*"]);
    let listed = list.current_dir(paths::root()).output();
    let listed = listed.context("git ls-files")?;
    ensure!(listed.status.success(), "git ls-files failed");
    let mut read = BTreeSet::new();
    for file in String::from_utf8_lossy(&listed.stdout).lines() {
        let text = fs::read_to_string(paths::root().join(file)).context(file.to_owned())?;
        read.extend(names(&text, |before| before.ends_with('"')));
    }
    Ok(read)
}

/// Variable names in a text, if `accepted` holds for the text before them.
fn names(text: &str, accepted: fn(&str) -> bool) -> BTreeSet<String> {
    let places = text.match_indices(PREFIX);
    let places = places.filter(|(at, _)| accepted(&text[..*at]));
    let named = places.map(|(at, _)| {
        let in_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        let name = &text[at..];
        name[..name.find(|c| !in_name(c)).unwrap_or(name.len())].to_owned()
    });
    named
        .filter(|name| name != PREFIX && !name.starts_with(OF_TESTS))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_variable_is_found_in_a_literal_and_not_in_a_comment() {
        let text = "// \"STASIS_\" and STASIS_LATER\nvar(\"STASIS_NOW=\"); c\"STASIS_TEST_GO\"";
        let found = names(text, |before| before.ends_with('"'));
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["STASIS_NOW"]);
    }
}
