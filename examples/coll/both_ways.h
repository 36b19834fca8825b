/* One list of collective operations for both ways of doing them. In
 *     #define OPERATIONS(CALL, LAST) MPI_OK(CALL(barrier)(comm LAST)); ...
 * CALL(barrier)(comm LAST) is MPI_Barrier(comm) in OPERATIONS(BLOCKING, NO_REQUEST) and
 * MPI_Ibarrier(comm, &requests[n++]) in OPERATIONS(NONBLOCKING, A_REQUEST). */
#ifndef BOTH_WAYS_H
#define BOTH_WAYS_H

#define BLOCKING(name) MPI_B_##name
#define MPI_B_barrier MPI_Barrier
#define MPI_B_bcast MPI_Bcast
#define MPI_B_reduce MPI_Reduce
#define MPI_B_allreduce MPI_Allreduce
#define MPI_B_reduce_scatter_block MPI_Reduce_scatter_block
#define MPI_B_reduce_scatter MPI_Reduce_scatter
#define MPI_B_scan MPI_Scan
#define MPI_B_exscan MPI_Exscan
#define MPI_B_gather MPI_Gather
#define MPI_B_gatherv MPI_Gatherv
#define MPI_B_scatter MPI_Scatter
#define MPI_B_scatterv MPI_Scatterv
#define MPI_B_allgather MPI_Allgather
#define MPI_B_allgatherv MPI_Allgatherv
#define MPI_B_alltoall MPI_Alltoall
#define MPI_B_alltoallv MPI_Alltoallv
#define MPI_B_alltoallw MPI_Alltoallw
#define NONBLOCKING(name) MPI_I##name
#define NO_REQUEST
#define A_REQUEST , &requests[n++]

#endif
