//! Persistent collectives as an extension of Open MPI (`MPIX_Bcast_init` ...), to which its library for `mpi_f08`
//! refers. A call of one is refused with its name, and ends the job: the functions do not read their arguments.
#![allow(unsafe_code)]

use contract::abi::ERR_UNSUPPORTED_OPERATION;
use stasis_front_common::world;

macro_rules! refused {
    ($($function:ident: $name:literal, $($spelling:ident)*;)*) => {$(
        #[doc = concat!("`", $name, "`: refused.")]
        #[no_mangle]
        pub extern "C" fn $function() {
            refuse($name);
        }
        spellings! { $function: $($spelling),* }
    )*};
}

refused! {
    ompix_allgather_init_f: "MPIX_Allgather_init",
        mpix_allgather_init pmpix_allgather_init mpix_allgather_init_ pmpix_allgather_init_
        mpix_allgather_init__ pmpix_allgather_init__ MPIX_ALLGATHER_INIT PMPIX_ALLGATHER_INIT
        MPIX_Allgather_init_f PMPIX_Allgather_init_f MPIX_Allgather_init_f08
        PMPIX_Allgather_init_f08;
    ompix_allgatherv_init_f: "MPIX_Allgatherv_init",
        mpix_allgatherv_init pmpix_allgatherv_init mpix_allgatherv_init_ pmpix_allgatherv_init_
        mpix_allgatherv_init__ pmpix_allgatherv_init__ MPIX_ALLGATHERV_INIT PMPIX_ALLGATHERV_INIT
        MPIX_Allgatherv_init_f PMPIX_Allgatherv_init_f MPIX_Allgatherv_init_f08
        PMPIX_Allgatherv_init_f08;
    ompix_allreduce_init_f: "MPIX_Allreduce_init",
        mpix_allreduce_init pmpix_allreduce_init mpix_allreduce_init_ pmpix_allreduce_init_
        mpix_allreduce_init__ pmpix_allreduce_init__ MPIX_ALLREDUCE_INIT PMPIX_ALLREDUCE_INIT
        MPIX_Allreduce_init_f PMPIX_Allreduce_init_f MPIX_Allreduce_init_f08
        PMPIX_Allreduce_init_f08;
    ompix_alltoall_init_f: "MPIX_Alltoall_init",
        mpix_alltoall_init pmpix_alltoall_init mpix_alltoall_init_ pmpix_alltoall_init_
        mpix_alltoall_init__ pmpix_alltoall_init__ MPIX_ALLTOALL_INIT PMPIX_ALLTOALL_INIT
        MPIX_Alltoall_init_f PMPIX_Alltoall_init_f MPIX_Alltoall_init_f08 PMPIX_Alltoall_init_f08;
    ompix_alltoallv_init_f: "MPIX_Alltoallv_init",
        mpix_alltoallv_init pmpix_alltoallv_init mpix_alltoallv_init_ pmpix_alltoallv_init_
        mpix_alltoallv_init__ pmpix_alltoallv_init__ MPIX_ALLTOALLV_INIT PMPIX_ALLTOALLV_INIT
        MPIX_Alltoallv_init_f PMPIX_Alltoallv_init_f MPIX_Alltoallv_init_f08
        PMPIX_Alltoallv_init_f08;
    ompix_alltoallw_init_f: "MPIX_Alltoallw_init",
        mpix_alltoallw_init pmpix_alltoallw_init mpix_alltoallw_init_ pmpix_alltoallw_init_
        mpix_alltoallw_init__ pmpix_alltoallw_init__ MPIX_ALLTOALLW_INIT PMPIX_ALLTOALLW_INIT
        MPIX_Alltoallw_init_f PMPIX_Alltoallw_init_f MPIX_Alltoallw_init_f08
        PMPIX_Alltoallw_init_f08;
    ompix_barrier_init_f: "MPIX_Barrier_init",
        mpix_barrier_init pmpix_barrier_init mpix_barrier_init_ pmpix_barrier_init_
        mpix_barrier_init__ pmpix_barrier_init__ MPIX_BARRIER_INIT PMPIX_BARRIER_INIT
        MPIX_Barrier_init_f PMPIX_Barrier_init_f MPIX_Barrier_init_f08 PMPIX_Barrier_init_f08;
    ompix_bcast_init_f: "MPIX_Bcast_init",
        mpix_bcast_init pmpix_bcast_init mpix_bcast_init_ pmpix_bcast_init_ mpix_bcast_init__
        pmpix_bcast_init__ MPIX_BCAST_INIT PMPIX_BCAST_INIT MPIX_Bcast_init_f PMPIX_Bcast_init_f
        MPIX_Bcast_init_f08 PMPIX_Bcast_init_f08;
    ompix_exscan_init_f: "MPIX_Exscan_init",
        mpix_exscan_init pmpix_exscan_init mpix_exscan_init_ pmpix_exscan_init_
        mpix_exscan_init__ pmpix_exscan_init__ MPIX_EXSCAN_INIT PMPIX_EXSCAN_INIT
        MPIX_Exscan_init_f PMPIX_Exscan_init_f MPIX_Exscan_init_f08 PMPIX_Exscan_init_f08;
    ompix_gather_init_f: "MPIX_Gather_init",
        mpix_gather_init pmpix_gather_init mpix_gather_init_ pmpix_gather_init_
        mpix_gather_init__ pmpix_gather_init__ MPIX_GATHER_INIT PMPIX_GATHER_INIT
        MPIX_Gather_init_f PMPIX_Gather_init_f MPIX_Gather_init_f08 PMPIX_Gather_init_f08;
    ompix_gatherv_init_f: "MPIX_Gatherv_init",
        mpix_gatherv_init pmpix_gatherv_init mpix_gatherv_init_ pmpix_gatherv_init_
        mpix_gatherv_init__ pmpix_gatherv_init__ MPIX_GATHERV_INIT PMPIX_GATHERV_INIT
        MPIX_Gatherv_init_f PMPIX_Gatherv_init_f MPIX_Gatherv_init_f08 PMPIX_Gatherv_init_f08;
    ompix_neighbor_allgather_init_f: "MPIX_Neighbor_allgather_init",
        mpix_neighbor_allgather_init pmpix_neighbor_allgather_init mpix_neighbor_allgather_init_
        pmpix_neighbor_allgather_init_ mpix_neighbor_allgather_init__
        pmpix_neighbor_allgather_init__ MPIX_NEIGHBOR_ALLGATHER_INIT
        PMPIX_NEIGHBOR_ALLGATHER_INIT MPIX_Neighbor_allgather_init_f
        PMPIX_Neighbor_allgather_init_f MPIX_Neighbor_allgather_init_f08
        PMPIX_Neighbor_allgather_init_f08;
    ompix_neighbor_allgatherv_init_f: "MPIX_Neighbor_allgatherv_init",
        mpix_neighbor_allgatherv_init pmpix_neighbor_allgatherv_init
        mpix_neighbor_allgatherv_init_ pmpix_neighbor_allgatherv_init_
        mpix_neighbor_allgatherv_init__ pmpix_neighbor_allgatherv_init__
        MPIX_NEIGHBOR_ALLGATHERV_INIT PMPIX_NEIGHBOR_ALLGATHERV_INIT
        MPIX_Neighbor_allgatherv_init_f PMPIX_Neighbor_allgatherv_init_f
        MPIX_Neighbor_allgatherv_init_f08 PMPIX_Neighbor_allgatherv_init_f08;
    ompix_neighbor_alltoall_init_f: "MPIX_Neighbor_alltoall_init",
        mpix_neighbor_alltoall_init pmpix_neighbor_alltoall_init mpix_neighbor_alltoall_init_
        pmpix_neighbor_alltoall_init_ mpix_neighbor_alltoall_init__
        pmpix_neighbor_alltoall_init__ MPIX_NEIGHBOR_ALLTOALL_INIT PMPIX_NEIGHBOR_ALLTOALL_INIT
        MPIX_Neighbor_alltoall_init_f PMPIX_Neighbor_alltoall_init_f
        MPIX_Neighbor_alltoall_init_f08 PMPIX_Neighbor_alltoall_init_f08;
    ompix_neighbor_alltoallv_init_f: "MPIX_Neighbor_alltoallv_init",
        mpix_neighbor_alltoallv_init pmpix_neighbor_alltoallv_init mpix_neighbor_alltoallv_init_
        pmpix_neighbor_alltoallv_init_ mpix_neighbor_alltoallv_init__
        pmpix_neighbor_alltoallv_init__ MPIX_NEIGHBOR_ALLTOALLV_INIT
        PMPIX_NEIGHBOR_ALLTOALLV_INIT MPIX_Neighbor_alltoallv_init_f
        PMPIX_Neighbor_alltoallv_init_f MPIX_Neighbor_alltoallv_init_f08
        PMPIX_Neighbor_alltoallv_init_f08;
    ompix_neighbor_alltoallw_init_f: "MPIX_Neighbor_alltoallw_init",
        mpix_neighbor_alltoallw_init pmpix_neighbor_alltoallw_init mpix_neighbor_alltoallw_init_
        pmpix_neighbor_alltoallw_init_ mpix_neighbor_alltoallw_init__
        pmpix_neighbor_alltoallw_init__ MPIX_NEIGHBOR_ALLTOALLW_INIT
        PMPIX_NEIGHBOR_ALLTOALLW_INIT MPIX_Neighbor_alltoallw_init_f
        PMPIX_Neighbor_alltoallw_init_f MPIX_Neighbor_alltoallw_init_f08
        PMPIX_Neighbor_alltoallw_init_f08;
    ompix_reduce_init_f: "MPIX_Reduce_init",
        mpix_reduce_init pmpix_reduce_init mpix_reduce_init_ pmpix_reduce_init_
        mpix_reduce_init__ pmpix_reduce_init__ MPIX_REDUCE_INIT PMPIX_REDUCE_INIT
        MPIX_Reduce_init_f PMPIX_Reduce_init_f MPIX_Reduce_init_f08 PMPIX_Reduce_init_f08;
    ompix_reduce_scatter_block_init_f: "MPIX_Reduce_scatter_block_init",
        mpix_reduce_scatter_block_init pmpix_reduce_scatter_block_init
        mpix_reduce_scatter_block_init_ pmpix_reduce_scatter_block_init_
        mpix_reduce_scatter_block_init__ pmpix_reduce_scatter_block_init__
        MPIX_REDUCE_SCATTER_BLOCK_INIT PMPIX_REDUCE_SCATTER_BLOCK_INIT
        MPIX_Reduce_scatter_block_init_f PMPIX_Reduce_scatter_block_init_f
        MPIX_Reduce_scatter_block_init_f08 PMPIX_Reduce_scatter_block_init_f08;
    ompix_reduce_scatter_init_f: "MPIX_Reduce_scatter_init",
        mpix_reduce_scatter_init pmpix_reduce_scatter_init mpix_reduce_scatter_init_
        pmpix_reduce_scatter_init_ mpix_reduce_scatter_init__ pmpix_reduce_scatter_init__
        MPIX_REDUCE_SCATTER_INIT PMPIX_REDUCE_SCATTER_INIT MPIX_Reduce_scatter_init_f
        PMPIX_Reduce_scatter_init_f MPIX_Reduce_scatter_init_f08 PMPIX_Reduce_scatter_init_f08;
    ompix_scan_init_f: "MPIX_Scan_init",
        mpix_scan_init pmpix_scan_init mpix_scan_init_ pmpix_scan_init_ mpix_scan_init__
        pmpix_scan_init__ MPIX_SCAN_INIT PMPIX_SCAN_INIT MPIX_Scan_init_f PMPIX_Scan_init_f
        MPIX_Scan_init_f08 PMPIX_Scan_init_f08;
    ompix_scatter_init_f: "MPIX_Scatter_init",
        mpix_scatter_init pmpix_scatter_init mpix_scatter_init_ pmpix_scatter_init_
        mpix_scatter_init__ pmpix_scatter_init__ MPIX_SCATTER_INIT PMPIX_SCATTER_INIT
        MPIX_Scatter_init_f PMPIX_Scatter_init_f MPIX_Scatter_init_f08 PMPIX_Scatter_init_f08;
    ompix_scatterv_init_f: "MPIX_Scatterv_init",
        mpix_scatterv_init pmpix_scatterv_init mpix_scatterv_init_ pmpix_scatterv_init_
        mpix_scatterv_init__ pmpix_scatterv_init__ MPIX_SCATTERV_INIT PMPIX_SCATTERV_INIT
        MPIX_Scatterv_init_f PMPIX_Scatterv_init_f MPIX_Scatterv_init_f08 PMPIX_Scatterv_init_f08;
}

#[cold]
fn refuse(name: &str) {
    let _guard = upper_half::CallGuard::enter();
    upper_half::unsupported(
        name,
        "it is an extension of Open MPI; use the non-blocking form of MPI 3.1",
    );
    upper_half::abort(world(), ERR_UNSUPPORTED_OPERATION);
}
