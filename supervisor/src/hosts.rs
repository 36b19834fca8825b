//! The machines of the job, if the user's line names a file of them. One that is lost is left out while the others have
//! room for all ranks. A spare machine stands in its place in the file, so that the other ranks stay where they are.
//! Spare are the last `--spares N` machines, or those that the ranks do not need.
//!
//! In an allocation of Slurm, srun is told to exclude a lost machine, since Slurm itself may take minutes to notice. A
//! node of the allocation without a rank is a spare one.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

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

/// Options of launchers that tell the number of ranks.
const NUMBER: [&str; 4] = ["-n", "-np", "--np", "--ntasks"];

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

/// How the user wants the machines to be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machines {
    /// Number of the last machines that are to have no ranks until others are lost.
    pub spares: usize,
    /// Whether a machine may have more ranks than it has room for, when no spare one is left.
    pub oversubscribe: bool,
}

/// Reason why there is no line without the lost machines.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The line names no machines.
    #[error(
        "the line names no file of machines: give the launcher one (`--hostfile FILE`, `-f FILE`), or use srun in an \
         allocation"
    )]
    NoFile,
    /// The others have no room.
    #[error("the line names no file of machines with room for all ranks on the others")]
    NoRoom,
    /// The file has other names for them, or none.
    #[error("the line's file of machines does not name it")]
    Unknown,
    /// There are not more machines than spare ones.
    #[error("there are {machines} machines, so that none would be left for the job")]
    TooFew {
        /// Number of machines.
        machines: usize,
    },
    /// The file.
    #[error("cannot use the file of machines {}: {}", .0.display(), .1)]
    Io(PathBuf, io::Error),
    /// Slurm does not tell the nodes.
    #[error("`scontrol show hostnames` does not tell the nodes of the allocation: {0}")]
    Slurm(io::Error),
}

/// The line of the next incarnation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The line.
    pub line: Vec<OsString>,
    /// Whether machines have more ranks than they have room for.
    pub crowded: bool,
}

impl Machines {
    /// The line with a file without the lost machines and the spare ones, which is written into `directory`. Without
    /// any of these the line stays as it is. `ranks` is the number of ranks, as far as it is known.
    ///
    /// # Errors
    /// [`Error::NoFile`], [`Error::NoRoom`], [`Error::Unknown`], [`Error::TooFew`]; [`Error::Io`] if the file of
    /// machines cannot be read, or the new one cannot be written; [`Error::Slurm`].
    pub fn place(
        self,
        line: &[OsString],
        lost: &[LostHost],
        ranks: Option<u32>,
        directory: &Path,
    ) -> Result<Placed, Error> {
        if self.spares == 0 && lost.is_empty() {
            return Ok(Placed {
                line: line.to_owned(),
                crowded: false,
            });
        }
        let ranks = ranks.or_else(|| number_of_ranks(line));
        if let Some(srun) = place_of_srun(line) {
            return match self.spares {
                0 => {
                    let names: Vec<&str> = lost.iter().map(|host| short(&host.name)).collect();
                    Ok(excluding(line, srun, &names, false))
                }
                _ => self.of_allocation(line, srun, lost, &nodes_of_allocation()?),
            };
        }
        let at = place_of_file(line).ok_or(Error::NoFile)?;
        let file = PathBuf::from(&line[at]);
        let text = fs::read_to_string(&file).map_err(|why| Error::Io(file, why))?;
        let (lines, crowded) = self.remaining(&text, lost, ranks)?;
        let file = directory.join(REMAINING);
        let written =
            std::path::absolute(&file).and_then(|path| fs::write(&path, lines).map(|()| path));
        let mut line = line.to_owned();
        line[at] = written.map_err(|why| Error::Io(file, why))?.into();
        Ok(Placed { line, crowded })
    }

    /// The machines that are used of these, in their order: each spare one in the place of a lost one. The rest of the
    /// spare ones comes behind.
    fn used<'a>(
        self,
        machines: &[&'a str],
        lost: &[LostHost],
        ranks: Option<u32>,
    ) -> Result<(Vec<&'a str>, VecDeque<&'a str>), Error> {
        let first = match self.spares {
            0 => first_with_room(machines, ranks),
            spares => machines.len().saturating_sub(spares),
        };
        if first == 0 {
            let machines = machines.len();
            return Err(Error::TooFew { machines });
        }
        let mut used = machines[..first].to_vec();
        let mut pool: VecDeque<&str> = machines[first..].iter().copied().collect();
        for lost in lost {
            let is_it = |line: &&str| host(line).is_some_and(|word| lost.is_called(word));
            pool.retain(|line| !is_it(line));
            while let Some(at) = used.iter().position(is_it) {
                match pool.pop_front() {
                    Some(spare) => used[at] = spare,
                    None => {
                        used.remove(at);
                    }
                }
            }
        }
        // A spare machine may have less room than the lost one.
        while ranks.is_some_and(|ranks| room(&used) < ranks) {
            let Some(spare) = pool.pop_front() else {
                break;
            };
            used.push(spare);
        }
        Ok((used, pool))
    }

