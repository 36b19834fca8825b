//! The machines of the job, if the user's line names a file of them: one that is lost is left out while the others have
//! room for all ranks. So a line in the file for which there is no rank at first is that of a spare machine.
//!
//! In an allocation of Slurm, srun is told to exclude a lost machine, since Slurm itself may take minutes to notice. A
//! node of the allocation without a rank is a spare one.

use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::command_line;

/// Name of the file of the remaining machines, in the checkpoint directory.
const REMAINING: &str = "run.hosts";

/// Options of launchers that name the file: those of Open MPI, and of Hydra.
const OPTIONS: [&str; 5] = [
    "--hostfile",
    "-hostfile",
    "--machinefile",
    "-machinefile",
    "-f",
];

/// A machine whose ranks do not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostHost {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: IpAddr,
}

impl LostHost {
    /// Whether a file means it by this word.
    fn is_called(&self, word: &str) -> bool {
        word.parse() == Ok(self.address) || word == self.name || short(word) == short(&self.name)
    }
}

/// The line with a file without the lost machines, which is written into `directory`. None if the line names no file,
/// or the other machines have no room for `ranks`.
///
/// # Errors
/// The file of machines cannot be read, or the new one cannot be written.
pub fn without(
    line: &[OsString],
    lost: &[LostHost],
    ranks: u32,
    directory: &Path,
) -> io::Result<Option<Vec<OsString>>> {
    if let Some(srun) = place_of_srun(line) {
        return Ok(Some(excluding(line, srun, lost)));
    }
    let Some(at) = place_of_file(line) else {
        return Ok(None);
    };
    let text = fs::read_to_string(PathBuf::from(&line[at]))?;
    let Some(rest) = remaining(&text, lost, ranks) else {
        return Ok(None);
    };
    let file = std::path::absolute(directory.join(REMAINING))?;
    fs::write(&file, rest)?;
    let mut line = line.to_owned();
    line[at] = file.into();
    Ok(Some(line))
}

/// Position of srun in the line. Other words may be before it, as those of `env`.
fn place_of_srun(line: &[OsString]) -> Option<usize> {
    let is_srun = |word: &OsString| Path::new(word).file_name() == Some(OsStr::new("srun"));
    command_line::launcher_words(line).iter().position(is_srun)
}

/// A line of srun's that excludes the lost machines, too.
fn excluding(line: &[OsString], srun: usize, lost: &[LostHost]) -> Vec<OsString> {
    let names: Vec<&str> = lost.iter().map(|host| short(&host.name)).collect();
    let mut words = names.join(",");
    let mut line = line.to_owned();
    // Of several such options srun obeys the last.
    let own = command_line::launcher_words(&line).iter();
    let mut own = own.enumerate().filter_map(|(at, word)| {
        let word = word.to_str()?;
        let given = word
            .strip_prefix("--exclude=")
            .or_else(|| word.strip_prefix("-x").filter(|rest| !rest.is_empty()));
        match given {
            Some(given) => Some((at..at + 1, given.to_owned())),
            None if word == "--exclude" || word == "-x" => {
                Some((at..at + 2, line.get(at + 1)?.to_str()?.to_owned()))
            }
            None => None,
        }
    });
    let place = match own.next_back() {
        Some((place, given)) => {
            words = format!("{given},{words}");
            place
        }
        None => srun + 1..srun + 1,
    };
    line.splice(place, [format!("--exclude={words}").into()]);
    line
}

/// A machine's name without its domain, as Slurm names nodes.
fn short(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}

/// Position of the file's name in the line.
fn place_of_file(line: &[OsString]) -> Option<usize> {
    let launcher = command_line::launcher_words(line);
    let is_option = |word: &OsString| OPTIONS.iter().any(|option| word == OsStr::new(option));
    let at = launcher.iter().position(is_option)? + 1;
    (at < launcher.len()).then_some(at)
}

