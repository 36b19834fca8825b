//! Cases about the source tree: formatting, lints, unit tests, documents.

pub mod messages;
pub mod named_paths;
pub mod prose;
pub mod specification;
pub mod style;