    /// The lines of the next incarnation's machines, and whether they have more ranks than room.
    fn remaining(
        self,
        text: &str,
        lost: &[LostHost],
        ranks: Option<u32>,
    ) -> Result<(String, bool), Error> {
        let machines: Vec<&str> = text.lines().filter(|line| host(line).is_some()).collect();
        let mut names = machines.iter().filter_map(|line| host(line));
        if !lost.is_empty() && !names.any(|name| lost.iter().any(|lost| lost.is_called(name))) {
            return Err(Error::Unknown);
        }
        let (mut used, pool) = self.used(&machines, lost, ranks)?;
        if self.spares == 0 {
            used.extend(pool);
        }
        let has_room = match ranks {
            Some(ranks) => room(&used) >= ranks,
            // Nothing is known before the first incarnation.
            None => lost.is_empty(),
        };
        let named = |line: &str| format!("{line}\n");
        match ranks {
            _ if has_room => Ok((used.into_iter().map(named).collect(), false)),
            Some(ranks) if self.oversubscribe && !used.is_empty() => {
                Ok((crowded(&used, ranks), true))
            }
            _ => Err(Error::NoRoom),
        }
    }

    /// The line of srun for the nodes that are used of an allocation.
    fn of_allocation(
        self,
        line: &[OsString],
        srun: usize,
        lost: &[LostHost],
        nodes: &[String],
    ) -> Result<Placed, Error> {
        let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
        let (used, _) = self.used(&nodes, lost, None)?;
        let few = used.len() + self.spares < nodes.len();
        if used.is_empty() || few && !self.oversubscribe {
            return Err(Error::NoRoom);
        }
        let others = nodes.iter().filter(|node| !used.contains(node));
        let names: Vec<&str> = others.copied().collect();
        Ok(excluding(line, srun, &names, few))
    }
}

/// The number of ranks that a line with one program tells.
fn number_of_ranks(line: &[OsString]) -> Option<u32> {
    let words = command_line::launcher_words(line);
    let is_option = |word: &OsString| NUMBER.iter().any(|option| word == OsStr::new(option));
    let at = words.iter().position(is_option)? + 1;
    let alone = !line.iter().any(|word| word == ":");
    words.get(at).filter(|_| alone)?.to_str()?.parse().ok()
}

/// Number of the first machines that have room for the ranks: all if that is unknown, or if they have not.
fn first_with_room(machines: &[&str], ranks: Option<u32>) -> usize {
    let enough = |number: &usize| ranks.is_some_and(|ranks| room(&machines[..*number]) >= ranks);
    (1..machines.len()).find(enough).unwrap_or(machines.len())
}

/// Ranks for which the machines have room.
fn room(machines: &[&str]) -> u32 {
    machines.iter().map(|line| slots(line)).sum()
}

/// The lines of the machines, with room for all ranks: where there is least, it is raised first.
fn crowded(machines: &[&str], ranks: u32) -> String {
    let mut all: Vec<u32> = machines.iter().map(|line| slots(line)).collect();
    while all.iter().sum::<u32>() < ranks {
        if let Some(least) = all.iter_mut().min() {
            *least += 1;
        }
    }
    let by_equation = machines.iter().any(|line| line.contains("slots="));
    let lines = machines.iter().zip(all);
    let lines = lines.filter_map(|(line, slots)| {
        let name = host(line)?;
        Some(match by_equation {
            true => format!("{name} slots={slots}\n"),
            false => format!("{name}:{slots}\n"),
        })
    });
    lines.collect()
}

/// The nodes of the allocation in which this process runs.
fn nodes_of_allocation() -> Result<Vec<String>, Error> {
    let list = env::var_os("SLURM_JOB_NODELIST").ok_or(Error::NoFile)?;
    let mut command = Command::new("scontrol");
    let told = command.args(["show", "hostnames"]).arg(list).output();
    let told = told.and_then(|told| match told.status.success() {
        true => Ok(told.stdout),
        false => Err(io::Error::other(
            String::from_utf8_lossy(&told.stderr).trim().to_owned(),
        )),
    });
    let told = told.map_err(Error::Slurm)?;
    let names = String::from_utf8_lossy(&told);
    Ok(names.split_whitespace().map(str::to_owned).collect())
}

/// Position of srun in the line. Other words may be before it, as those of `env`.
fn place_of_srun(line: &[OsString]) -> Option<usize> {
    let is_srun = |word: &OsString| Path::new(word).file_name() == Some(OsStr::new("srun"));
    command_line::launcher_words(line).iter().position(is_srun)
}

