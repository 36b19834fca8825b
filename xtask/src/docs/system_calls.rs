//! `docs/system-calls.md`: every system call of x86-64 and its treatment by the loader, from the tables of the loader.
//! `loader/src/interpose/syscalls/mod.rs` describes the comments in them.

use crate::harness::paths;
use crate::tidy::crates;
use anyhow::{bail, ensure, Context, Result};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;

const HANDLERS: &str = "loader/src/interpose/syscalls";
/// Path of the list of x86-64 calls in the crate `libc`.
const NUMBERS: &str = "src/unix/linux_like/linux/gnu/b64/x86_64/not_x32.rs";
const HEAD: &str = "\
# System calls

Every system call of Linux on x86-64, and what becomes of it when the application makes it. The calls of the lower half
and its MPI library do not come here: the kernel serves them as of any program. This page is generated from
`loader/src/interpose/syscalls` by `cargo xtask docs`; `style/system-calls` fails when it is not what the sources say.

- *passed*: the kernel serves the call as the application made it. What it changes is in the application's memory, or
  is asked of the kernel at a checkpoint, which is refused where no image can hold it ([not-supported.md](not-supported.md)).
  Calls that are not in this list are passed, too.
- *served*: the loader does what is said here before or after the kernel's part, or all of it.
- *refused*: the call fails with an error that says that this kernel does not have it.

The clocks are mostly read without a system call, through the vDSO: `loader/src/load/vdso.rs`.
";

/// Treatment of a call with a handler: place in the tables, and comment.
struct Served {
    file: String,
    /// Number of a call that `libc` does not list.
    number: Option<usize>,
    why: String,
}

/// The page generated from the sources.
pub fn page() -> Result<String> {
    let mut served = served()?;
    let mut rows = String::new();
    let mut counts = BTreeMap::from([("passed", 0), ("served", 0), ("refused", 0)]);
    let mut numbers = numbers()?;
    let unlisted = served.iter();
    numbers.extend(unlisted.filter_map(|(name, one)| Some((one.number?, name.clone()))));
    for (number, name) in &numbers {
        let (what, why) = match served.remove(name) {
            None => ("passed", String::new()),
            Some(Served { file, why, .. }) => (state(&why), format!("{why} (`{file}`)")),
        };
        *counts.entry(what).or_default() += 1;
        writeln!(rows, "| {number} | `{name}` | {what} | {why} |")?;
    }
    let unknown: Vec<_> = served.keys().collect();
    ensure!(unknown.is_empty(), "libc has no numbers for {unknown:?}");
    let mut page = String::from(HEAD);
    writeln!(
        page,
        "\nOf {} calls {} are passed, {} served and {} refused.\n",
        numbers.len(),
        counts["passed"],
        counts["served"],
        counts["refused"]
    )?;
    page.push_str("| number | call | | why |\n|---|---|---|---|\n");
    page.push_str(&rows);
    Ok(page)
}

/// Treatment of calls, from a comment of the tables.
fn state(why: &str) -> &'static str {
    match why.split([' ', ',', ':']).next() {
        Some("Refused") => "refused",
        Some("Passed") => "passed",
        _ => "served",
    }
}

/// The calls of the platform, by number.
fn numbers() -> Result<BTreeMap<usize, String>> {
    let crates = crates::read()?;
    let libc = crates.all.iter().find(|one| one.name == "libc");
    let file = libc.context("no crate libc")?.folder.join(NUMBERS);
    let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let number = |line: &str| {
        let (name, number) = line
            .trim()
            .strip_prefix("pub const SYS_")?
            .split_once(": c_long = ")?;
        let number = number.strip_suffix(';')?.parse().ok()?;
        Some((number, name.to_owned()))
    };
    let numbers: BTreeMap<_, _> = text.lines().filter_map(number).collect();
    ensure!(numbers.len() > 300, "{} lists no calls", file.display());
    Ok(numbers)
}

/// The handlers of all topics, by the name of their call.
fn served() -> Result<BTreeMap<String, Served>> {
    let folder = paths::root().join(HANDLERS);
    let topics = fs::read_to_string(folder.join("mod.rs"))?;
    let topics = topics.lines().filter_map(|line| {
        let topic = line.trim().strip_suffix("::HANDLERS,")?;
        Some(topic.to_owned())
    });
    let mut served = BTreeMap::new();
    for topic in topics {
        let file = format!("{topic}.rs");
        let text = fs::read_to_string(folder.join(&file)).context(file.clone())?;
        let table = table(&text).with_context(|| format!("{HANDLERS}/{file}"))?;
        for ((name, number), why) in table {
            let file = file.clone();
            let one = Served { file, number, why };
            ensure!(served.insert(name.clone(), one).is_none(), "{name} twice");
        }
    }
    Ok(served)
}

/// Entries of a table, each with the comment above it or above its group.
fn table(text: &str) -> Result<Vec<(Call, String)>> {
    let start = ["const CALLS: ", "pub const HANDLERS: "];
    let at = start.iter().find_map(|start| text.find(start));
    let table = &text[at.context("there is no table")?..];
    let table = table.split_once("[\n").context("an empty table")?.1;
    let table = table.split_once("\n]").context("no end of the table")?.0;
    let mut entries = Vec::new();
    let (mut why, mut complete) = (String::new(), true);
    for line in table.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("// ") {
            if complete {
                why.clear();
            }
            let space = if why.is_empty() { "" } else { " " };
            write!(why, "{space}{comment}")?;
            complete = false;
            continue;
        }
        complete = true;
        ensure!(!why.is_empty(), "no comment says why {line} is served");
        entries.push((entry(line)?, why.clone()));
    }
    Ok(entries)
}

/// Name of a call, and its number if the table has it instead of the constant: of `(libc::SYS_name, handler),` or
/// `(453, handler), // SYS_name`.
type Call = (String, Option<usize>);

fn entry(line: &str) -> Result<Call> {
    let named = line.strip_prefix("(libc::SYS_");
    if let Some((name, _)) = named.and_then(|rest| rest.split_once(',')) {
        return Ok((name.to_owned(), None));
    }
    let number = line.strip_prefix('(').and_then(|rest| rest.split_once(','));
    match (number, line.split_once("// SYS_")) {
        (Some((number, _)), Some((_, name))) => Ok((name.to_owned(), Some(number.parse()?))),
        _ => bail!("'{line}' is no entry"),
    }
}

#[cfg(test)]
mod tests {
    use super::{state, table};

    const TABLE: &str = "\
pub const HANDLERS: &[(i64, Handler)] = &[
    // Refused with ENOSYS: of two
    // lines.
    (libc::SYS_one, absent),
    (600, absent), // SYS_two
    // Kept.
    (libc::SYS_three, three),
];";

    #[test]
    fn entries_have_the_comment_above_them() {
        let entries = table(TABLE).unwrap();
        let refused = "Refused with ENOSYS: of two lines.";
        let entry = |name: &str, number, why: &str| ((name.to_owned(), number), why.to_owned());
        let expected = [
            entry("one", None, refused),
            entry("two", Some(600), refused),
            entry("three", None, "Kept."),
        ];
        assert_eq!(entries, expected);
        assert_eq!([state(refused), state("Kept.")], ["refused", "served"]);
    }

    #[test]
    fn an_entry_without_a_reason_and_a_line_that_is_none_are_refused() {
        for line in ["(libc::SYS_one, one),", "// Kept.\n    one(),"] {
            let text = format!("pub const HANDLERS: &[(i64, Handler)] = &[\n    {line}\n];");
            assert!(table(&text).is_err(), "{line}");
        }
    }
}
