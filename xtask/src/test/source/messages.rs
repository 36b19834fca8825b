//! Messages that the guide explains: the sources have their words.

use super::prose::git;
use crate::harness::paths;
use anyhow::{ensure, Context, Result};
use std::fs;

const GUIDE: &str = "docs/guide.md";
/// Heading of the table of messages.
const TABLE: &str = "\n## When something goes wrong\n";
/// Sources without messages of the product.
const TESTS: &str = "xtask/";
/// Words that belong to the examples which the guide gives.
const EXAMPLES: [&str; 2] = ["ck", "rank"];
/// Shortest piece of a message that tells anything, in characters.
const SHORTEST: usize = 4;

/// Fails with a line for each message of which a piece is in no source.
pub fn check() -> Result<()> {
    let guide = fs::read_to_string(paths::root().join(GUIDE))?;
    let table = guide.split_once(TABLE).context(TABLE)?.1;
    let mut sources = String::new();
    let files = git(&["ls-files", "*.rs"])?;
    for file in files.lines().filter(|file| !file.starts_with(TESTS)) {
        sources += &joined(&fs::read_to_string(paths::root().join(file))?);
    }
    let messages = messages(table);
    ensure!(messages.len() > 10, "the table of messages is not found");
    let wrong: Vec<String> = messages
        .iter()
        .flat_map(|message| {
            pieces(message)
                .into_iter()
                .map(move |piece| (message, piece))
        })
        .filter(|(_, piece)| !sources.contains(piece.as_str()))
        .map(|(message, piece)| format!("no source has '{piece}' of the message '{message}'"))
        .collect();
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// A source whose string literals are not continued over lines.
fn joined(source: &str) -> String {
    let mut parts = source.split("\\\n");
    let mut joined = parts.next().unwrap_or_default().to_owned();
    parts.for_each(|part| joined += part.trim_start());
    joined
}

/// The messages in the first column of a table.
fn messages(table: &str) -> Vec<String> {
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.filter_map(|row| row.split_once(" | "));
    let quoted = cells.flat_map(|(cell, _)| cell.split('`').step_by(2));
    quoted.map(str::to_owned).collect()
}

/// The pieces of a message between what differs from case to case: words that are left out, numbers, names.
fn pieces(message: &str) -> Vec<String> {
    let is_example = |word: &str| {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric());
        let is_number = bare.contains(|c: char| c.is_ascii_digit());
        word == "…" || is_number || bare.starts_with("MPI_File") || EXAMPLES.contains(&bare)
    };
    let mut pieces = vec![String::new()];
    for word in message.replace('…', " … ").split_whitespace() {
        match (is_example(word), pieces.last_mut()) {
            (false, Some(piece)) if piece.is_empty() => piece.push_str(word),
            (false, Some(piece)) => *piece += &format!(" {word}"),
            _ => pieces.push(String::new()),
        }
    }
    let ends = [':', ',', ';', '.'];
    let trimmed = pieces
        .iter()
        .map(|piece| piece.trim_matches(ends).to_owned());
    trimmed
        .filter(|piece| piece.chars().count() >= SHORTEST)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{joined, messages, pieces};

    #[test]
    fn messages_are_cut_at_what_differs() {
        let table =
            "| `rank 3 … has been stuck for 60 s`, `no job` | means `this` |\n| other | row |\n";
        let found = messages(table);
        assert_eq!(found, ["rank 3 … has been stuck for 60 s", "no job"]);
        assert_eq!(pieces(&found[0]), ["has been stuck for"]);
        assert_eq!(pieces("no job runs in ck"), ["no job runs in"]);
        assert_eq!(joined("say(\"a \\\n    b\")"), "say(\"a b\")");
    }
}
