//! Formatting, lints and unit tests.

use crate::build::setup::{cargo_command, lend_crates};
use crate::docs;
use crate::harness::job;
use crate::harness::mpi::Mpi;
use crate::test::source::{messages, named_paths, prose, specification};
use crate::test::{Case, Outcome, Skipped};
use crate::tidy::{crates, structure, variables, vector_registers};
use anyhow::{ensure, Result};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Time limit for a build from scratch on two shared cores.
const BUILD_LIMIT: Duration = Duration::from_secs(1800);
/// Time limit for the tests of a build.
const LIMIT: Duration = Duration::from_secs(600);
/// Time limit for the long suites of `--full`.
const LONG_LIMIT: Duration = Duration::from_secs(7200);
/// The lower half is built per MPI library, all other crates once.
const WITHOUT_LOWER: [&str; 3] = ["--workspace", "--exclude", "stasis-lower-half"];
const LOWER: [&str; 2] = ["-p", "stasis-lower-half"];

/// All cases of this file; with `full`, also the long tests.
pub fn cases(full: bool) -> Vec<Case> {
    let mut cases = vec![
        check("style/fmt", None, &["fmt", "--all", "--check"]),
        check("style/clippy", None, &clippy(&WITHOUT_LOWER)),
        rustdoc(),
        Case::new("style/structure", |_, _| structure::check().into()),
        Case::new("style/function-page", |_, _| docs::check().into()),
        Case::new("style/rust-version", |_, _| {
            crates::check_rust_version().into()
        }),
        Case::new("style/system-calls", |_, _| {
            docs::check_system_calls().into()
        }),
        Case::new("style/json-page", |_, _| docs::check_json().into()),
        Case::new("style/vector-registers", |_, _| {
            vector_registers::check().into()
        }),
        Case::new("style/environment", |_, _| variables::check().into()),
        Case::new("style/named-paths", |_, _| named_paths::check().into()),
        Case::new("style/messages", |_, _| messages::check().into()),
        Case::new("style/prose", |_, _| prose::check().into()),
        Case::new("style/specification", |_, _| specification::check().into()),
        suite("unit/workspace", None, &WITHOUT_LOWER),
        // nextest leaves them out.
        check(
            "unit/documentation",
            None,
            &[&["test", "--quiet", "--doc"][..], &WITHOUT_LOWER].concat(),
        ),
    ];
    let lower = Case::new("style/clippy-lower", |_, dir| lint_lower_halves(dir).into());
    cases.push(lower.that_builds());
    // Few of these tests call the library, and each library needs a separate build.
    cases.push(suite("unit/lower-openmpi", Some(Mpi::OpenMpi), &LOWER));
    if full {
        cases.push(suite("unit/lower-mpich", Some(Mpi::Mpich), &LOWER));
    }
    if full {
        for (name, tests) in LONG {
            let long = Case::new(name, move |_, dir| long_tests(dir, tests));
            cases.push(long.that_builds());
        }
    }
    cases
}

/// Cases of tests that take minutes: every program of the larger sizes under every interleaving
/// (`coordinator/tests/protocol/all_programs.rs`), and the machines of recovery for nine ranks.
const LONG: [(&str, &[&str]); 2] = [
    (
        "unit/protocol-long",
        &["--package=stasis-coordinator", "--test=protocol"],
    ),
    ("unit/recovery-long", &["--package=stasis-supervisor"]),
];

fn long_tests(dir: &Path, tests: &[&str]) -> Outcome {
    let how = ["--ignored", "--nocapture", "--test-threads=1"];
    let arguments = [&["test", "--release"], tests, &["--"], &how].concat();
    job::run(cargo_command(None, &arguments), dir, "cargo", LONG_LIMIT)
        .and_then(|finished| finished.expect_success("cargo test"))
        .map(|_| ())
        .into()
}

