//! The lower half's command line, which `stasis` writes: `launch SPEC -- PROGRAM ARGUMENTS`, `restart SPEC`, `standby
//! SPEC`, `refuse CODE [LIBRARY]` or `about`; and values derived from its settings ([`job_spec`]).

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{bail, Context, Result};
use ckpt_image::{Lineage, SealKey};
use job_spec::{Checkpoints, LaunchSpec, RestartSpec};

pub mod schedule;

/// The task of this process.
pub enum Command {
    /// Start a program as the upper half.
    Launch(Launch),
    /// Restart an upper half from its image.
    Restart(RestartSpec),
    /// Initialise MPI for a restart, and wait until `stasis run` lets the rank go.
    Standby(RestartSpec),
    /// End the job with an exit code, by this MPI library of the standard ABI.
    Refuse(i32, Option<PathBuf>),
    /// Print the MPI library that this lower half is for.
    About,
}

/// Options of `launch`.
pub struct Launch {
    /// The settings.
    pub spec: LaunchSpec<Lineage>,
    /// The program as the user named it.
    pub program: OsString,
    /// Its arguments, without its name.
    pub args: Vec<OsString>,
}

/// Reads the arguments after the name of this program.
pub fn parse(mut words: impl Iterator<Item = OsString>) -> Result<Command> {
    let verb = words
        .next()
        .context("this program is started by `stasis launch` or `stasis restart`")?;
    if verb == "about" {
        return Ok(Command::About);
    }
    let argument = words
        .next()
        .with_context(|| format!("{} wants an argument", verb.display()))?;
    match verb.to_str() {
        Some("launch") => {
            let spec = job_spec::from_argument(&argument)?;
            let line = words.next().filter(|word| word == "--").and(words.next());
            Ok(Command::Launch(Launch {
                spec,
                program: line.context("no program was named")?,
                args: words.collect(),
            }))
        }
        Some("restart") => Ok(Command::Restart(job_spec::from_argument(&argument)?)),
        Some("standby") => Ok(Command::Standby(job_spec::from_argument(&argument)?)),
        Some("refuse") => {
            let code = argument.to_str().and_then(|code| code.parse().ok());
            let code = code.with_context(|| format!("{} is no exit code", argument.display()))?;
            Ok(Command::Refuse(code, words.next().map(PathBuf::from)))
        }
        _ => bail!("unknown command {}", verb.display()),
    }
}

/// The key that seals checkpoints.
pub fn key(checkpoints: &Checkpoints) -> Result<Option<SealKey>> {
    let key = checkpoints.key_file.as_deref().map(SealKey::read);
    Ok(key.transpose()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use job_spec::{Compression, FilePolicy, Keep, Pause, Schedule, Tools};

    fn parsed(words: &[&str]) -> Result<Command> {
        parse(words.iter().map(OsString::from))
    }

    #[test]
    fn what_a_program_executes_goes_on_with_its_run() {
        let spec = LaunchSpec {
            checkpoints: Checkpoints {
                dir: "/ck".into(),
                schedule: Schedule::default(),
                keep: Keep::All,
                full_every: 1,
                patience: 60,
                compression: Compression::Probe,
                pause: Pause::Copy,
                key_file: None,
                local_dir: None,
                partner: false,
                files: FilePolicy::Undo,
                undo_limit: 1,
                log_dir: None,
                metrics: None,
                quiet: false,
                incarnation: None,
                stages: None,
                for_cpu: None,
                tools: Tools::default(),
                mpi_library: None,
                announced: None,
            },
            lineage: Some(Lineage::begin(vec!["./app".into()]).unwrap()),
        };
        let argument = job_spec::to_argument(&spec).unwrap();
        let line = ["launch", &argument, "--", "./b", "--", "x"];
        let Command::Launch(launch) = parsed(&line).unwrap() else {
            panic!()
        };
        assert_eq!(launch.spec, spec);
        assert_eq!(
            (launch.program, launch.args),
            ("./b".into(), vec!["--".into(), "x".into()])
        );
        assert!(parsed(&line[..3]).is_err());
    }

    #[test]
    fn the_words_of_an_older_stasis_are_told_as_such() {
        let line = ["launch", "--ckpt-dir", "/ck", "--", "./app"];
        let error = parsed(&line).err().unwrap().to_string();
        assert!(error.contains("another version of Stasis"), "{error}");
    }

    #[test]
    fn a_job_is_ended_with_a_code() {
        assert!(matches!(
            parsed(&["refuse", "5"]),
            Ok(Command::Refuse(5, None))
        ));
        assert!(parsed(&["refuse", "x"]).is_err() && parsed(&["refuse"]).is_err());
    }
}
