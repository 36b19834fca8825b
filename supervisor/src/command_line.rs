//! The user's command line: `mpirun ... stasis launch OPTIONS APP ...`. Options of the launcher are not understood
//! here. The words `stasis launch` are found in the line, and words are put behind them.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Word by which mpirun separates the programs of a job of several programs.
const NEXT_PROGRAM: &str = ":";

/// The positions behind each `stasis launch` of a line.
fn launches(line: &[OsString]) -> Vec<usize> {
    commands(line, &["launch"])
}

/// The positions behind each `stasis COMMAND` of a line.
fn commands(line: &[OsString], names: &[&str]) -> Vec<usize> {
    let is_named = |pair: &[OsString]| {
        let stasis = Path::new(&pair[0]).file_name();
        stasis == Some(OsStr::new("stasis")) && names.iter().any(|name| pair[1] == *name)
    };
    let pairs = line.windows(2).enumerate();
    let found = pairs.filter(|(_, pair)| is_named(pair));
    found.map(|(at, _)| at + 2).collect()
}

/// The line of a run from the same beginning as the others, with more options of `stasis launch` or `stasis restart`.
/// `None` if the line has neither.
pub fn from_the_beginning(line: &[OsString], options: &[OsString]) -> Option<Vec<OsString>> {
    let launches = launches(line);
    let places = commands(line, &["launch", "restart"]);
    let is_anew = line.iter().any(|word| word == "--anew");
    let mut words = Vec::new();
    for (at, word) in line.iter().enumerate() {
        if places.contains(&at) {
            words.extend_from_slice(options);
        }
        // An earlier run may have left checkpoints.
        if launches.contains(&at) && !is_anew {
            words.push("--anew".into());
        }
        words.push(word.clone());
    }
    (!places.is_empty()).then_some(words)
}

/// The line that restarts a job from a checkpoint by the launcher of this line, with these options of `stasis restart`.
/// `None` if the line has no `stasis launch`.
pub fn from_checkpoint(
    line: &[OsString],
    options: &[OsString],
    set: &Path,
) -> Option<Vec<OsString>> {
    let at = *launches(line).first()?;
    let mut words = line[..at - 1].to_vec();
    words.push("restart".into());
    words.extend_from_slice(options);
    words.push(set.into());
    Some(words)
}

/// The words behind the first `stasis launch` of a line, up to the next program of the job.
pub fn first_launch(line: &[OsString]) -> Option<&[OsString]> {
    Some(up_to_next_program(&line[*launches(line).first()?..]))
}

fn up_to_next_program(words: &[OsString]) -> &[OsString] {
    let end = words.iter().position(|word| word == NEXT_PROGRAM);
    &words[..end.unwrap_or(words.len())]
}

/// The line of a standby world that may become this incarnation.
pub fn of_standby(line: &[OsString], incarnation: u32) -> Vec<OsString> {
    let number = incarnation.to_string();
    with_words(line, &["--incarnation", &number, "--asleep", "--resume"])
}

/// The words in front of the first `stasis launch`: the launcher and its options.
pub fn launcher_words(line: &[OsString]) -> &[OsString] {
    let end = launches(line).first().map_or(0, |at| at - 2);
    &line[..end]
}

/// Whether srun may be told that its steps overlap. The step of a dead incarnation keeps its processors as long as
/// Slurm waits for a lost node. srun refuses that together with `--exclusive`.
pub fn may_overlap(line: &[OsString]) -> bool {
    let asks = |word: &OsString| word.as_encoded_bytes().starts_with(b"--exclusive");
    let told = ["SLURM_OVERLAP", "SLURM_EXCLUSIVE"];
    let told = told.iter().any(|name| env::var_os(name).is_some());
    !told && !launcher_words(line).iter().any(asks)
}

/// The line by which a user continues the job. It has `--resume`, and neither `--anew` nor a second `--resume`.
/// `program` gives the number of words behind a `stasis launch` that are the program and its arguments, or nothing if
/// the options cannot be read.
pub fn resumed(line: &[OsString], program: impl Fn(&[OsString]) -> Option<usize>) -> Vec<OsString> {
    let places = launches(line);
    let mut words = Vec::new();
    let mut options_end = 0;
    for (at, word) in line.iter().enumerate() {
        if places.contains(&at) {
            let behind = up_to_next_program(&line[at..]);
            options_end = at + program(behind).map_or(0, |words| behind.len() - words);
            words.push("--resume".into());
        }
        if at >= options_end || word != "--anew" && word != "--resume" {
            words.push(word.clone());
        }
    }
    words
}

