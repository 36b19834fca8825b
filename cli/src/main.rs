//! The `stasis` command: starts programs as upper halves, asks running jobs for checkpoints, and
//! tells about the sets on disk.

// First, for its macro.
#[macro_use]
mod output;

mod arguments;
mod build_lower;
mod checkpoint;
mod compact;
mod diff;
mod directory;
mod doctor;
mod drain;
mod ending;
mod exit;
mod held;
mod inspect;
mod json;
mod kernel;
mod launch;
mod layout;
mod local;
mod lowers;
mod order;
mod outlook;
mod pages;
mod place;
mod program;
mod ranks;
mod restart;
mod schedule;
mod sets;
mod status;
mod text;

use arguments::{Arguments, Command};
use clap::Parser;
use linked::{elf, search};

fn main() {
    if kernel::gives_privileges() {
        eprintln!("stasis: {}", exit::PRIVILEGED);
        std::process::exit(exit::Code::CannotServe as i32);
    }
    // clap ends with code 2 on wrong usage.
    let arguments = Arguments::parse();
    let starts = matches!(arguments.command, Command::Launch(_) | Command::Restart(_));
    let result = match arguments.command {
        Command::Launch(options) => launch::run(&options),
        Command::Restart(options) => restart::run(&options),
        Command::Checkpoint(options) => checkpoint::run(&options),
        Command::Status(options) => status::run(&options),
        Command::List(options) => sets::list(&options),
        Command::Verify(options) => sets::verify(&options),
        Command::Inspect(options) => inspect::run(&options),
        Command::Diff(options) => diff::run(&options),
        Command::Compact(options) => compact::run(&options),
        Command::Drain(options) => drain::run(&options),
        Command::Doctor(options) => doctor::run(&options),
        Command::BuildLower(options) => build_lower::run(&options),
        Command::Completions(options) => pages::completions(&options),
        Command::Man(options) => pages::man(&options),
    };
    if let Err(failure) = result {
        text::tell(&failure.error);
        if starts && failure.code.is_of_this_place() && launcher::is_first() {
            launcher::message::say("`stasis doctor` looks at everything that Stasis needs here");
        }
        std::process::exit(failure.code as i32);
    }
}
