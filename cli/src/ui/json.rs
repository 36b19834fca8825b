//! The output of `--json`: one object with the version of its schema.

use serde_json::Value;

/// Schema version. It grows when a member is removed or changes its meaning, not when one is added.
const SCHEMA_VERSION: u32 = 1;

/// Prints an object with its `schema_version`.
pub fn print(mut object: Value) {
    object["schema_version"] = SCHEMA_VERSION.into();
    say!("{object:#}");
}
