//! `stasis completions`: scripts by which shells ask this command what can follow. The answers come from the table of
//! flags (`args/mod.rs`), and from the checkpoints and lower halves that are there (`args/candidates.rs`).

use anyhow::Context;
use clap::CommandFactory;
use clap_complete::env::{CompleteEnv, Shells};
use clap_complete::Shell;

use crate::args::{Arguments, Completions};
use crate::ui::exit::{self, Code, WithCode};
use crate::ui::output;

/// Variable by which a shell asks.
const VARIABLE: &str = "STASIS_COMPLETE";
const NAME: &str = "stasis";
/// Launchers behind which `stasis` is completed, too.
const LAUNCHERS: &str = "mpirun mpiexec orterun prterun mpirun.openmpi mpiexec.openmpi mpirun.mpich mpiexec.mpich mpiexec.hydra srun";

/// Runs the command.
pub fn run(options: &Completions) -> exit::Result<()> {
    let name = options.shell.to_string();
    let shells = Shells::builtins();
    let shell = shells.completer(&name);
    let shell = shell.with_context(|| format!("nothing is known of the shell {name}"));
    let mut script = Vec::new();
    let written =
        shell
            .code(Code::Usage)?
            .write_registration(VARIABLE, NAME, NAME, NAME, &mut script);
    written.code(Code::CannotServe)?;
    let script = String::from_utf8(script).code(Code::CannotServe)?;
    let script = match options.shell {
        Shell::Bash => script + include_str!("launchers.bash"),
        // The first line tells compinit what the file completes.
        Shell::Zsh => {
            let head = "#compdef stasis";
            script.replacen(head, &format!("{head} LAUNCHERS"), 1) + include_str!("launchers.zsh")
        }
        _ => script,
    };
    output::bytes(script.replace("LAUNCHERS", LAUNCHERS).as_bytes());
    Ok(())
}

/// Answers a shell that asks what can follow, and ends. Returns if none asks.
pub fn answer() {
    CompleteEnv::with_factory(Arguments::command)
        .var(VARIABLE)
        .complete();
}
