//! Jobs over libraries for which no lower half was built, so that the one for the standard ABI serves them: MPICH 5 and
//! Intel MPI as PyPI has them. No compiler of theirs is used: programs are of the ABIs of Debian's libraries.
//!
//! A case is called like those of `mpi.rs`, with `standard/` before it. With `full`, all examples of some folders are
//! restarted over MPICH, and those of the matrix migrate from Intel MPI. Of the programs of others that is done with
//! FORM.

use crate::build::{pypi, setup};
use crate::harness::mpi::Mpi;
use crate::harness::paths;
use crate::test::programs::matrix::EXAMPLES;
use crate::test::programs::mpi::{run, Plan};
use crate::test::support::directives::{collect, Example, Mode};
use crate::test::{Case, Outcome};
use anyhow::{Context, Result};
use std::sync::Arc;

/// Folders of the examples.
const FOLDERS: [&str; 11] = [
    "p2p", "coll", "comm", "window", "io", "fortran", "threads", "files", "shm", "run", "programs",
];

/// Examples with what this ABI cannot express (docs/not-supported.md).
const EXCEPT: [&str; 1] = ["comm/datatypes"];

/// Example, mode, ABI of the program, library of the start and library of a restart.
type Row = (&'static str, Mode, Mpi, Mpi, Mpi);

/// Those of every run: plain, a checkpoint from which the job goes on, restarts, and migrations in both directions.
const ROWS: [Row; 13] = {
    use Mode::{Continue, Migrate, Plain, Restart};
    use Mpi::{Mpich, OpenMpi, Standard};
    [
        ("p2p/completions.waitsome", Plain, OpenMpi, Standard, Mpich),
        ("p2p/ring.eager", Continue, Mpich, Standard, Mpich),
        ("p2p/ring.rendezvous", Restart, OpenMpi, Standard, Mpich),
        ("coll/user_ops", Restart, Mpich, Standard, Mpich),
        ("comm/intercomm", Restart, OpenMpi, Standard, Mpich),
        ("window/locks.held", Restart, Mpich, Standard, Mpich),
        ("threads/multiple", Restart, OpenMpi, Standard, Mpich),
        ("files/regular", Restart, Mpich, Standard, OpenMpi),
        ("shm/ranks.segment", Restart, OpenMpi, Standard, Mpich),
        ("run/memory", Restart, Mpich, Standard, Mpich),
        ("io/views", Migrate, OpenMpi, Standard, Mpich),
        ("comm/subcomms", Migrate, Mpich, Standard, OpenMpi),
        ("p2p/ring.rendezvous", Migrate, OpenMpi, OpenMpi, Standard),
    ]
};

/// All cases of this file.
pub fn cases(full: bool) -> Result<Vec<Case>> {
    let examples = collect(&paths::examples(), &FOLDERS)?;
    let mut cases = Vec::new();
    for (name, mode, front, lower, other) in ROWS {
        let example = examples.iter().find(|example| example.name == name);
        let example = example.with_context(|| format!("no example {name}"))?;
        let plan = Plan {
            mode,
            front,
            lower,
            other,
        };
        cases.push(case(example, plan));
    }
    if !full {
        return Ok(cases);
    }
    let usual = |example: &&Example| {
        let is_program = example.name.starts_with("programs/");
        let of_debian = example.fronts.iter().all(|front| Mpi::ALL.contains(front));
        let can_be = !EXCEPT.contains(&example.name.as_str());
        of_debian
            && can_be
            && !example.own
            && (!is_program || example.name.starts_with("programs/form"))
            && example.ranks < 16
            && example.modes.contains(&Mode::Migrate)
    };
    for (place, example) in examples.iter().filter(usual).enumerate() {
        let front = example.fronts[place % example.fronts.len()];
        let intel = EXAMPLES.contains(&example.name.as_str());
        let intel = intel.then_some((Mpi::StandardIntel, Mode::Migrate));
        for (lower, mode) in [(Mpi::Standard, Mode::Restart)].into_iter().chain(intel) {
            let other = Mpi::ALL[place / 2 % 2];
            let plan = Plan {
                mode,
                front,
                lower,
                other,
            };
            let case = case(example, plan);
            if cases.iter().all(|known: &Case| known.name != case.name) {
                cases.push(case);
            }
        }
    }
    Ok(cases)
}

fn case(example: &Example, plan: Plan) -> Case {
    let mut example = example.clone();
    example.name = format!("standard/{}", example.name);
    let example = Arc::new(example);
    Case::new(plan.name(&example), move |session, dir| {
        let libraries = [plan.lower, plan.other];
        let missing =
            pypi::missing(&libraries, None).or_else(|| setup::missing(example.package.as_deref()));
        if let Some(why) = missing {
            return Outcome::Skipped(why);
        }
        run(&example, &plan, session, dir).into()
    })
}
