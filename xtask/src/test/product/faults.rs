//! Faults of the MPI library itself, below Stasis, and what each tool says of them.

use crate::harness::job::{self, Finished, Job};
use crate::harness::mpi::Mpi;
use crate::harness::{paths, stasis};
use crate::test::support::faulty_library::faulty_library;
use crate::test::support::held_job::reach_cut_of;
use crate::test::support::helper_programs::planted;
use crate::test::Case;
use anyhow::{ensure, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(240);
const RANKS: usize = 3;
/// Length in bytes of the longest message that has a digest with `--digests small`.
const SMALL: usize = 4096;

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in Mpi::ALL {
        let mut case = |name: &str, source, flags, fault, body: fn(&Faulty) -> Result<()>| {
            cases.push(Case::new(format!("faults/{name}:{mpi}"), move |_, dir| {
                Faulty::new(dir, mpi, source, flags, fault)
                    .and_then(|faulty| body(&faulty))
                    .into()
            }));
        };
        let later: &[&str] = &["-DNONBLOCKING"];
        case("sum", "sizes.c", &[], "WRONG_SUM", wrong_sum);
        case("later-sum", "sizes.c", later, "WRONG_SUM", wrong_later_sum);
        case("body", "sizes.c", &[], "DAMAGED_BODY", damaged_body);
        case("small", "limit.c", &[], "DAMAGED_BODY", of_small_messages);
        case("named", "named.c", &[], "WRONG_SUM", over_a_name);
        let both = "WRONG_SUM_AND_PREFIX";
        case("two", "named.c", &[], both, wrong_only_together);
        case("restart", "named.c", &[], both, found_from_a_checkpoint);
    }
    cases
}

/// A program, a library in which it fails, and the output that it has over the library without the fault.
struct Faulty<'a> {
    dir: &'a Path,
    mpi: Mpi,
    program: PathBuf,
    library: PathBuf,
    expected: String,
}

impl<'a> Faulty<'a> {
    fn new(dir: &'a Path, mpi: Mpi, source: &str, flags: &[&str], fault: &str) -> Result<Self> {
        let program = planted(dir, &mpi.compiler("c"), source, flags)?;
        let mut native = mpi.mpirun(RANKS, dir);
        native.arg(&program);
        let expected = job::run(native, dir, "native", LIMIT)?.expect_success("the native run")?;
        fs::write(dir.join("expected"), &expected.stdout)?;
        Ok(Faulty {
            dir,
            mpi,
            program,
            library: faulty_library(dir, mpi, fault)?,
            expected: expected.stdout,
        })
    }

    /// `stasis launch FLAGS` of the program, over the library without the fault.
    fn launch(&self, name: &str, flags: &[&str]) -> Command {
        let ckpt = self.dir.join(format!("ck-{name}"));
        let mut launch = stasis::launch(self.mpi, RANKS, &ckpt, self.dir);
        launch.args(flags).arg(&self.program).current_dir(self.dir);
        launch
    }

    /// The same over the library with the fault.
    fn faulty(&self, name: &str, flags: &[&str]) -> Command {
        let mut launch = self.launch(name, flags);
        launch.env("LD_LIBRARY_PATH", &self.library);
        launch
    }

    /// Runs a job to its end.
    fn run(&self, command: Command, name: &str) -> Result<Finished> {
        job::run(command, self.dir, name, LIMIT)?.expect_success(name)
    }

    /// Runs `stasis bisect`.
    fn bisect(&self) -> Result<Finished> {
        self.bisect_of(&self.faulty("bisect", &["--anew"]))
    }

    /// Runs `stasis bisect` of a command.
    fn bisect_of(&self, job: &Command) -> Result<Finished> {
        let check = format!("cmp - {}", self.dir.join("expected").display());
        let flags = ["--limit", "60", "--check", &check];
        self.run(stasis::bisect(&flags, job), "bisect")
    }

    /// Records a run over each library. The result is what `stasis compare` says.
    fn compared(&self) -> Result<String> {
        let flags = |rec| ["--record", rec, "--digests", "all", "--sends"];
        let good = self.run(self.launch("good", &flags("good")), "good")?;
        ensure!(good.stdout == self.expected, "{}", good.stdout);
        let bad = self.run(self.faulty("bad", &flags("bad")), "bad")?;
        ensure!(
            bad.stdout != self.expected,
            "the faulty library does nothing wrong"
        );
        let mut compare = stasis::command(["compare", "good", "bad"]);
        compare.current_dir(self.dir);
        Ok(self.run(compare, "compare")?.stdout)
    }

