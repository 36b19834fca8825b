//! The stasis command.

fn main() {}
