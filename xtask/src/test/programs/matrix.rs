//! Every ABI of applications over every MPI library, restarted under every other one: a few examples with `--full`.
//!
//! A case is called `matrix/EXAMPLE:FRONT@LOWER>RESTART`. The front `mpich-5` stands for the standard ABI, for which
//! PyPI's MPICH has the compiler. Those whose ranks are killed under `stasis run`, over a library of PyPI's, are called
//! `matrix/EXAMPLE:recover:FRONT@LOWER` (or `recover-memory`). To add a library: `harness/mpi.rs` and `build/pypi.rs`.

use crate::build::pypi;
use crate::harness::mpi::Mpi;
use crate::harness::paths;
use crate::test::programs::mpi::{is_recovered, migrate, run, Plan};
use crate::test::support::directives::{collect, Example, Mode};
use crate::test::{Case, Outcome};
use anyhow::{Context, Result};
use std::sync::Arc;

/// Messages in flight, collectives under way, requests of all kinds, large counts.
pub const EXAMPLES: [&str; 6] = [
    "p2p/ring.rendezvous",
    "coll/in_place.nonblocking",
    "p2p/completions.waitsome",
    "p2p/large_counts.posted",
    "coll/large_counts.under_way",
    "comm/large_datatypes",
];

/// One library with the compiler of each ABI.
const FRONTS: [Mpi; 3] = [Mpi::OpenMpi, Mpi::Mpich, Mpi::Mpich5];

/// All cases of this file.
pub fn cases() -> Result<Vec<Case>> {
    let all = collect(&paths::examples(), &["p2p", "coll", "comm"])?;
    let mut cases = Vec::new();
    for name in EXAMPLES {
        let example = all.iter().find(|example| example.name == name);
        let example = Arc::new(
            example
                .with_context(|| format!("no example {name}"))?
                .clone(),
        );
        // An example for one ABI alone also compiles for the standard ABI.
        let is_for = |front| front == Mpi::Mpich5 || example.fronts.contains(&front);
        for front in FRONTS.into_iter().filter(|&front| is_for(front)) {
            for (lower, next) in pairs() {
                cases.push(case(&example, front, lower, next));
            }
            // A rank of Intel MPI's that is killed in its first moments is not noticed (docs/not-supported.md).
            let lowers = [Mpi::OpenMpi5, Mpi::Mpich5].into_iter();
            for lower in lowers.filter(|_| is_recovered(&example)) {
                let modes = [Mode::Recover, Mode::RecoverMemory];
                cases.extend(modes.map(|mode| recovered(&example, mode, front, lower)));
            }
        }
    }
    Ok(cases)
}

fn pairs() -> impl Iterator<Item = (Mpi, Mpi)> {
    let every = |lower| Mpi::EVERY.map(|next| (lower, next));
    let all = Mpi::EVERY.into_iter().flat_map(every);
    all.filter(|(lower, next)| lower != next)
}

fn case(example: &Arc<Example>, front: Mpi, lower: Mpi, next: Mpi) -> Case {
    let example = example.clone();
    let name = format!("matrix/{}:{front}@{lower}>{next}", example.name);
    Case::new(name, move |session, dir| {
        if let Some(why) = pypi::missing(&[front, lower, next], None) {
            return Outcome::Skipped(why);
        }
        migrate(&example, front, lower, next, session, dir).into()
    })
}

fn recovered(example: &Arc<Example>, mode: Mode, front: Mpi, lower: Mpi) -> Case {
    let example = example.clone();
    let plan = Plan {
        mode,
        front,
        lower,
        other: lower,
    };
    let name = format!("matrix/{}", plan.name(&example));
    Case::new(name, move |session, dir| {
        if let Some(why) = pypi::missing(&[front, lower], None) {
            return Outcome::Skipped(why);
        }
        run(&example, &plan, session, dir).into()
    })
}
