//! Lists of test programs in the form of MPICH's suite. In a file `testlist` of each folder, a line is
//!
//! ```text
//! program ranks [arg=WORD ...] [env=NAME=VALUE ...] [resultTest=HOW] [timeLimit=SECONDS] [mem=GIB]
//! folder
//! ```
//!
//! with `#` before a remark. Other options concern MPICH itself and are ignored, as are words that are not options:
//! MPICH's lists have some.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const FILE: &str = "testlist";

/// A program of the suite with its start options.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Folder below the suite's, as in `threads/pt2pt`.
    pub folder: String,
    /// `folder/program`, with a suffix `.2` and so on if a list names a program again.
    pub name: String,
    /// File of the program.
    pub program: PathBuf,
    /// Number of ranks.
    pub ranks: usize,
    /// Arguments.
    pub arguments: Vec<String>,
    /// Environment variables.
    pub environment: Vec<(String, String)>,
    /// Criterion of success.
    pub success: Success,
    /// Time limit of the list, if any.
    pub limit: Option<Duration>,
    /// GiB of memory that the program needs, if listed.
    pub memory: f64,
}

/// Criterion of a successful run.
#[derive(Clone, Debug, PartialEq)]
pub enum Success {
    /// Exit code 0 and ` No Errors` in the output.
    NoErrors,
    /// `TestStatus`: an exit code other than 0.
    Failure,
    /// `TestStatusNoErrors`: an exit code other than 0, and ` No Errors` in the output.
    FailureNoErrors,
    /// A criterion that only the suite's own scripts implement.
    Unknown(String),
}

/// All entries of the folder and of those that its list names, in order.
pub fn collect(suite: &Path) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    add_folder(suite, "", &mut entries)?;
    Ok(entries)
}

fn add_folder(suite: &Path, folder: &str, entries: &mut Vec<Entry>) -> Result<()> {
    let dir = suite.join(folder);
    let list = dir.join(FILE);
    let text = fs::read_to_string(&list).with_context(|| format!("reading {}", list.display()))?;
    let mut seen = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let inner = join(folder, line);
        if !line.contains(char::is_whitespace) && suite.join(&inner).join(FILE).is_file() {
            add_folder(suite, &inner, entries)?;
            continue;
        }
        let mut entry = parse(line, folder)
            .with_context(|| format!("{} line {}", list.display(), number + 1))?;
        entry.program = suite.join(&entry.name);
        let times: &mut u32 = seen.entry(entry.name.clone()).or_default();
        *times += 1;
        if *times > 1 {
            entry.name = format!("{}.{times}", entry.name);
        }
        entries.push(entry);
    }
    Ok(())
}

fn join(folder: &str, name: &str) -> String {
    match folder {
        "" => name.to_owned(),
        folder => format!("{folder}/{name}"),
    }
}

fn parse(line: &str, folder: &str) -> Result<Entry> {
    let mut words = line.split_whitespace();
    let program = words.next().unwrap_or_default();
    let ranks = words.next().and_then(|word| word.parse().ok());
    let mut entry = Entry {
        folder: folder.to_owned(),
        name: join(folder, program),
        program: PathBuf::new(),
        // Without a number of ranks, any number is valid.
        ranks: ranks.unwrap_or(2),
        arguments: Vec::new(),
        environment: Vec::new(),
        success: Success::NoErrors,
        limit: None,
        memory: 0.0,
    };
    for word in words {
        let Some((key, value)) = word.split_once('=') else {
            continue;
        };
        match key {
            "arg" => entry.arguments.push(value.to_owned()),
            "env" => {
                let (name, value) = value
                    .split_once('=')
                    .with_context(|| format!("'{word}' is no env=NAME=VALUE"))?;
                entry.environment.push((name.to_owned(), value.to_owned()));
            }
            "resultTest" => {
                entry.success = match value {
                    "TestStatus" => Success::Failure,
                    "TestStatusNoErrors" => Success::FailureNoErrors,
                    other => Success::Unknown(other.to_owned()),
                }
            }
            "timeLimit" => entry.limit = Some(Duration::from_secs(value.parse()?)),
            "mem" => entry.memory = value.parse()?,
            _ => {}
        }
    }
    Ok(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_a_program_is_run() {
        let line =
            "send 4 some/send arg=-type=MPI_INT arg=7 env=A=b=c mpiversion=3.1 timeLimit=60 mem=1.5 xfail=x";
        let entry = parse(line, "pt2pt").unwrap();
        assert_eq!((entry.name.as_str(), entry.ranks), ("pt2pt/send", 4));
        assert_eq!(entry.arguments, ["-type=MPI_INT", "7"]);
        assert_eq!(entry.environment, [("A".to_owned(), "b=c".to_owned())]);
        assert_eq!(entry.limit, Some(Duration::from_secs(60)));
        assert_eq!(entry.success, Success::NoErrors);
        assert!(entry.memory > 1.4);
    }

    #[test]
    fn success_is_what_the_list_says() {
        let of = |line| parse(line, "").unwrap().success;
        assert_eq!(of("a 1 resultTest=TestStatus"), Success::Failure);
        assert_eq!(
            of("a 1 resultTest=TestStatusNoErrors"),
            Success::FailureNoErrors
        );
        assert_eq!(
            of("a 1 resultTest=TestAllErrors"),
            Success::Unknown("TestAllErrors".into())
        );
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (line, named) in [("a 2 env=X", "env=X"), ("a 2 mem=x", "float")] {
            let error = format!("{:#}", parse(line, "").unwrap_err());
            assert!(error.contains(named), "{line}: {error}");
        }
    }

    #[test]
    fn folders_are_entered_where_they_are_named() {
        let suite = std::env::temp_dir().join(format!("stasis-testlist-{}", std::process::id()));
        fs::create_dir_all(suite.join("in/deep")).unwrap();
        let write = |name: &str, text: &str| fs::write(suite.join(name), text).unwrap();
        write("testlist", "# all\nfirst 1\nin\nlast\n");
        write("in/testlist", "a 2\n\na 3 arg=x\ndeep\n");
        write("in/deep/testlist", "b 2\n");
        let entries = collect(&suite).unwrap();
        let names: Vec<_> = entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["first", "in/a", "in/a.2", "in/deep/b", "last"]);
        assert_eq!(entries[2].program, suite.join("in/a"));
        assert_eq!(entries[3].folder, "in/deep");
        fs::remove_dir_all(suite).unwrap();
    }
}
