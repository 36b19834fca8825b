//! Rules about language that a program can check: phrases and lengths of comments, phrases in `docs/`, commit titles.

use crate::harness::paths;
use anyhow::{ensure, Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

/// Phrases that are not plain technical English, in lower case.
const PHRASES: [&str; 6] = [
    "so many",
    "whoever",
    "is had",
    "leave away",
    "of which there",
    "for to",
];
/// Longest line of a comment, in columns.
const COLUMNS: usize = 120;
/// Longest title of a commit, in characters.
const TITLE: usize = 72;
/// Findings in each folder of the root that still has some. A commit that lowers a number lowers it here.
const MOST: &[(&str, usize)] = &[];
/// Branch against which the commits of a checkout are compared.
const BASE: &str = "refs/remotes/origin/main";

/// Fails with a line for each finding in a folder whose number differs from [`MOST`], and for each wrong title.
pub fn check() -> Result<()> {
    let files = git(&["ls-files", "*.rs", "docs/*.md"])?;
    let mut found: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    found.extend(MOST.iter().map(|(folder, _)| (*folder, Vec::new())));
    for file in files.lines() {
        let folder = file.split('/').next().unwrap_or(file);
        let text = fs::read_to_string(paths::root().join(file)).context(file.to_owned())?;
        let new = findings(&text, file.ends_with(".rs")).map(|what| format!("{file}:{what}"));
        found.entry(folder).or_default().extend(new);
    }
    let mut wrong = Vec::new();
    for (folder, lines) in found {
        let row = MOST.iter().find(|row| row.0 == folder);
        let (now, most) = (lines.len(), row.map_or(0, |row| row.1));
        if now > most {
            wrong.extend(lines);
        }
        if now != most {
            wrong.push(format!("{folder} has {now} findings, not {most}: remove new ones, or lower the number in MOST"));
        }
    }
    if git(&["rev-parse", "--verify", "--quiet", BASE]).is_ok() {
        let commits = format!("{BASE}..HEAD");
        let titles = git(&["log", "--no-merges", "--format=%s", &commits])?;
        wrong.extend(titles.lines().filter_map(wrong_title));
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// Output of a git command in the checkout.
pub fn git(arguments: &[&str]) -> Result<String> {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(paths::root())
        .output();
    let output = output.context("starting git")?;
    ensure!(output.status.success(), "git {} failed", arguments[0]);
    Ok(String::from_utf8(output.stdout)?)
}

/// Phrases and long lines, each with its line. A phrase may span lines of one comment or of one paragraph.
fn findings(text: &str, is_source: bool) -> impl Iterator<Item = String> {
    let (mut found, mut before) = (Vec::new(), String::new());
    for (number, line) in (1..).zip(text.lines()) {
        let words = if is_source { comment(line) } else { line };
        if words.is_empty() {
            before.clear();
        }
        for word in words.to_lowercase().split_whitespace() {
            let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
            let text = format!("{before} {bare}");
            let ended = PHRASES
                .iter()
                .filter(|phrase| text.ends_with(&format!(" {phrase}")));
            found.extend(ended.map(|phrase| format!("{number}: \"{phrase}\"")));
            if !bare.is_empty() {
                before = before + " " + word;
            }
        }
        if is_source && line.chars().count() > COLUMNS && line.trim_start().starts_with("//") {
            found.push(format!("{number}: more than {COLUMNS} columns"));
        }
    }
    found.into_iter()
}

/// The comment of a line of Rust, also behind code with whole string literals.
fn comment(line: &str) -> &str {
    let mut starts = line.match_indices("//").map(|(at, _)| at);
    let start = starts.find(|at| line[..*at].matches('"').count().is_multiple_of(2));
    start.map_or("", |at| &line[at..])
}

/// The complaint about the title of a commit, which has the form `area: imperative`.
fn wrong_title(title: &str) -> Option<String> {
    let is_area = |c: char| c.is_lowercase() || "-_/, 0123456789".contains(c);
    let area = title.split_once(": ").map_or("", |(area, _)| area);
    let right = title.chars().count() <= TITLE && !area.is_empty() && area.chars().all(is_area);
    (!right).then(|| format!("commit \"{title}\": not `area: imperative` in {TITLE} characters"))
}

#[cfg(test)]
mod tests {
    use super::{findings, wrong_title, COLUMNS, TITLE};

    #[test]
    fn phrases_and_long_lines_of_comments_are_found() {
        let found = |text: &str, is_source| findings(text, is_source).collect::<Vec<_>>();
        let good =
            "/// What it is for. To go.\nlet x = \"so many // whoever\";\n// so\nlet y;\n// many";
        assert_eq!(found(good, true), [""; 0]);
        assert_eq!(found("/// So\n/// many.", true), ["2: \"so many\""]);
        assert_eq!(found("let x = \"\"; // (whoever", true), ["1: \"whoever\""]);
        assert_eq!(found(&format!("//{}", "x".repeat(COLUMNS)), true).len(), 1);
        assert_eq!(found("It is had, for to go.", false).len(), 2);
    }

    #[test]
    fn titles_that_are_long_or_without_area_are_found() {
        assert_eq!(wrong_title("upper-half, docs: describe the layout"), None);
        for bad in [
            "Wrap a line",
            "Docs: wrap",
            ": wrap",
            &format!("a: {}", "x".repeat(TITLE)),
        ] {
            assert!(wrong_title(bad).is_some(), "{bad}");
        }
    }
}
