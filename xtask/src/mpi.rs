//! The two MPI libraries of Debian: their launchers, compilers and environment.

use std::fmt;
use std::path::Path;
use std::process::Command;

/// An MPI library: as an application's ABI (front) or as what it runs over (lower half).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mpi {
    /// Open MPI 4.1
    OpenMpi,
    /// MPICH 4.0
    Mpich,
}

impl Mpi {
    /// Both of them.
    pub const ALL: [Mpi; 2] = [Mpi::OpenMpi, Mpi::Mpich];

    /// The name in case names, directives and file names; also the alternatives' suffix in Debian.
    pub fn name(self) -> &'static str {
        match self {
            Mpi::OpenMpi => "openmpi",
            Mpi::Mpich => "mpich",
        }
    }

    /// The one with this name.
    pub fn named(name: &str) -> anyhow::Result<Mpi> {
        Mpi::ALL
            .into_iter()
            .find(|mpi| mpi.name() == name)
            .ok_or_else(|| anyhow::anyhow!("no MPI library is called '{name}'"))
    }

    /// The other one.
    pub fn other(self) -> Mpi {
        match self {
            Mpi::OpenMpi => Mpi::Mpich,
            Mpi::Mpich => Mpi::OpenMpi,
        }
    }

    /// The compiler command for a source file with this extension.
    pub fn compiler(self, extension: &str) -> String {
        let language = match extension {
            "cpp" => "mpicxx",
            "f90" => "mpifort",
            _ => "mpicc",
        };
        format!("{language}.{}", self.name())
    }

    /// The launcher's name.
    pub fn launcher(self) -> String {
        format!("mpirun.{}", self.name())
    }

    /// A launcher command for `ranks` ranks that are free to share cores; scratch files of the
    /// launcher go to `scratch`.
    pub fn mpirun(self, ranks: usize, scratch: &Path) -> Command {
        let mut command = Command::new(self.launcher());
        if self == Mpi::OpenMpi {
            command.args(["--oversubscribe", "--bind-to", "none"]);
            command.env("OMPI_MCA_orte_tmpdir_base", scratch);
            if ranks > cores() {
                command.env("OMPI_MCA_mpi_yield_when_idle", "1");
            }
        }
        self.set_environment(&mut command);
        command.args(["-n", &ranks.to_string()]);
        command
    }

    /// What both launchers need of the environment, whoever starts them.
    pub fn set_environment(self, command: &mut Command) {
        // Open MPI refuses to start as root without both of these.
        command
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
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
