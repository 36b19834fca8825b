//! `stasis hunt`: runs a job with one seed of `--perturb` after the other, until a run fails. Each run is recorded, so
//! that this one can be replayed.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::{anyhow, bail, Context, Result};
use job_spec::shell;
use launcher::message;
use record::{files, files_of};
use supervisor::command_line;

use crate::args::Hunt;
use crate::ui::exit::{self, Code, WithCode};

/// Variables that would give a run other tools than those of the hunt.
const TOOLS: [&str; 3] = ["STASIS_PERTURB", "STASIS_RECORD", "STASIS_REPLAY"];
/// Variables by which a run would take checkpoints: the one with which all runs begin must not be removed for these.
const SCHEDULE: [&str; 2] = ["STASIS_INTERVAL", "STASIS_BEFORE_END"];

/// Runs the command.
pub fn run(options: &Hunt) -> exit::Result<()> {
    // A run may change its working directory.
    let record = std::path::absolute(&options.record).code(Code::Usage)?;
    line(options, &[]).code(Code::Usage)?;
    if files(&record).is_ok() {
        let why = anyhow!(
            "{} has the record of another run: give another --record, or remove it",
            record.display()
        );
        return Err(why).code(Code::Directory);
    }
    match first_failure(options, &record).code(Code::CannotServe)? {
        Some(seed) => tell(options, seed, &record).code(Code::CannotServe),
        None => Err(anyhow!(
            "all {} runs have passed. More seeds may find more: give a larger -n, or a checkpoint shortly before the \
             suspected place with --from",
            options.runs
        ))
        .code(Code::Usage),
    }
}

/// The line of a run with these options of `stasis launch` or `stasis restart`.
fn line(options: &Hunt, words: &[OsString]) -> Result<Vec<OsString>> {
    match &options.from {
        Some(set) => command_line::from_checkpoint(&options.job.line, words, set).context(
            "there is no `stasis launch` in this line, whose launcher could restart a checkpoint: give the command \
             that starts the job, `stasis hunt --from DIR/ckpt-N -- mpirun -n N stasis launch ./app`",
        ),
        None => command_line::from_the_beginning(&options.job.line, words).context(
            "there is neither `stasis launch` nor `stasis restart` in this line, so that nothing could be held back: \
             give the whole command, `stasis hunt -- mpirun -n N stasis launch ./app`",
        ),
    }
}

/// Options with which a run has a seed, and is recorded.
fn perturbed(seed: u64, record: &Path) -> [OsString; 4] {
    let seed = seed.to_string();
    [
        "--perturb".into(),
        seed.into(),
        "--record".into(),
        record.into(),
    ]
}

/// The first seed whose run fails. Its record is left.
fn first_failure(options: &Hunt, record: &Path) -> Result<Option<u64>> {
    let schedule = match options.from {
        Some(_) => &SCHEDULE[..],
        None => &[],
    };
    let without = [&TOOLS, schedule].concat();
    for seed in 1..=options.runs {
        let line = line(options, &perturbed(seed, record))?;
        let passed = options.job.passes(&line, &without)?;
        let recorded = files(record).unwrap_or_default();
        if recorded.is_empty() {
            bail!(
                "the job did not begin with seed {seed}, as its messages say: {}",
                shell::line(&line)
            );
        }
        if !passed {
            return Ok(Some(seed));
        }
        message::say(format_args!("the run with seed {seed} passed"));
        for (rank, _) in recorded {
            for file in files_of(record, rank) {
                fs::remove_file(&file)
                    .with_context(|| format!("cannot remove {}", file.display()))?;
            }
        }
    }
    // Nothing else is in it unless somebody has put it there.
    let _ = fs::remove_dir(record);
    Ok(None)
}

fn tell(options: &Hunt, seed: u64, record: &Path) -> Result<()> {
    let replay = line(options, &["--replay".into(), record.into()])?;
    let again = line(options, &["--perturb".into(), seed.to_string().into()])?;
    message::say(format_args!(
        "the run with seed {seed} failed; its record is {}. It is replayed by the line that follows. Another run with \
         its seed, which may end otherwise: {}",
        record.display(),
        shell::line(&again)
    ));
    say!("{}", shell::line(&replay));
    Ok(())
}
