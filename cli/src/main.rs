//! The `stasis` command: starts programs as upper halves, requests checkpoints of running jobs, and inspects the
//! checkpoints on disk.

// The first module, because the others use its macro.
#[macro_use]
mod ui;

mod args;
mod check;
mod commands;
mod debugger;
mod explain;
mod hand_over;
mod install;
mod report;
mod running;
mod start;

use args::{Arguments, Command};
use check::kernel;
use clap::Parser;
use ui::{exit, json};

fn main() {
    if kernel::gives_privileges() {
        eprintln!("stasis: {}", exit::PRIVILEGED);
        std::process::exit(exit::Code::CannotServe.number());
    }
    commands::completions::answer();
    start::node_keeper::answer();
    let arguments = Arguments::try_parse().unwrap_or_else(|why| wrong_usage(&why));
    if let Err(why) = trace::log::to_stderr() {
        eprintln!("stasis: {why}");
        std::process::exit(exit::Code::Usage.number());
    }
    let starts = matches!(arguments.command, Command::Launch(_) | Command::Restart(_));
    let prints_json = arguments.command.prints_json();
    let result = match arguments.command {
        Command::Launch(options) => commands::launch::run(&options),
        Command::Restart(options) => commands::restart::run(&options),
        Command::Run(options) => commands::run::run(&options),
        Command::Checkpoint(options) => commands::checkpoint::run(&options),
        Command::Bisect(options) => commands::bisect::run(&options),
        Command::Hunt(options) => commands::hunt::run(&options),
        Command::Jobs(options) => commands::jobs::run(&options),
        Command::Stop(options) => commands::stop::run(&options),
        Command::Status(options) => commands::status::run(&options),
        Command::Profile(options) => commands::profile::run(&options),
        Command::Report(options) => commands::report::run(&options),
        Command::Stacks(options) => commands::stacks::run(&options),
        Command::Gdb(options) => commands::gdb::run(&options),
        Command::Solo(options) => commands::solo::run(&options),
        Command::Explain(options) => commands::explain::run(&options),
        Command::List(options) => commands::list::run(&options),
        Command::Verify(options) => commands::verify::run(&options),
        Command::Inspect(options) => commands::inspect::run(&options),
        Command::Diff(options) => commands::diff::run(&options),
        Command::Compare(options) => commands::compare::run(&options),
        Command::RecordInfo(options) => commands::record_info::run(&options),
        Command::Compact(options) => commands::compact::run(&options),
        Command::Drain(options) => commands::drain::run(&options),
        Command::Doctor(options) => commands::doctor::run(&options),
        Command::BuildLower(options) => commands::build_lower::run(&options),
        Command::Completions(options) => commands::completions::run(&options),
        Command::Man(options) => commands::man::run(&options),
        Command::Version(options) => commands::version::run(&options),
    };
    if let Err(failure) = result {
        start::refusal::tell(&failure);
        if prints_json {
            json::print_failure(&failure);
        }
        if starts && exit::is_of_this_place(failure.code) && launcher::is_first() {
            launcher::message::say("`stasis doctor` looks at everything that Stasis needs here");
        }
        std::process::exit(failure.code.number());
    }
}

/// Ends the command with the message of a command line that is wrong, or with the help that it asks for.
fn wrong_usage(why: &clap::Error) -> ! {
    if why.use_stderr() && args::asks_for_json() {
        let _ = why.print();
        json::print_wrong_usage(&why.render().to_string());
        std::process::exit(exit::Code::Usage.number());
    }
    why.exit()
}
