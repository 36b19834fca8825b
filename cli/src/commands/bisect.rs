//! `stasis bisect`: runs a job again and again, each time with other collective operations reduced to messages, and so
//! finds those of the MPI library without which the failure goes away.

use anyhow::{anyhow, Context, Result};
use launcher::message;
use reduction::bisect::{smallest, Found, Outcome};
use reduction::Selection;
use supervisor::command_line;

use crate::args::Bisect;
use crate::ui::exit::{self, Code, WithCode};

/// Runs the command.
pub fn run(options: &Bisect) -> exit::Result<()> {
    if command_line::from_the_beginning(&options.job.line, &[]).is_none() {
        let why = "there is neither `stasis launch` nor `stasis restart` in this line, so that nothing could be reduced: \
                   give the whole command, `stasis bisect -- mpirun -n N stasis launch ./app`";
        return Err(anyhow!(why)).code(Code::Usage);
    }
    let mut number = 0;
    let found: Result<Found> = smallest(&options.reduce, |selection| {
        number += 1;
        let outcome = outcome(options, selection)?;
        let selected = selection.map_or("nothing".to_owned(), Selection::to_string);
        message::say(format_args!("run {number}, {selected} reduced: {outcome}"));
        Ok(outcome)
    });
    match found.code(Code::CannotServe)? {
        Found::Smallest(selection) => {
            say!("{selection}");
            message::say(format_args!(
                "the failure goes away if these calls are reduced, and not if fewer are: `stasis launch --reduce \
                 '{selection}'`"
            ));
            Ok(())
        }
        Found::Elsewhere => {
            message::say(
                "the failure stays although all collective operations are reduced: it is not in those of the MPI library",
            );
            Ok(())
        }
        Found::NoFailure => Err(anyhow!(
            "the job passes as it is: there is nothing to look for. If it fails now and then, give --runs N"
        ))
        .code(Code::Usage),
    }
}

/// How the runs of a selection end: all of them have to pass.
fn outcome(options: &Bisect, selection: Option<&Selection>) -> Result<Outcome> {
    for _ in 0..options.runs {
        if !passes(options, selection)? {
            return Ok(Outcome::Failed);
        }
    }
    Ok(Outcome::Passed)
}

fn passes(options: &Bisect, selection: Option<&Selection>) -> Result<bool> {
    let reduce = selection.map(|selection| ["--reduce".into(), selection.to_string().into()]);
    let reduce = reduce.as_ref().map_or(&[][..], |words| words);
    let line = command_line::from_the_beginning(&options.job.line, reduce).context("no command")?;
    options.job.passes(&line, &["STASIS_REDUCE"])
}