    /// Replays the run over the good library over the faulty one. The result is what the replay says; it goes on to its
    /// end.
    fn replayed(&self) -> Result<String> {
        let replayed = self.run(self.faulty("replayed", &["--replay", "good"]), "replayed")?;
        ensure!(replayed.stdout != self.expected, "{}", replayed.stdout);
        Ok(replayed.stderr)
    }
}

fn holds(text: &str, words: &[&str]) -> Result<()> {
    for words in words {
        ensure!(text.contains(words), "no '{words}' in\n{text}");
    }
    Ok(())
}

/// One call of one function is wrong. `stasis bisect` finds it, and the failure goes away with that function reduced.
fn wrong_sum(faulty: &Faulty) -> Result<()> {
    let found = faulty.bisect()?;
    ensure!(found.stdout == "Allreduce:5-5\n", "found {}", found.stdout);
    for (name, which, is_right) in [
        ("reduced", "Allreduce", true),
        ("one", "Allreduce:5-5", true),
        ("others", "all,-Allreduce", false),
    ] {
        let ended = faulty.run(faulty.faulty(name, &["--reduce", which]), name)?;
        ensure!(
            (ended.stdout == faulty.expected) == is_right,
            "--reduce {which}: {}",
            ended.stdout
        );
    }
    // The sum over all ranks is wrong, too.
    let told = faulty.compared()?;
    holds(
        &told,
        &[
            "rank 0: call 49, MPI_Reduce",
            "rank 1: call 17, MPI_Allreduce",
            ": 40 bytes of data with CRC-32",
        ],
    )?;
    ensure!(told.lines().count() == 2, "{told}");
    holds(
        &faulty.replayed()?,
        &[
            "rank 1: the data of call 17 differ from the record",
            "call 17, both:  MPI_Allreduce",
            "then recorded: 40 bytes of data with CRC-32",
            "but now:       40 bytes of data with CRC-32",
        ],
    )
}

/// The same sum of a non-blocking operation has its digest where it is waited for.
fn wrong_later_sum(faulty: &Faulty) -> Result<()> {
    let told = faulty.compared()?;
    holds(
        &told,
        &[
            "rank 0: call 61, MPI_Reduce",
            "rank 1: call 22, MPI_Wait: 40 bytes of data with CRC-32",
        ],
    )?;
    ensure!(told.lines().count() == 2, "{told}");
    holds(
        &faulty.replayed()?,
        &[
            "rank 1: the data of call 22 differ from the record",
            "call 22, both:  MPI_Wait",
            "then recorded: 40 bytes of data with CRC-32",
            "but now:       40 bytes of data with CRC-32",
        ],
    )
}

/// One message has other data than what was sent. Records of both runs name it, at its receiver. It is in no collective
/// operation.
fn damaged_body(faulty: &Faulty) -> Result<()> {
    let told = faulty.compared()?;
    holds(
        &told,
        &[
            "rank 0: call 49, MPI_Reduce",
            "rank 2: call 20, MPI_Wait: 40 bytes of the message of rank 1 with tag 5",
        ],
    )?;
    ensure!(told.lines().count() == 2, "{told}");
    holds(
        &faulty.replayed()?,
        &[
            "rank 2: the data of call 20 differ from the record",
            "call 20, both:  MPI_Wait",
            "then recorded: 40 bytes of the message of rank 1 with tag 5",
            "but now:       40 bytes of the message of rank 1 with tag 5",
        ],
    )?;
    let found = faulty.bisect()?;
    ensure!(found.stdout.is_empty(), "found {}", found.stdout);
    holds(&found.stderr, &["not in those of the MPI library"])
}

/// A damaged message is seen by `--digests small` if it has at most 4 KiB, and by `all` whatever its size.
fn of_small_messages(faulty: &Faulty) -> Result<()> {
    for digests in ["small", "all"] {
        let good = format!("good-{digests}");
        let flags = ["--record", &good, "--digests", digests];
        faulty.run(faulty.launch(&good, &flags), &good)?;
        for bytes in [SMALL, SMALL + 1] {
            let bad = format!("bad-{digests}-{bytes}");
            let flags = ["--record", &bad, "--digests", digests];
            let mut launch = faulty.faulty(&bad, &flags);
            launch.env("FAULTY_BYTES", bytes.to_string());
            let ended = faulty.run(launch, &bad)?;
            ensure!(
                ended.stdout != faulty.expected,
                "the faulty library does nothing wrong"
            );
            let mut compare = stasis::command(["compare", &good, &bad]);
            compare.current_dir(faulty.dir);
            let told = faulty.run(compare, "compare")?.stdout;
            let says = if digests == "small" && bytes > SMALL {
                "the runs are equal in 3 ranks".to_owned()
            } else {
                format!("communicator 1): {bytes} bytes of the message of rank 1 with tag")
            };
            holds(&told, &[&says])?;
            ensure!(told.lines().count() == 1, "{told}");
        }
    }
    Ok(())
}

