//! `stasis explain`: the waits of the ranks of a running job for each other, and whether it can ever go on.

use std::fs;

use anyhow::Context;

use crate::args::Explain;
use crate::commands::checkpoint;
use crate::explain::ask::ask;
use crate::explain::{json, svg, text};
use crate::ui::exit::{self, Code, WithCode};
use crate::ui::json as output;

/// Runs the command.
pub fn run(options: &Explain) -> exit::Result<()> {
    let directory = options.job.directory()?;
    let (job, verdict) = ask(&directory, None).map_err(checkpoint::failure)?;
    if let Some(file) = &options.svg {
        let written = fs::write(file, svg::picture(&job, &verdict));
        let written =
            written.with_context(|| format!("cannot write the picture {}", file.display()));
        written.code(Code::Usage)?;
    }
    match options.job.json {
        true => output::print(json::answer(&job, &verdict)),
        false => {
            let lines = text::lines(&job, &verdict);
            lines.iter().for_each(|line| say!("{line}"));
        }
    }
    Ok(())
}
