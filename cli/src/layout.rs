//! Where the parts of Stasis are: beside this command, wherever that was put.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::lowers::{self, Lower, Start};

/// An ABI that applications are built for, each with a front of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abi {
    /// Open MPI's
    Openmpi,
    /// MPICH's, Intel MPI's, MVAPICH's and Cray MPICH's
    Mpich,
    /// The standard's, of MPI 5.0
    Standard,
}

impl Abi {
    /// All of them.
    pub const ALL: [Abi; 3] = [Abi::Openmpi, Abi::Mpich, Abi::Standard];

    /// As in the names of files and in manifests.
    pub fn word(self) -> &'static str {
        match self {
            Abi::Openmpi => "openmpi",
            Abi::Mpich => "mpich",
            Abi::Standard => "standard",
        }
    }
}

/// The installed parts.
pub struct Layout {
    lib: PathBuf,
}

impl Layout {
    /// Of this very command.
    pub fn find() -> Result<Layout> {
        let own =
            std::env::current_exe().context("cannot find out where the stasis command lies")?;
        let bin = own.parent().unwrap_or(Path::new("/"));
        Ok(Layout {
            lib: bin.join("../lib/stasis"),
        })
    }

    /// The folder of fronts and lower halves.
    pub fn lib(&self) -> &Path {
        &self.lib
    }

    /// The front for an ABI.
    pub fn front(&self, abi: Abi) -> PathBuf {
        self.lib.join(format!("front-{}.so", abi.word()))
    }

    /// The lower halves that were built.
    pub fn lowers(&self) -> Vec<Lower> {
        lowers::in_folder(&self.lib)
    }

    /// The lower half for this process: see [`lowers::choose`].
    pub fn choose(&self, wanted: Option<&str>, preferred: Option<Abi>) -> Result<Lower> {
        lowers::choose(&self.lowers(), wanted, &Start::here(), preferred).cloned()
    }
}
