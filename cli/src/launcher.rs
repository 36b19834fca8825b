//! Which launcher started this process, as its environment tells.

use crate::arguments::Mpi;

/// Variables that only Open MPI's launchers set.
const OPEN_MPI: [&str; 3] = [
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_UNIVERSE_SIZE",
    "PMIX_NAMESPACE",
];
/// Variables that Hydra (MPICH's launcher) and others that speak PMI set.
const PMI: [&str; 3] = ["PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"];
const RANK: [&str; 4] = [
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "SLURM_PROCID",
];
const SIZE: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"];

fn any(names: &[&str]) -> bool {
    names.iter().any(|name| std::env::var_os(name).is_some())
}

fn number(names: &[&str]) -> Option<u32> {
    names
        .iter()
        .find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// The MPI library whose launcher started this process.
pub fn mpi() -> Option<Mpi> {
    if any(&OPEN_MPI) {
        Some(Mpi::Openmpi)
    } else if any(&PMI) {
        Some(Mpi::Mpich)
    } else {
        None
    }
}

/// The rank that the launcher gave this process.
pub fn rank() -> Option<u32> {
    number(&RANK)
}

/// The number of ranks that the launcher started.
pub fn size() -> Option<u32> {
    number(&SIZE)
}

/// Where there are several ranks, only the first says what is the same for all.
pub fn is_first() -> bool {
    rank().unwrap_or(0) == 0
}

/// `"rank 3: "` under a launcher, for messages.
pub fn rank_label() -> String {
    rank().map_or_else(String::new, |rank| format!("rank {rank}: "))
}
