//! The collective operations that `--reduce` reduces to messages.
//!
//! A [`Selection`] is what the flag says. The command checks it, the upper half looks calls up in it, and `stasis
//! bisect` makes smaller ones ([`bisect`]).

#![forbid(unsafe_code)]

pub mod bisect;
mod function;
mod selection;

pub use function::Function;
pub use selection::{Algorithm, Selection, Term, Unknown};
