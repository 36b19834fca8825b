//! `stasis stacks`: in which functions all threads of a running job are.

use coordinator::protocol::WantedStacks;
use serde_json::json;

use crate::args::Stacks;
use crate::commands::checkpoint;
use crate::explain::stacks;
use crate::ui::{exit, json as output};

/// Runs the command.
pub fn run(options: &Stacks) -> exit::Result<()> {
    let directory = options.job.directory()?;
    let wanted = match options.lines {
        true => WantedStacks::Lines,
        false => WantedStacks::All,
    };
    let (tree, silent) = stacks::ask(&directory, None, wanted).map_err(checkpoint::failure)?;
    if options.job.json {
        output::print(json!({
            "stacks": tree.to_json(),
            "no_answer": silent.iter().collect::<Vec<_>>(),
        }));
        return Ok(());
    }
    let lines = stacks::lines(&tree, &silent);
    lines.iter().for_each(|line| say!("{line}"));
    Ok(())
}
