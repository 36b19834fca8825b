//! Information that the launcher of this process (mpirun, mpiexec, srun) passes in the environment: its MPI
//! library, the rank, the number of ranks, and the number of ranks on this machine. Before MPI_Init there
//! is no other source; afterwards MPI takes precedence.
//!
//! To add a launcher, add its variables to the tables below, before those of launchers that may enclose it.
//! (Slurm comes last: the ranks of an mpirun inherit its variables.) `ancestor.rs` distinguishes the
//! executables of the libraries.

pub mod allocation;
mod ancestor;

pub use ancestor::{
    is_apart_from_launcher, is_in_user_namespace, launcher, starts_ranks, Launcher,
};

pub mod message;
pub mod preload;

use std::env;
use std::fmt;

/// A kind of MPI library, recognised by its launchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// Open MPI: its mpirun, or any launcher with PMIx.
    OpenMpi,
    /// MPICH and its derivatives: Hydra, or any launcher with PMI.
    Mpich,
}

impl Library {
    /// The name in the records of lower halves.
    pub fn key(self) -> &'static str {
        match self {
            Library::OpenMpi => "openmpi",
            Library::Mpich => "mpich",
        }
    }

    /// The name in messages.
    pub fn title(self) -> &'static str {
        match self {
            Library::OpenMpi => "Open MPI",
            Library::Mpich => "MPICH or an MPI library derived from it",
        }
    }
}

/// Variables that only launchers of Open MPI set.
const OPEN_MPI: [&str; 3] = [
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_UNIVERSE_SIZE",
    "PMIX_NAMESPACE",
];
/// Variables that Hydra and other launchers with PMI set.
const PMI: [&str; 3] = ["PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"];

const PMIX_RANK: &str = "PMIX_RANK";
const RANK: [&str; 3] = ["OMPI_COMM_WORLD_RANK", PMIX_RANK, "PMI_RANK"];
const SIZE: [&str; 2] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];
const RANKS_HERE: [&str; 2] = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"];

/// Variable of Slurm (srun, "output environment variables"). Only srun sets it. A batch script that starts
/// a program directly has `SLURM_PROCID` too, but is no job of many ranks.
const SLURM_SIZE: &str = "SLURM_STEP_NUM_TASKS";
const SLURM_RANK: &str = "SLURM_PROCID";
/// Numbers of ranks on each node of the step, like `4(x2),3`, and this node's index in that list.
const SLURM_RANKS_PER_NODE: &str = "SLURM_STEP_TASKS_PER_NODE";
const SLURM_NODE: &str = "SLURM_NODEID";

/// The MPI library whose launcher started this process.
pub fn library() -> Option<Library> {
    let any = |names: &[&str]| names.iter().any(|name| env::var_os(name).is_some());
    if any(&OPEN_MPI) {
        Some(Library::OpenMpi)
    } else if any(&PMI) {
        Some(Library::Mpich)
    } else {
        None
    }
}

/// The rank that the launcher gave this process.
pub fn rank() -> Option<u32> {
    rank_in(|name| env::var(name).ok())
}

/// The rank that a launcher gave a process with these variables.
///
/// # Examples
/// ```
/// let rank = stasis_launcher::rank_in(|name| (name == "PMI_RANK").then(|| "3".to_owned()));
/// assert_eq!(rank, Some(3));
/// ```
pub fn rank_in(variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
    let number = |name: &str| variable(name)?.parse().ok();
    let by_mpi = RANK.iter().find_map(|name| number(name));
    by_mpi.or_else(|| variable(SLURM_SIZE).and_then(|_| number(SLURM_RANK)))
}

/// The number of ranks that the launcher started.
pub fn size() -> Option<u32> {
    first_number(&SIZE).or_else(|| number(SLURM_SIZE))
}

/// The launcher has told this process its rank and not the number of ranks. PRRTE does so without the settings for Open
/// MPI that mpiexec gives it.
#[derive(Debug)]
pub struct NoSize;

impl fmt::Display for NoSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the launcher has told this process its rank ({PMIX_RANK}) and not the number of ranks: start the job with \
             mpiexec, or with `prterun --personality ompi`"
        )
    }
}

impl std::error::Error for NoSize {}

/// Checks that the number of ranks is known where the rank is.
///
/// # Errors
/// [`NoSize`] if it is not.
pub fn check_size() -> Result<(), NoSize> {
    match env::var_os(PMIX_RANK).is_some() && size().is_none() {
        true => Err(NoSize),
        false => Ok(()),
    }
}

/// The number of ranks on this machine.
pub fn ranks_here() -> Option<u32> {
    first_number(&RANKS_HERE).or_else(|| {
        let node = usize::try_from(number(SLURM_NODE)?).ok()?;
        slurm_ranks_on(&env::var(SLURM_RANKS_PER_NODE).ok()?, node)
    })
}

/// Whether this is the first rank, or there is only one. Messages that are the same for all ranks are
/// printed by the first.
pub fn is_first() -> bool {
    rank().unwrap_or(0) == 0
}

/// `"rank 3: "` under a launcher, for messages; otherwise empty.
pub fn rank_label() -> String {
    rank().map_or_else(String::new, |rank| format!("rank {rank}: "))
}

fn number(name: &str) -> Option<u32> {
    env::var(name).ok()?.parse().ok()
}

fn first_number(names: &[&str]) -> Option<u32> {
    names.iter().find_map(|name| number(name))
}

/// The entry of the node with index `node` in a list like `4(x2),3`.
fn slurm_ranks_on(list: &str, node: usize) -> Option<u32> {
    let mut nodes_before = 0;
    for entry in list.split(',') {
        let (ranks, nodes) = match entry.split_once("(x") {
            Some((ranks, nodes)) => (ranks, nodes.strip_suffix(')')?.parse().ok()?),
            None => (entry, 1),
        };
        nodes_before += nodes;
        if node < nodes_before {
            return ranks.parse().ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::slurm_ranks_on;

    #[test]
    fn slurm_lists_are_read_by_node() {
        let on = |node| slurm_ranks_on("4(x2),3", node);
        assert_eq!(
            [on(0), on(1), on(2), on(3)],
            [Some(4), Some(4), Some(3), None]
        );
        assert_eq!(slurm_ranks_on("1", 0), Some(1));
        assert_eq!(slurm_ranks_on("4(x2", 0), None);
        assert_eq!(slurm_ranks_on("", 0), None);
    }
}
