//! Paths of files that documents and comments name in back quotes, or that a link of a page leads to: they exist.

use super::prose::git;
use crate::harness::paths;
use anyhow::{ensure, Context, Result};
use std::fs;
use std::path::Path;

/// Begins and ends a block of code: three back quotes, escaped, because [`named`] looks for pairs of them here, too.
const FENCE: &str = "\n\u{60}\u{60}\u{60}";

/// Fails with a line for each path that does not exist. A path begins with a folder of the root and names a file that
/// ends with `.rs` or a folder `src`; `{a,b}` stands for both.
pub fn check() -> Result<()> {
    let root = paths::root();
    let listed = git(&["ls-files", "*.rs", "*.md"])?;
    let mut wrong = Vec::new();
    for file in listed.lines() {
        let text = fs::read_to_string(root.join(file)).context(file.to_owned())?;
        let missing = named(&text)
            .into_iter()
            .filter(|path| !root.join(path).exists());
        wrong.extend(missing.map(|path| format!("{file} names {path}, which does not exist")));
        if file.ends_with(".md") {
            let folder = root.join(file).with_file_name("");
            let broken = links(&text)
                .into_iter()
                .filter(|path| !folder.join(path).exists());
            wrong
                .extend(broken.map(|path| format!("{file} links to {path}, which does not exist")));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// The paths that a text names.
fn named(text: &str) -> Vec<String> {
    let quoted = text.split('`').skip(1).step_by(2);
    let paths = quoted.filter(|quoted| is_path(quoted));
    paths.flat_map(expanded).collect()
}

/// The files of the repository to which a page links, outside of blocks of code.
fn links(page: &str) -> Vec<String> {
    let texts = page.split(FENCE).step_by(2);
    let targets = texts.flat_map(|text| text.split("](").skip(1));
    let targets = targets.filter_map(|rest| rest.split([')', '#']).next());
    let files = targets.filter(|target| !target.is_empty() && !target.contains(':'));
    files.map(str::to_owned).collect()
}

fn is_path(quoted: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_/{},.".contains(c);
    let in_source = quoted.ends_with(".rs") || quoted.ends_with("/src") || quoted.contains("/src/");
    let begins = Path::new(quoted).components().next();
    let folder = begins.is_some_and(|first| paths::root().join(first).is_dir());
    in_source && folder && quoted.contains('/') && quoted.chars().all(plain)
}

/// Each path that one with `{a,b}` stands for.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else {
        return vec![path.to_owned()];
    };
    let Some((inside, after)) = rest.split_once('}') else {
        return vec![path.to_owned()];
    };
    let each = inside.split(',').map(|one| format!("{before}{one}{after}"));
    each.flat_map(|path| expanded(&path)).collect()
}

#[cfg(test)]
mod tests {
    use super::{expanded, links, named, FENCE};

    #[test]
    fn links_to_files_are_found_in_pages() {
        let page = format!(
            "[a](b.md), [c](d/e.md#f){FENCE}\n[i](j){FENCE}\n![g](h.svg) [k](https://l) [m](#n)"
        );
        assert_eq!(links(&page), ["b.md", "d/e.md", "h.svg"]);
    }

    #[test]
    fn paths_of_sources_are_found_in_text() {
        let text =
            "See `xtask/src/main.rs`, `main.rs`, `dump/src/`, `no/src/a.rs` and `cli/src/NAME.rs`.";
        assert_eq!(named(text), ["xtask/src/main.rs", "dump/src/"]);
        assert_eq!(
            named("`dump/src/{plan,gone}.rs`"),
            ["dump/src/plan.rs", "dump/src/gone.rs"]
        );
    }

    #[test]
    fn braces_stand_for_several() {
        assert_eq!(expanded("a/{b,c}/{d,e}.rs").len(), 4);
        assert_eq!(expanded("a/b.rs"), ["a/b.rs"]);
    }
}