/// A line of srun's that excludes these machines, too. With `crowded` it puts more ranks on the others than they have
/// processors.
fn excluding(line: &[OsString], srun: usize, names: &[&str], crowded: bool) -> Placed {
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
    if !names.is_empty() {
        line.splice(place, [format!("--exclude={words}").into()]);
    }
    if crowded {
        line.insert(srun + 1, "--overcommit".into());
    }
    Placed { line, crowded }
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

    fn kept(how: Machines, text: &str, lost: &[LostHost], ranks: u32) -> Option<String> {
        let (lines, crowded) = how.remaining(text, lost, Some(ranks)).ok()?;
        assert!(how.oversubscribe || !crowded);
        Some(lines)
    }

    #[test]
    fn a_spare_machine_stands_in_the_place_of_a_lost_one() {
        let text = "# ours\nn1 slots=2\nn2 slots=2\nn3 slots=2 # spare\n";
        let rest = "n1 slots=2\nn3 slots=2 # spare\n";
        let none = Machines::default();
        assert_eq!(kept(none, text, &lost("n2"), 4).as_deref(), Some(rest));
        assert_eq!(kept(none, text, &lost("n2.site"), 4).as_deref(), Some(rest));
        let rest = "n3 slots=2 # spare\nn2 slots=2\n";
        assert_eq!(kept(none, text, &lost("n1"), 4).as_deref(), Some(rest));
        assert_eq!(kept(none, text, &lost("n2"), 5), None);
        let by_address = "10.0.0.1:2\n10.0.0.2:2\nfd00::7\n";
        let rest = "10.0.0.1:2\nfd00::7\n";
        assert_eq!(kept(none, by_address, &lost("x"), 3).as_deref(), Some(rest));
    }

    #[test]
    fn spare_machines_have_no_ranks_until_others_are_lost() {
        let text = "n1 slots=2\nn2 slots=2\nn3 slots=2\nn4 slots=2\n";
        let how = Machines {
            spares: 2,
            oversubscribe: false,
        };
        let all = |names: &[&str]| -> Vec<LostHost> {
            let hosts = names.iter().map(|name| LostHost {
                name: (*name).to_owned(),
                address: [10, 1, 1, 1].into(),
            });
            hosts.collect()
        };
        let names = |lost: &[&str]| {
            let lines = kept(how, text, &all(lost), 4)?;
            let names = lines.lines().filter_map(host);
            Some(names.collect::<Vec<_>>().join(" "))
        };
        assert_eq!(names(&[]).as_deref(), Some("n1 n2"));
        assert_eq!(names(&["n1"]).as_deref(), Some("n3 n2"));
        assert_eq!(names(&["n1", "n3"]).as_deref(), Some("n4 n2"));
        assert_eq!(names(&["n4", "n2"]).as_deref(), Some("n1 n3"));
        assert_eq!(names(&["n1", "n2", "n3"]), None);
        // Lines that tell no number have room for one rank: another spare one helps.
        let plain = kept(how, "n1\nn2\nn3:2\nn4\n", &all(&[]), 4);
        assert_eq!(plain.as_deref(), Some("n1\nn2\nn3:2\n"));
        let too_few = how.remaining("n1\nn2\n", &[], Some(1));
        assert!(matches!(too_few, Err(Error::TooFew { machines: 2 })));
    }

    #[test]
    fn without_a_spare_machine_the_others_have_more_ranks_if_the_user_wants_it() {
        let how = Machines {
            spares: 0,
            oversubscribe: true,
        };
        let text = "n1 slots=2\nn2 slots=2\nn3 slots=3\n";
        let kept = |text, ranks| kept(how, text, &lost("n2"), ranks);
        let rest = "n1 slots=3\nn3 slots=3\n";
        assert_eq!(kept(text, 6).as_deref(), Some(rest));
        assert_eq!(kept("n1:1\nn2:1\n", 2).as_deref(), Some("n1:2\n"));
        assert_eq!(kept("n2:1\n", 2), None);
    }

    #[test]
    fn the_spare_nodes_of_an_allocation_are_excluded() {
        let words: Vec<OsString> = ["srun", "-n", "4", "stasis", "launch", "a"]
            .map(OsString::from)
            .to_vec();
        let nodes = ["n1", "n2", "n3"].map(str::to_owned);
        let line = |how: Machines, lost: &[LostHost]| {
            let placed = how.of_allocation(&words, 0, lost, &nodes).ok()?;
            placed.line.join(OsStr::new(" ")).into_string().ok()
        };
        let mut how = Machines {
            spares: 1,
            oversubscribe: false,
        };
        let made = "srun --exclude=n3 -n 4 stasis launch a";
        assert_eq!(line(how, &[]).as_deref(), Some(made));
        let made = "srun --exclude=n2 -n 4 stasis launch a";
        assert_eq!(line(how, &lost("n2")).as_deref(), Some(made));
        let both = [lost("n2"), lost("n1")].concat();
        assert_eq!(line(how, &both), None);
        how.oversubscribe = true;
        let made = "srun --overcommit --exclude=n1,n2 -n 4 stasis launch a";
        assert_eq!(line(how, &both).as_deref(), Some(made));
        let told = number_of_ranks(&words);
        assert_eq!(told, Some(4));
    }

    #[test]
    fn srun_excludes_lost_machines() {
        let made = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let lost = lost("n2.site");
            let made = Machines::default().place(&words, &lost, Some(4), Path::new("/nowhere"));
            let made = made.unwrap().line.join(OsStr::new(" "));
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