/// The line of an incarnation, which continues from a checkpoint if there is one and `resume` is set. With both words
/// of this function, `stasis launch` ignores an `--anew` of the user.
pub fn of_incarnation(line: &[OsString], incarnation: u32, resume: bool) -> Vec<OsString> {
    let number = incarnation.to_string();
    let more = ["--incarnation", &number, "--resume"];
    with_words(line, &more[..2 + usize::from(resume)])
}

/// The line of an incarnation of a job of MPI Stages, which goes on from an epoch.
pub fn of_stages(line: &[OsString], incarnation: u32, epoch: u64) -> Vec<OsString> {
    let (number, epoch) = (incarnation.to_string(), epoch.to_string());
    with_words(line, &["--incarnation", &number, "--epoch", &epoch])
}

/// Inserts words behind each `stasis launch`.
fn with_words(line: &[OsString], more: &[&str]) -> Vec<OsString> {
    let places = launches(line);
    let mut words = Vec::new();
    for (at, word) in line.iter().enumerate() {
        if places.contains(&at) {
            words.extend(more.iter().map(OsString::from));
        }
        words.push(word.clone());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn joined(words: &[OsString]) -> String {
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    fn made(line: &str, resume: bool) -> String {
        joined(&of_incarnation(&words(line), 3, resume))
    }

    #[test]
    fn words_are_put_behind_each_launch() {
        assert_eq!(
            made("mpirun -n 2 /opt/bin/stasis launch ./a --anew", false),
            "mpirun -n 2 /opt/bin/stasis launch --incarnation 3 ./a --anew"
        );
        assert_eq!(
            made("mpirun -n 1 stasis launch --anew ./a --anew : -n 1 stasis launch ./b", true),
            "mpirun -n 1 stasis launch --incarnation 3 --resume --anew ./a --anew : -n 1 stasis launch --incarnation 3 \
             --resume ./b"
        );
    }

    #[test]
    fn the_line_by_hand_has_no_option_against_it() {
        let by_hand = |line| joined(&resumed(&words(line), |behind| Some(behind.len() / 2)));
        assert_eq!(
            by_hand("mpirun stasis launch --ckpt-dir ck --anew ./a b --anew : stasis launch --resume ./b"),
            "mpirun stasis launch --resume --ckpt-dir ck ./a b --anew : stasis launch --resume ./b"
        );
    }

    #[test]
    fn options_are_put_behind_each_start() {
        let made = |line, options| Some(joined(&from_the_beginning(&words(line), options)?));
        let reduce = ["--reduce".into(), "Bcast".into()];
        assert_eq!(
            made("mpirun stasis launch ./a", &reduce).unwrap(),
            "mpirun stasis launch --reduce Bcast --anew ./a"
        );
        assert_eq!(
            made("mpirun stasis restart ck", &reduce).unwrap(),
            "mpirun stasis restart --reduce Bcast ck"
        );
        assert_eq!(
            made("mpirun stasis launch --anew ./a", &[]).unwrap(),
            "mpirun stasis launch --anew ./a"
        );
        assert_eq!(made("mpirun ./a", &reduce), None);
    }

    #[test]
    fn a_launch_becomes_a_restart() {
        let made = |line| {
            let made = from_checkpoint(&words(line), &["-i5".into()], "ck/ckpt-3".as_ref())?;
            Some(joined(&made))
        };
        assert_eq!(
            made("mpirun -n 2 /opt/stasis launch --anew ./a b : -n 1 stasis launch ./c").unwrap(),
            "mpirun -n 2 /opt/stasis restart -i5 ck/ckpt-3"
        );
        assert_eq!(made("mpirun stasis restart ck"), None);
    }

    #[test]
    fn the_first_launch_ends_with_its_program() {
        let line = words("mpirun -n 1 stasis launch -i 5 ./a b : -n 1 stasis launch ./b");
        assert_eq!(first_launch(&line), Some(&*words("-i 5 ./a b")));
        assert_eq!(first_launch(&words("mpirun ./stasis restart x")), None);
    }
}