/// The lines of the other machines, if there is a lost one and they have room.
fn remaining(text: &str, lost: &[LostHost], ranks: u32) -> Option<String> {
    let is_lost = |line: &&str| {
        let called = host(line).unwrap_or_default();
        lost.iter().any(|lost| lost.is_called(called))
    };
    let (without, rest): (Vec<&str>, Vec<&str>) = text.lines().partition(is_lost);
    let room: u32 = rest.iter().map(|line| slots(line)).sum();
    let lines = rest.iter().map(|line| format!("{line}\n"));
    (!without.is_empty() && room >= ranks).then(|| lines.collect())
}

/// The words of a line, without its comment.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let line = line.split('#').next().unwrap_or_default();
    line.split_whitespace()
}

/// The machine of a line: `NAME`, or `NAME:SLOTS`. An IPv6 address has more than one colon.
fn host(line: &str) -> Option<&str> {
    let word = words(line).next()?;
    Some(match word.split_once(':') {
        Some((name, slots)) if !slots.contains(':') => name,
        _ => word,
    })
}

/// Ranks for which a line has room: `NAME slots=N`, `NAME:N`, or one.
fn slots(line: &str) -> u32 {
    let Some(name) = host(line) else {
        return 0;
    };
    let given = words(line).find_map(|word| {
        let number = word.strip_prefix("slots=");
        number.or_else(|| word.strip_prefix(name)?.strip_prefix(':'))
    });
    given.and_then(|given| given.parse().ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(name: &str) -> Vec<LostHost> {
        vec![LostHost {
            name: name.into(),
            address: [10, 0, 0, 2].into(),
        }]
    }

    #[test]
    fn a_lost_machine_is_left_out_if_there_is_room_without_it() {
        let text = "# ours\nn1 slots=2\nn2 slots=2\nn3 slots=2 # spare\n";
        let rest = "# ours\nn1 slots=2\nn3 slots=2 # spare\n";
        assert_eq!(remaining(text, &lost("n2"), 4).as_deref(), Some(rest));
        assert_eq!(remaining(text, &lost("n2.site"), 4).as_deref(), Some(rest));
        assert_eq!(remaining(text, &lost("n2"), 5), None);
        assert_eq!(remaining(text, &lost("n4"), 1), None);
        let by_address = "10.0.0.1:2\n10.0.0.2:2\nfd00::7\n";
        let rest = "10.0.0.1:2\nfd00::7\n";
        assert_eq!(remaining(by_address, &lost("x"), 3).as_deref(), Some(rest));
    }

    #[test]
    fn srun_excludes_lost_machines() {
        let made = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let made = without(&words, &lost("n2.site"), 4, Path::new("/nowhere")).unwrap();
            let made = made.unwrap().join(OsStr::new(" "));
            made.into_string().unwrap()
        };
        for (line, wanted) in [
            (
                "srun -n 2 stasis launch ./a -x 1",
                "srun --exclude=n2 -n 2 stasis launch ./a -x 1",
            ),
            (
                "env A=1 /bin/srun stasis launch a",
                "env A=1 /bin/srun --exclude=n2 stasis launch a",
            ),
            (
                "srun --exclude=n7 stasis launch a",
                "srun --exclude=n7,n2 stasis launch a",
            ),
            (
                "srun -n 2 -x n7,n8 stasis launch a",
                "srun -n 2 --exclude=n7,n8,n2 stasis launch a",
            ),
        ] {
            assert_eq!(made(line), wanted);
        }
    }

    #[test]
    fn only_the_launchers_file_counts() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let place = |line: &str| place_of_file(&words(line));
        assert_eq!(place("mpirun -n 2 --hostfile h stasis launch ./a"), Some(4));
        assert_eq!(place("mpiexec -f h -n 2 stasis launch ./a"), Some(2));
        assert_eq!(place("mpiexec -n 2 stasis launch ./a -f input"), None);
    }
}
