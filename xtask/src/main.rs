//! Set-up, demo, tests and benchmarks:
//! `cargo xtask setup | demo | package | test | torture | conformance | fuzz | bench`.
//!
//! | file | holds |
//! |---|---|
//! | `setup.rs` | packages, builds, the layout under `target/stasis` |
//! | `mpi.rs` | MPI libraries: their launchers, compilers and environment |
//! | `pypi.rs` | those from PyPI, for the tests of `--full` |
//! | `package.rs` | the tarball and Debian's package |
//! | `crates.rs` | the crates that all of it is built from, their licences and the Rust that they ask for |
//! | `job.rs` | a running job: start, wait, find all its processes, kill, say where it hangs |
//! | `stasis.rs` | the product's commands as the harness uses them |
//! | `test/` | the cases: style and unit tests, real programs, programs without MPI, bad input |
//! | `torture/` | programs under a stream of random cuts |
//! | `conformance/` | suites of test programs that others wrote |
//! | `parallel.rs` | several things at a time |
//! | `fuzz.rs` | the fuzz targets of `fuzz/`, and what they have reached |
//! | `structure.rs` | the code in numbers |
//! | `variables.rs` | the variables of the environment, against `docs/environment.md` |
//! | `system_calls.rs` | the page of system calls, from the loader's tables |
//! | `docs.rs` | the generated pages of `docs/` |
//! | `demo.rs`, `record.rs` | the demo of the README, and the drawing of it |
//! | `bench/`, `calls.rs` | native runs against runs under Stasis |
//! | `journey.rs`, `nodes.rs` | a ring of ranks through networks and libraries; nodes from network namespaces |
//! | `paths.rs`, `random.rs`, `signal.rs` | where things are; random numbers; signals to processes |
//! | `../skip/` | how a test says that it cannot run here |

mod bench;
mod calls;
mod conformance;
mod crates;
mod demo;
mod docs;
mod fuzz;
mod job;
mod journey;
mod mpi;
mod nodes;
mod package;
mod parallel;
mod paths;
mod pypi;
mod random;
mod record;
mod setup;
mod signal;
mod stasis;
mod structure;
mod system_calls;
mod test;
mod torture;
mod variables;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Set-up, demo, tests and benchmarks of Stasis"
)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install what is missing and build everything into target/stasis
    Setup(setup::Options),
    /// Freeze LAMMPS under one MPI library and continue it under the other, both ways
    Demo(demo::Options),
    /// Make the tarball and Debian's package in target/package
    Package(package::Options),
    /// Style, unit tests and the real-program cases
    Test(test::Options),
    /// Programs under a stream of checkpoints and kills at random moments
    Torture(torture::Options),
    /// A suite of MPI test programs natively, under Stasis, and cut and restarted
    Conformance(conformance::Options),
    /// Feed the readers of checkpoints what nobody has written
    Fuzz(fuzz::Options),
    /// Compare native runs with runs under Stasis
    Bench(bench::Options),
    /// The code in numbers: unsafe blocks, circles of imports, the longest files
    Structure(structure::Options),
    /// Draw the session of the README into docs/session.svg
    Record(record::Options),
    /// Write the generated pages docs/mpi-coverage.md, docs/system-calls.md and docs/faults.md
    Docs,
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Setup(options) => setup::run_with(&options),
        Task::Demo(options) => demo::run(&options),
        Task::Package(options) => package::run(&options),
        Task::Test(options) => test::run(&options),
        Task::Torture(options) => torture::run(&options),
        Task::Conformance(options) => conformance::run(&options),
        Task::Fuzz(options) => fuzz::run(&options),
        Task::Bench(options) => bench::run(&options),
        Task::Structure(options) => structure::run(&options),
        Task::Record(options) => record::run(&options),
        Task::Docs => docs::write(),
    }
}
