//! Building and installing: the layout under `target/stasis`, packages, MPI libraries from PyPI.

pub mod apt;
pub mod package;
pub mod pypi;
pub mod setup;
