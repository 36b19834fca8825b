//! Reports a test that cannot run on this machine, because a library, a header or a privilege is missing.
//!
//! Rust's test harness knows only tests that pass and tests that fail, so a test that returns early looks like one
//! that has passed. [`skip!`] prints a line, and adds it to the file that [`VARIABLE`] names: `cargo xtask test`
//! reads it, lists the skipped tests, and fails where `.ci/run` asks for that and `.ci/skips` does not list one.

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;

/// Names the file to which skipped tests are added, each as a line `PACKAGE TEST: WHY`.
pub const VARIABLE: &str = "STASIS_TEST_SKIPPED";

/// Ends the calling test and reports the reason: `skip!("no io_uring: {error}")`. Must be used in the test function.
#[macro_export]
macro_rules! skip {
    ($($why:tt)+) => {{
        fn here() {}
        let here = ::std::any::type_name_of_val(&here);
        $crate::tell(env!("CARGO_PKG_NAME"), here, format_args!($($why)+));
        return;
    }};
}

/// Implementation of [`skip!`], with the name of a function inside the test.
#[doc(hidden)]
pub fn tell(package: &str, here: &str, why: impl Display) {
    let test = here.strip_suffix("::here").unwrap_or(here);
    let line = format!("{package} {test}: {why}");
    eprintln!("skipped: {line}");
    if let Some(file) = std::env::var_os(VARIABLE) {
        let file = OpenOptions::new().append(true).create(true).open(file);
        let mut file = file.expect("the file of skipped tests can be written");
        // One write, because other tests append at the same time.
        file.write_all(format!("{}\n", line.replace('\n', " ")).as_bytes())
            .expect("the file of skipped tests can be written");
    }
}
