//! Set-up, demo, tests and benchmarks:
//! `cargo xtask setup | demo | package | test | torture | conformance | fuzz | bench`.
//!
//! | folder or file | holds |
//! |---|---|
//! | `build/` | builds, the layout under `target/stasis`; the tarball, Debian's package; MPI libraries from PyPI |
//! | `harness/` | a running job, the product's commands, MPI libraries, nodes from network namespaces, signals, paths |
//! | `test/` | the cases, in folders by topic |
//! | `torture/` | programs under a stream of random checkpoints |
//! | `conformance/` | third-party suites of test programs |
//! | `bench/` | native runs against runs under Stasis |
//! | `docs/` | the generated pages of `docs/`, and the drawing of the demo |
//! | `tidy/` | the structure of the source tree, its crates, its environment variables |
//! | `demo.rs`, `fuzz.rs` | the demo of the README; the fuzz targets of `ckpt-image/fuzz/` |
//! | `../skip/` | the report of a test that cannot run on this machine |

mod bench;
mod build;
mod conformance;
mod demo;
mod docs;
mod fuzz;
mod harness;
mod test;
mod tidy;
mod torture;

use build::{package, setup};
use clap::{Parser, Subcommand};
use docs::session;
use tidy::structure;

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
    /// Fuzz the readers of checkpoints
    Fuzz(fuzz::Options),
    /// Compare native runs with runs under Stasis
    Bench(bench::Options),
    /// The code in numbers: unsafe blocks, circles of imports, the longest files
    #[command(visible_alias = "unsafe")]
    Structure(structure::Options),
    /// Draw the session of the README into docs/session.svg
    Record(session::Options),
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
        Task::Record(options) => session::run(&options),
        Task::Docs => docs::write(),
    }
}
