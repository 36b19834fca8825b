//! Output: text, JSON, the progress bar, exit codes.

// The first module, because the others use its macro.
#[macro_use]
pub mod output;

pub mod exit;
pub mod functions;
pub mod json;
pub mod live;
pub mod progress_bar;
pub mod text;
