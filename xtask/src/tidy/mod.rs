//! Facts about the source tree that tests check: its structure, its crates, its environment variables.

pub mod crates;
pub mod structure;
pub mod variables;
pub mod vector_registers;
