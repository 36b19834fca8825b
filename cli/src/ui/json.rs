//! The output of `--json`: one object with the version of its schema.

use std::sync::atomic::{AtomicBool, Ordering};

use launcher::message;
use serde_json::{json, Value};

use crate::ui::exit::{Code, Failure};

/// Schema version. It grows when a member is removed or changes its meaning, not when one is added.
const SCHEMA_VERSION: u32 = 1;

/// Whether an object was printed: there is one for each command.
static PRINTED: AtomicBool = AtomicBool::new(false);

/// Prints an object with its `schema_version`.
pub fn print(mut object: Value) {
    object["schema_version"] = SCHEMA_VERSION.into();
    PRINTED.store(true, Ordering::Relaxed);
    say!("{object:#}");
}

/// Prints the reason why a command has failed, if it has not printed its result.
pub fn print_failure(failure: &Failure) {
    if !PRINTED.load(Ordering::Relaxed) {
        print_error(&message::reasons(failure.error.as_ref()), failure.code);
    }
}

/// Prints the reason why a command line is wrong, from the message.
pub fn print_wrong_usage(message: &str) {
    print_error(&reason(message), Code::Usage);
}

/// The first paragraph of a message about a command line, without `error: `. Missing arguments have a line each.
fn reason(message: &str) -> String {
    let lines = message.lines().take_while(|line| !line.trim().is_empty());
    let words: Vec<&str> = lines.map(str::trim).collect();
    let text = words.join(" ");
    text.strip_prefix("error: ").unwrap_or(&text).to_owned()
}

/// A duration in microseconds as outputs have it.
pub fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

fn print_error(reason: &str, code: Code) {
    print(json!({ "error": reason, "exit_code": code.number() }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_arguments_are_named() {
        let message =
            "error: these were not provided:\n  <A>\n  <B>\n\nUsage: stasis diff <A> <B>\n";
        assert_eq!(reason(message), "these were not provided: <A> <B>");
    }
}
