//! Builds the test programs and runs them under `stasis-load`.
#![allow(dead_code)] // each test file uses a part

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

/// A name in a directory, as an argument.
pub fn path_in(directory: &tempfile::TempDir, name: &str) -> String {
    let path = directory.path().join(name);
    path.to_str().expect("UTF-8").to_owned()
}

static BUILDING: Mutex<()> = Mutex::new(());

/// The example binary, which `cargo test` builds beside the tests.
pub fn loader() -> PathBuf {
    let own = std::env::current_exe().expect("own path");
    let target = own.ancestors().nth(2).expect("target directory");
    let path = target.join("examples/stasis-load");
    assert!(
        path.exists(),
        "{} is missing: cargo build --example stasis-load",
        path.display()
    );
    path
}

/// Compiles `tests/programs/<source>` (once per change) and returns the program.
pub fn build(source: &str, compiler: &str, flags: &[&str]) -> PathBuf {
    let _one_at_a_time = BUILDING
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/programs")
        .join(source);
    let stem = source.split('.').next().expect("a name");
    let kind: String = flags
        .join("")
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{stem}-{kind}"));
    let changed = |p: &Path| p.metadata().and_then(|m| m.modified()).ok();
    if changed(&to) > changed(&from) {
        return to;
    }
    let fresh = to.with_extension(std::process::id().to_string());
    let status = Command::new(compiler)
        .args(["-O1", "-w", "-o"])
        .arg(&fresh)
        .arg(&from)
        .args(flags)
        .status()
        .unwrap_or_else(|e| panic!("{compiler} is needed: {e}"));
    assert!(status.success(), "{compiler} {source}");
    std::fs::rename(&fresh, &to).expect("put the program in place");
    to
}

/// The twelve-thread program.
pub fn threads() -> PathBuf {
    build("threads.c", "gcc", &["-pthread", "-lm"])
}

/// The program that crosses to the lower half.
pub fn crossing() -> PathBuf {
    build("crossing.c", "gcc", &["-pthread"])
}

/// The program that tests the calls emulated by the loader.
pub fn system() -> PathBuf {
    build("system.c", "gcc", &["-pthread"])
}

/// The program that tests patched system calls.
pub fn sites() -> PathBuf {
    build("sites.c", "gcc", &["-pthread"])
}

/// A command that runs `stasis-load` with a limit of one minute.
pub fn stasis_load(args: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command
        .arg("60")
        .arg(loader())
        .args(args)
        .env("RUST_BACKTRACE", "0");
    command
}

/// Runs the command and returns stdout, which must end with `expected`; the exit status must be 0.
pub fn expect(mut command: Command, expected: &str) -> String {
    let output = command.output().expect("run");
    let text = describe(&output);
    assert!(output.status.success(), "{command:?}: {text}");
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(out.trim_end().ends_with(expected), "{command:?}: {text}");
    out
}

/// Full description of a finished process, for messages.
pub fn describe(output: &Output) -> String {
    format!(
        "{}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