fn clippy(packages: &[&'static str]) -> Vec<&'static str> {
    let mut arguments = vec!["clippy", "--quiet", "--all-targets"];
    arguments.extend(packages);
    arguments.extend(["--", "-D", "warnings"]);
    arguments
}

/// The lints of the lower half for each library, one after the other, so that each has the crates of the one before.
fn lint_lower_halves(dir: &Path) -> Result<()> {
    // The release profile reuses the bindings of mpi.h from the build of the lower half.
    let released = [&["--release"][..], &LOWER].concat();
    for mpi in [Mpi::OpenMpi, Mpi::Mpich, Mpi::Standard] {
        lend_crates(mpi)?;
        let command = cargo_command(Some(mpi), &clippy(&released));
        job::run(command, dir, mpi.name(), BUILD_LIMIT)?.expect_success(mpi.name())?;
    }
    Ok(())
}

/// Links in the documentation of all crates. One to a private item is for readers of the source.
fn rustdoc() -> Case {
    let arguments = [&["doc", "--quiet", "--no-deps"][..], &WITHOUT_LOWER].concat();
    let mut command = cargo_command(None, &arguments);
    let flags = "-D warnings -A rustdoc::private_intra_doc_links";
    command.env("RUSTDOCFLAGS", flags);
    succeeds("style/rustdoc", command)
}

fn check(name: &str, lower: Option<Mpi>, arguments: &[&str]) -> Case {
    succeeds(name, cargo_command(lower, arguments))
}

/// A cargo command that must succeed.
fn succeeds(name: &str, command: Command) -> Case {
    Case::new(name, move |_, dir| {
        job::run(command, dir, "cargo", BUILD_LIMIT)
            .and_then(|finished| finished.expect_success("cargo"))
            .map(|_| ())
            .into()
    })
    .that_builds()
}

/// A test suite, of which each test counts.
fn suite(name: &str, lower: Option<Mpi>, packages: &'static [&'static str]) -> Case {
    Case::new(name, move |_, dir| {
        run_suite(lower, packages, dir).unwrap_or_else(|error| Err(error).into())
    })
    .that_builds()
}

fn run_suite(lower: Option<Mpi>, packages: &[&str], dir: &Path) -> Result<Outcome> {
    let (program, how): (&[&str], &[&str]) = match has_nextest() {
        true => (&["nextest", "run"], &["--no-tests=fail", "--color=never"]),
        false => (&["test"], &[]),
    };
    let building = [program, &["--no-run"], packages].concat();
    job::run(cargo_command(lower, &building), dir, "build", BUILD_LIMIT)?
        .expect_success("cargo")?;
    let arguments = [program, &["--no-fail-fast"], how, packages].concat();
    let mut command = cargo_command(lower, &arguments);
    let skipped = dir.join("skipped");
    command.env(skip::VARIABLE, &skipped);
    let finished = job::run(command, dir, "cargo", LIMIT)?;
    let text = format!("{}\n{}", finished.stdout, finished.stderr);
    let (passed, failed) = counts(&text);
    ensure!(
        passed + failed > 0,
        "it has run no test:\n{}",
        job::tail(&text, 40)
    );
    if finished.status.success() && failed == 0 {
        let skipped = skipped_tests(&fs::read_to_string(skipped).unwrap_or_default());
        return Ok(Outcome::Suite(
            passed.saturating_sub(skipped.len()),
            skipped,
        ));
    }
    Ok(Outcome::Failed(
        passed,
        failed.max(1),
        format!("cargo {}\n{}", arguments.join(" "), job::tail(&text, 40)),
    ))
}

/// Tests skipped by `skip!`, with their reasons.
fn skipped_tests(lines: &str) -> Vec<Skipped> {
    let parts = lines.lines().filter_map(|line| line.split_once(": "));
    parts
        .map(|(test, why)| (test.to_owned(), why.to_owned()))
        .collect()
}

fn has_nextest() -> bool {
    Command::new("cargo")
        .args(["nextest", "--version"])
        .output()
        .is_ok_and(|output| output.status.success())
}

/// Sums "N passed" and "N failed" over the summary lines of `cargo test` or nextest.
fn counts(text: &str) -> (usize, usize) {
    let mut sums = (0, 0);
    for line in text.lines() {
        let line = line.trim_start();
        if !line.starts_with("test result:") && !line.starts_with("Summary [") {
            continue;
        }
        let words: Vec<&str> = line
            .split([' ', ';', ','])
            .filter(|w| !w.is_empty())
            .collect();
        for pair in words.windows(2) {
            if let Ok(n) = pair[0].parse::<usize>() {
                match pair[1] {
                    "passed" => sums.0 += n,
                    "failed" => sums.1 += n,
                    _ => {}
                }
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::counts;

    #[test]
    fn both_summaries_are_read() {
        let cargo = "test result: ok. 3 passed; 0 failed; 0 ignored\ntest result: FAILED. 1 passed; 2 failed; 0 ignored";
        assert_eq!(counts(cargo), (4, 2));
        let nextest = "     Summary [   0.012s] 12 tests run: 11 passed, 1 failed, 0 skipped";
        assert_eq!(counts(nextest), (11, 1));
    }
}
