//! `stasis completions`: scripts for the completion of commands and flags in shells, generated from the table of flags
//! (`args/mod.rs`).

use clap::CommandFactory;

use crate::args::{Arguments, Completions};
use crate::ui::{exit, output};

/// Runs the command.
pub fn run(options: &Completions) -> exit::Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(
        options.shell,
        &mut Arguments::command(),
        "stasis",
        &mut text,
    );
    output::bytes(&text);
    Ok(())
}
