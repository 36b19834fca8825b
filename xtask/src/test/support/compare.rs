//! The comparison of an uninterrupted native run with a run that was cut.

use crate::harness::job;
use anyhow::{bail, Result};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Kind of comparison.
#[derive(Clone, Debug, PartialEq)]
pub enum Compare {
    /// Standard output, byte by byte.
    Stdout,
    /// The exit status alone, for programs that print times or check errors of the library itself. There is no native
    /// run then.
    Nothing,
    /// Files of the program; `stdout` is one.
    Files(Vec<FilePart>),
}

/// A file, or part of it.
#[derive(Clone, Debug, PartialEq)]
pub enum FilePart {
    /// The whole file.
    Bytes(String),
    /// Lines of numbers only.
    Numbers(String),
    /// Lines with a text.
    Lines(String, String),
}

impl FromStr for Compare {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "stdout" => Compare::Stdout,
            "none" => Compare::Nothing,
            _ => Compare::Files(text.split(',').map(str::parse).collect::<Result<_>>()?),
        })
    }
}

impl FromStr for FilePart {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        if let Some(file) = text.strip_prefix("bytes of ") {
            Ok(FilePart::Bytes(file.to_owned()))
        } else if let Some(file) = text.strip_prefix("numbers of ") {
            Ok(FilePart::Numbers(file.to_owned()))
        } else if let Some((file, with)) = text
            .strip_prefix("lines of ")
            .and_then(|rest| rest.split_once(" with "))
        {
            Ok(FilePart::Lines(file.to_owned(), with.to_owned()))
        } else {
            bail!("'{text}' is no 'bytes of FILE', 'numbers of FILE' or 'lines of FILE with TEXT'")
        }
    }
}

/// Lines of a text with numbers only, at least two.
pub fn number_lines(text: &str) -> Vec<&str> {
    text.lines()
        .filter(|line| {
            let mut words = line.split_whitespace().peekable();
            words.peek().is_some()
                && line.split_whitespace().count() > 1
                && words.all(|word| word.parse::<f64>().is_ok())
        })
        .collect()
}

impl Compare {
    /// Compares the folder of the native run, `run.out` and `work/`, with that of a run with a cut: its `work/`, and
    /// the output of each of its starts, in order.
    pub fn runs(&self, native: &Path, ours: &Path, starts: &[PathBuf]) -> Result<()> {
        match self {
            Compare::Stdout => {
                let printed: Vec<String> = starts.iter().map(|path| job::read_text(path)).collect();
                pieces(&job::read_text(&native.join("run.out")), &printed)
            }
            Compare::Nothing => Ok(()),
            Compare::Files(parts) => parts.iter().try_for_each(|part| match part.name() {
                "stdout" => part.compare_printed(&native.join("run.out"), starts),
                _ => part.compare(&native.join("work"), &ours.join("work")),
            }),
        }
    }
}

impl FilePart {
    fn compare(&self, native: &Path, ours: &Path) -> Result<()> {
        let name = self.name();
        let (expected, got) = (
            job::read_text(&native.join(name)),
            job::read_text(&ours.join(name)),
        );
        let (expected, got) = (self.lines(&expected), self.lines(&got));
        if expected.is_empty() {
            bail!("{name}: the native run wrote nothing to compare");
        }
        if let Some(at) =
            (0..expected.len().max(got.len())).find(|i| expected.get(*i) != got.get(*i))
        {
            bail!(
                "{name} differs from the native run, first in line {} of {}:\n    native: {}\n    stasis: {}",
                at + 1,
                expected.len(),
                expected.get(at).unwrap_or(&"(no such line)"),
                got.get(at).unwrap_or(&"(no such line)")
            );
        }
        Ok(())
    }

    /// Compares a part of standard output, which the starts have printed in pieces.
    fn compare_printed(&self, native: &Path, starts: &[PathBuf]) -> Result<()> {
        let part = |path: &Path| -> String {
            let text = job::read_text(path);
            let lines = self.lines(&text);
            lines.iter().map(|line| format!("{line}\n")).collect()
        };
        let expected = part(native);
        if expected.is_empty() {
            bail!("stdout: the native run printed nothing to compare");
        }
        let printed: Vec<String> = starts.iter().map(|path| part(path)).collect();
        pieces(&expected, &printed)
    }

    /// Path of the file, relative to the program's directory.
    pub fn name(&self) -> &str {
        match self {
            FilePart::Bytes(name) | FilePart::Numbers(name) | FilePart::Lines(name, _) => name,
        }
    }

    /// Lines of the part in a file with this text.
    pub fn lines<'a>(&self, text: &'a str) -> Vec<&'a str> {
        match self {
            FilePart::Bytes(_) => text.lines().collect(),
            FilePart::Numbers(_) => number_lines(text),
            FilePart::Lines(_, with) => text.lines().filter(|line| line.contains(with)).collect(),
        }
    }
}

/// Checks that the pieces printed by a killed and restarted job make up the uninterrupted output: the first is a
/// beginning of it, the last an end, and nothing is missing between. A piece may repeat lines that were printed after
/// the checkpoint and before the kill.
fn pieces(expected: &str, pieces: &[String]) -> Result<()> {
    let mut covered = 0;
    for (i, piece) in pieces.iter().enumerate() {
        let last = i + 1 == pieces.len();
        let start = if last {
            expected.len().checked_sub(piece.len())
        } else if i == 0 {
            Some(0)
        } else {
            // A piece in the middle starts somewhere in the text so far.
            (0..=covered).rev().find(|at| {
                expected.is_char_boundary(*at) && expected[*at..].starts_with(piece.as_str())
            })
        };
        let fits = start.is_some_and(|at| {
            at <= covered
                && expected.is_char_boundary(at)
                && expected[at..].starts_with(piece.as_str())
        });
        if !fits {
            bail!(
                "part {} of the output does not fit the native run's:\n  native:\n{}  part {}:\n{}",
                i + 1,
                job::tail(expected, 12),
                i + 1,
                job::tail(piece, 12)
            );
        }
        covered = covered.max(start.unwrap_or(0) + piece.len());
    }
    if covered < expected.len() {
        bail!(
            "output is missing: {} of {} bytes, the native run's ends with\n{}",
            covered,
            expected.len(),
            job::tail(expected, 5)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(list: &[&str]) -> Vec<String> {
        list.iter().map(|s| (*s).to_owned()).collect()
    }

    #[test]
    fn pieces_must_cover_and_fit() {
        assert!(pieces("abcdef", &owned(&["abcdef"])).is_ok());
        assert!(pieces("abcdef", &owned(&["abc", "cdef"])).is_ok());
        assert!(pieces("abcdef", &owned(&["", "abcdef"])).is_ok());
        assert!(pieces("abcdef", &owned(&["ab", "bcd", "def"])).is_ok());
        assert!(pieces("abcdef", &owned(&["ab", "def"])).is_err());
        assert!(pieces("abcdef", &owned(&["abx", "def"])).is_err());
        assert!(pieces("abcdef", &owned(&["abc", "defg"])).is_err());
        assert!(pieces("abcdef", &owned(&["abcde"])).is_err());
    }

    #[test]
    fn number_lines_are_numbers_only() {
        let text = "Step Temp\n 0 1.5 -2e3\nrun 5\n7\n250 nan 3\n";
        assert_eq!(number_lines(text), [" 0 1.5 -2e3", "250 nan 3"]);
    }
}
