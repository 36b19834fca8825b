//! `stasis man`: manual pages, generated from the table of flags (`args/mod.rs`).

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};

use crate::args::{Arguments, Man};
use crate::ui::exit::{self, Code, WithCode};
use crate::ui::output;

/// Runs the command.
pub fn run(options: &Man) -> exit::Result<()> {
    let stasis = stasis();
    if let Some(directory) = &options.directory {
        return write_all(&stasis, directory).code(Code::Directory);
    }
    let command = match &options.command {
        None => &stasis,
        Some(name) => {
            let command = stasis.find_subcommand(name);
            let none = || format!("there is no command {name}: see stasis --help");
            command.with_context(none).code(Code::Usage)?
        }
    };
    let page = page(command).context("making a manual page");
    output::bytes(&page.code(Code::CannotServe)?);
    Ok(())
}

/// The command line with commands named as on their pages, such as `stasis-launch`.
fn stasis() -> Command {
    let mut stasis = Arguments::command();
    stasis.build();
    stasis
}

fn write_all(stasis: &Command, directory: &Path) -> Result<()> {
    let failed = || format!("writing manual pages to {}", directory.display());
    fs::create_dir_all(directory).with_context(failed)?;
    for command in stasis.get_subcommands().chain([stasis]) {
        let name = command.get_display_name().unwrap_or("stasis");
        let file = directory.join(format!("{name}.1"));
        fs::write(file, page(command)?).with_context(failed)?;
    }
    Ok(())
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_that_names_its_flags() {
        let directory = tempfile::tempdir().unwrap();
        write_all(&stasis(), directory.path()).unwrap();
        for command in stasis().get_subcommands() {
            let file = format!("stasis-{}.1", command.get_name());
            let page = fs::read_to_string(directory.path().join(&file)).unwrap();
            let shown = command.get_opts().filter(|flag| !flag.is_hide_set());
            for flag in shown.filter_map(|flag| flag.get_long()) {
                let flag = format!("\\-\\-{}", flag.replace('-', "\\-"));
                assert!(page.contains(&flag), "{file} lacks {flag}");
            }
        }
    }
}