/// `--reduce FUNCTION@COMM` heals the operations over the communicator with that name, and no others. The options are
/// those of rank 0, whatever the other ranks have.
fn over_a_name(faulty: &Faulty) -> Result<()> {
    let wrong = |first: usize, second: usize| {
        format!("wrong: {first} over first, {second} over second, 0 prefixes\n")
    };
    let ends = |name: &str, launch: Command, expected: String| {
        let printed = faulty.run(launch, name)?.stdout;
        ensure!(printed == expected, "{name}: {printed}");
        Ok(())
    };
    for (name, which, expected) in [
        ("first", "Allreduce@first", wrong(0, 1)),
        ("second", "Allreduce@second", wrong(1, 0)),
        ("all-but-first", "all,-all@first", wrong(1, 0)),
        ("no-such", "Allreduce@third", wrong(1, 1)),
    ] {
        let launch = faulty.faulty(name, &["--reduce", which]);
        ends(name, launch, expected)?;
    }
    for (name, of_rank_0, of_others, expected) in [
        ("rank-0-first", "Allreduce@first", "all", wrong(0, 1)),
        ("rank-0-none", "", "all", wrong(1, 1)),
        ("rank-0-alone", "all", "", wrong(0, 0)),
    ] {
        let mut launch = faulty.mpi.mpirun(RANKS, faulty.dir);
        launch
            .args(["sh", "-c", EACH_ITS_OWN, "sh", of_rank_0, of_others])
            .arg(paths::stasis())
            .args(["launch", "--ckpt-dir"])
            .arg(faulty.dir.join(format!("ck-{name}")))
            .arg(&faulty.program)
            .env("LD_LIBRARY_PATH", &faulty.library);
        ends(name, launch, expected)?;
    }
    Ok(())
}

/// Executes a command with another STASIS_REDUCE on rank 0 than on the others.
const EACH_ITS_OWN: &str = "which=$2
test ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 0 && which=$1
test -n \"$which\" && export STASIS_REDUCE=\"$which\"
shift 2
exec \"$@\"";

/// What `stasis bisect` finds of two functions that are both wrong in their fifth call over a communicator.
const BOTH: &str = "Allreduce:5-5,Scan:5-5\n";

/// The failure goes away only if two functions are reduced.
fn wrong_only_together(faulty: &Faulty) -> Result<()> {
    let found = faulty.bisect()?;
    ensure!(found.stdout == BOTH, "found {}", found.stdout);
    for (name, which, is_right) in [
        ("one", "Allreduce:5-5", false),
        ("other", "Scan:5-5", false),
        ("both", BOTH.trim_end(), true),
    ] {
        let ended = faulty.run(faulty.faulty(name, &["--reduce", which]), name)?;
        ensure!(
            (ended.stdout == faulty.expected) == is_right,
            "--reduce {which}: {}",
            ended.stdout
        );
    }
    Ok(())
}

/// The same with a line of `stasis restart`: the calls are counted from the checkpoint.
fn found_from_a_checkpoint(faulty: &Faulty) -> Result<()> {
    let cuts = |command: &mut Command| {
        command
            .env("STASIS_TEST_READY", faulty.dir.join("ready"))
            .env("STASIS_TEST_GO", faulty.dir.join("go"));
    };
    let mut launch = faulty.launch("first", &[]);
    cuts(&mut launch);
    let mut job = Job::start(launch, faulty.dir, "launch")?;
    let reached = reach_cut_of(RANKS, &mut job, faulty.dir);
    job.explain(reached, faulty.dir)?;
    let ckpt = faulty.dir.join("ck-first");
    stasis::take_checkpoint(&ckpt, faulty.dir, "checkpoint", LIMIT)?;
    job.kill()?;
    fs::write(faulty.dir.join("go"), "")?;
    let set = ckpt.join("ckpt-1");
    let mut restart = stasis::restart(faulty.mpi, RANKS, &set, faulty.dir);
    cuts(&mut restart);
    restart
        .env("LD_LIBRARY_PATH", &faulty.library)
        .current_dir(faulty.dir);
    let found = faulty.bisect_of(&restart)?;
    ensure!(found.stdout == BOTH, "found {}", found.stdout);
    Ok(())
}
