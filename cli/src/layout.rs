//! Where the parts of Stasis are: beside this command, wherever that was put.

use std::path::{Path, PathBuf};

use anyhow::{anyhow, Context, Result};

use crate::arguments::Mpi;

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

    /// The lower half for a library.
    pub fn lower(&self, mpi: Mpi) -> PathBuf {
        self.lib.join(format!("lower-{}", mpi.word()))
    }

    /// The front for an ABI.
    pub fn front(&self, mpi: Mpi) -> PathBuf {
        self.lib.join(format!("front-{}.so", mpi.word()))
    }

    /// The libraries for which there is a lower half.
    pub fn built(&self) -> Vec<Mpi> {
        Mpi::ALL
            .into_iter()
            .filter(|mpi| self.lower(*mpi).exists())
            .collect()
    }

    /// The lower half to use: the wanted one, else the launcher's, else `preferred`, else any.
    pub fn choose(&self, wanted: Option<Mpi>, preferred: Option<Mpi>) -> Result<(Mpi, PathBuf)> {
        let built = self.built();
        let asked = wanted.or_else(|| launcher::library().map(Mpi::from));
        let usable = |mpi: &Mpi| built.contains(mpi);
        let mpi = match asked {
            Some(mpi) if usable(&mpi) => mpi,
            Some(mpi) => return Err(anyhow!(
                "there is no lower half for {} ({} does not exist): build it with `cargo xtask setup`{}",
                mpi.word(),
                self.lower(mpi).display(),
                match built.first() {
                    Some(other) => format!(", or use the mpirun of {}", other.word()),
                    None => String::new(),
                }
            )),
            None => preferred.filter(usable).or(built.first().copied()).with_context(|| {
                format!("there is no lower half in {}: build it with `cargo xtask setup`", self.lib.display())
            })?,
        };
        Ok((mpi, self.lower(mpi)))
    }
}
