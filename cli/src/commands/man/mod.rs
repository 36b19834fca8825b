//! `stasis man`: manual pages, generated from the table of flags (`args/mod.rs`).

mod examples;

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result};
use clap::{Command, CommandFactory};
use clap_mangen::roff::{bold, roman, Roff};

use crate::args::{Arguments, Man};
use crate::ui::exit::{self, Code, WithCode};
use crate::ui::output;
use examples::{BUILT_FILES, FILES, PAGES, RECORD_FILES};

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
    // Its own commands would have pages that do not exist.
    let mut stasis = Arguments::command().disable_help_subcommand(true);
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
    let page = String::from_utf8_lossy(&page).replace(".SH EXTRA", EXIT_STATUS);
    let mut page = page.into_bytes();
    sections(command).to_writer(&mut page)?;
    Ok(page)
}

/// The title of the text behind the help, which is about exit codes.
const EXIT_STATUS: &str = ".SH \"EXIT STATUS\"";

/// The sections behind those that the table of flags gives.
fn sections(command: &Command) -> Roff {
    let mut page = Roff::new();
    let known = PAGES.iter().find(|page| page.command == command.get_name());
    let examples = known.map_or(OVERVIEW, |known| known.examples);
    list(&mut page, "EXAMPLES", examples);
    match command.get_name() {
        "build-lower" => list(&mut page, "FILES", BUILT_FILES),
        "record-info" | "compare" | "solo" => list(&mut page, "FILES", RECORD_FILES),
        // The directory of `run` is named in the line that it starts, and those of `diff` and `gdb` by position.
        "run" | "jobs" | "diff" | "gdb" => list(&mut page, "FILES", FILES),
        _ if known.is_none() || names_a_directory(command) => list(&mut page, "FILES", FILES),
        _ => {}
    }
    if known.is_some()
        && command.get_after_help().is_none()
        && command.get_after_long_help().is_none()
    {
        page.control("SH", ["EXIT STATUS"]);
        page.text([roman("stasis(1) has the exit codes of all commands.")]);
    }
    let others: Vec<&str> = match known {
        Some(known) => known.see_also.to_vec(),
        None => PAGES.iter().map(|page| page.command).collect(),
    };
    let others = others.iter().map(|name| format!("stasis-{name}(1)"));
    let first = known.map(|_| "stasis(1)".to_owned());
    let others: Vec<String> = first.into_iter().chain(others).collect();
    page.control("SH", ["SEE ALSO"]);
    page.text([roman(others.join(", "))]);
    page
}

/// The job of the main page.
const OVERVIEW: &[(&str, &str)] = &[
    (
        "mpirun -n 4 stasis launch --ckpt-dir ck ./app",
        "runs a program so that it can be checkpointed",
    ),
    ("stasis checkpoint --stop ck", "freezes it"),
    ("mpirun -n 4 stasis restart ck", "brings it back"),
];

fn list(page: &mut Roff, title: &str, rows: &[(&str, &str)]) {
    page.control("SH", [title]);
    for (head, text) in rows {
        page.control("TP", []);
        page.text([bold(*head)]);
        page.text([roman(*text)]);
    }
}

/// Whether the command works with a checkpoint directory.
fn names_a_directory(command: &Command) -> bool {
    let variable = |arg: &clap::Arg| arg.get_env().is_some_and(|name| name == "STASIS_CKPT_DIR");
    command.get_arguments().any(variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_that_names_its_flags() {
        let directory = tempfile::tempdir().unwrap();
        write_all(&stasis(), directory.path()).unwrap();
        let main = fs::read_to_string(directory.path().join("stasis.1")).unwrap();
        assert!(main.contains(EXIT_STATUS), "{main}");
        assert!(!main.contains("stasis\\-help"), "{main}");
        for page in [
            "launch",
            "run",
            "jobs",
            "build-lower",
            "diff",
            "gdb",
            "compare",
        ] {
            let page =
                fs::read_to_string(directory.path().join(format!("stasis-{page}.1"))).unwrap();
            assert!(page.contains(".SH FILES"), "{page}");
        }
        for command in stasis().get_subcommands() {
            let file = format!("stasis-{}.1", command.get_name());
            let page = fs::read_to_string(directory.path().join(&file)).unwrap();
            let shown = command.get_opts().filter(|flag| !flag.is_hide_set());
            for flag in shown.filter_map(|flag| flag.get_long()) {
                let flag = format!("\\-\\-{}", flag.replace('-', "\\-"));
                assert!(page.contains(&flag), "{file} lacks {flag}");
            }
            let sections = [".SH EXAMPLES", ".SH \"SEE ALSO\"", EXIT_STATUS];
            assert!(
                sections.iter().all(|section| page.contains(section)),
                "{file}: {page}"
            );
        }
    }
}
