//! `stasis report`: a page about what has happened to a job.

use std::fs;
use std::path::PathBuf;

use anyhow::{anyhow, Context};
use coordinator::client::Client;
use history::last_seen;
use serde_json::json;

use crate::args::Report;
use crate::report::{page, Story};
use crate::ui::exit::{self, Code, WithCode};
use crate::ui::json;

/// Name of the page in the checkpoint directory.
const PAGE: &str = "report.html";

/// Runs the command.
pub fn run(options: &Report) -> exit::Result<()> {
    let directory = options.job.existing_directory()?;
    let history = history::file::read(&directory)
        .with_context(|| format!("cannot read the history in {}", directory.display()))
        .code(Code::Directory)?;
    if history.entries.is_empty() {
        return Err(anyhow!(
            "{} has no history ({}): no job of this version of Stasis has run there",
            directory.display(),
            history::file::NAME
        ))
        .code(Code::Directory);
    }
    let mut story = Story::of(&history.entries);
    match Client::connect(&directory).is_ok() {
        true => story.goes_on(history::event::now()),
        false => story.ends(last_seen::unnoted_end(&directory, &history.entries)),
    }
    let file: PathBuf = options
        .output
        .clone()
        .unwrap_or_else(|| directory.join(PAGE));
    let page = page(&directory.display().to_string(), &story);
    fs::write(&file, page)
        .with_context(|| format!("cannot write {}", file.display()))
        .code(Code::Directory)?;
    match options.job.json {
        true => json::print(json!({
            "directory": directory,
            "page": file,
            "unreadable_lines": history.unreadable,
            "figures": story.figures().to_json(),
        })),
        false => say!("{}", file.display()),
    }
    Ok(())
}
