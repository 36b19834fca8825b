//! What `--json` prints: one object, which says by which version of its schema it is to be read.

use serde_json::Value;

/// Grows when a member that was there is gone or has come to mean something else, not when one is
/// added.
const SCHEMA_VERSION: u32 = 1;

/// Prints an object with its `schema_version`.
pub fn print(mut object: Value) {
    object["schema_version"] = SCHEMA_VERSION.into();
    say!("{object:#}");
}
