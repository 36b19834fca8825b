//! Faults of the MPI library itself, below Stasis, and what each tool says of them.

use crate::harness::job::{self, Finished};
use crate::harness::mpi::Mpi;
use crate::harness::stasis;
use crate::test::support::faulty_library::faulty_library;
use crate::test::support::helper_programs::planted;
use crate::test::Case;
use anyhow::{ensure, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(240);
const RANKS: usize = 3;

/// All cases of this file.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for mpi in Mpi::ALL {
        let blocking: &[&str] = &[];
        for (name, fault, flags, body) in [
            (
                "sum",
                "WRONG_SUM",
                blocking,
                wrong_sum as fn(&Faulty) -> Result<()>,
            ),
            (
                "later-sum",
                "WRONG_SUM",
                &["-DNONBLOCKING"],
                wrong_later_sum,
            ),
            ("body", "DAMAGED_BODY", blocking, damaged_body),
        ] {
            cases.push(Case::new(format!("faults/{name}:{mpi}"), move |_, dir| {
                Faulty::new(dir, mpi, fault, flags)
                    .and_then(|faulty| body(&faulty))
                    .into()
            }));
        }
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
    fn new(dir: &'a Path, mpi: Mpi, fault: &str, flags: &[&str]) -> Result<Self> {
        let program = planted(dir, &mpi.compiler("c"), "sizes.c", flags)?;
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
        let check = format!("cmp - {}", self.dir.join("expected").display());
        let flags = ["--limit", "60", "--check", &check];
        let launch = self.faulty("bisect", &["--anew"]);
        self.run(stasis::bisect(&flags, &launch), "bisect")
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
