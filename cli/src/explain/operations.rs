//! Properties of MPI's functions that the waits of their callers depend on.

/// Collective operations in which each member needs all others, whatever the arguments. In the others, some member
/// may go on before some other one has come: the root of a broadcast, or a process that gets no data.
const SYNCHRONISING: &[&str] = &[
    "barrier",
    "allreduce",
    "allgather",
    "alltoall",
    "reduce_scatter_block",
    "comm_dup",
    "comm_dup_with_info",
    "comm_split",
    "comm_split_type",
    "comm_create",
    "cart_create",
    "graph_create",
    "dist_graph_create",
    "dist_graph_create_adjacent",
    "intercomm_merge",
    "win_create",
    "win_allocate",
    "win_allocate_shared",
    "win_create_dynamic",
    "win_fence",
    "win_free",
    "file_open",
    "file_close",
    "finalize",
];

/// Blocking functions that may wait for the receiver of a message.
const SENDS: &[&str] = &[
    "send",
    "ssend",
    "rsend",
    "bsend",
    "sendrecv",
    "sendrecv_replace",
];

/// Functions that a program calls again and again until something is there.
const POLLS: &[&str] = &[
    "test",
    "testall",
    "testany",
    "testsome",
    "iprobe",
    "improbe",
    "request_get_status",
];

/// The function without what differs between languages and counts: `allreduce` of MPI_Allreduce_c and mpi_allreduce_.
fn plain(function: &str) -> String {
    let lower = function.to_lowercase();
    let name = lower.trim_end_matches('_');
    let name = name.strip_prefix("mpi_").unwrap_or(name);
    let name = name.strip_suffix("_f08").unwrap_or(name);
    name.strip_suffix("_c").unwrap_or(name).to_owned()
}

/// Whether each member of this collective operation needs all others.
pub fn is_synchronising(function: &str) -> bool {
    SYNCHRONISING.contains(&plain(function).as_str())
}

/// Whether this function sends a message and may wait for its receiver.
pub fn sends(function: &str) -> bool {
    SENDS.contains(&plain(function).as_str())
}

/// Whether a program calls this function again and again until something is there.
pub fn polls(function: &str) -> bool {
    POLLS.contains(&plain(function).as_str())
}

/// Whether two names are of one function.
pub fn are_same(one: &str, other: &str) -> bool {
    plain(one) == plain(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_has_one_name_in_all_languages() {
        assert!(are_same("MPI_Allreduce", "mpi_allreduce_"));
        assert!(are_same("MPI_Allreduce_c", "MPI_Allreduce"));
        assert!(!are_same("MPI_Allreduce", "MPI_Reduce"));
        assert!(is_synchronising("MPI_Barrier") && !is_synchronising("MPI_Bcast"));
        assert!(polls("MPI_Testall") && !polls("MPI_Waitall"));
        assert!(sends("MPI_Ssend") && !sends("MPI_Recv"));
    }
}
