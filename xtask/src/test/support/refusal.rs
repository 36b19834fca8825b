//! Commands that must fail: their exit codes, and the words of their messages.

use crate::harness::job::{self, Finished};
use anyhow::{ensure, Result};

/// The command line's exit codes (`stasis --help`).
pub const DIRECTORY: i32 = 1;

pub const USAGE: i32 = 2;
pub const CANNOT_SERVE: i32 = 3;
pub const CHECKPOINT: i32 = 4;
pub const IMAGE: i32 = 5;
pub const NO_JOB: i32 = 6;
pub const UNFINISHED: i32 = 7;

/// Fails unless the command failed with this code and a message with one word of each group.
pub fn refused(finished: &Finished, expected: i32, words: &[&[&str]]) -> Result<()> {
    let text = format!("{}{}", finished.stdout, finished.stderr);
    let lower = text.to_lowercase();
    let code = finished.status.code();
    ensure!(
        code == Some(expected),
        "ends with {}, should end with code {expected}\n{}",
        finished.status,
        job::tail(&text, 10)
    );
    ensure!(
        !lower.contains("panicked"),
        "it panicked\n{}",
        job::tail(&text, 10)
    );
    for group in words {
        ensure!(
            group
                .iter()
                .any(|word| lower.contains(&word.to_lowercase())),
            "the message says none of {group:?}:\n{}",
            job::tail(&text, 10)
        );
    }
    Ok(())
}
