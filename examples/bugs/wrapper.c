/* A library between a program and MPI, as a tool or a site has one, with a fault: every 5th sum of MPI_Allreduce is one too
 * much. To be preloaded. It is above Stasis, so that reducing MPI_Allreduce does not change it. */
#include <mpi.h>

int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype datatype, MPI_Op op, MPI_Comm comm)
{
    static int calls;
    int code = PMPI_Allreduce(sendbuf, recvbuf, count, datatype, op, comm);
    if (++calls % 5 == 0 && datatype == MPI_LONG)
        *(long *)recvbuf += 1;
    return code;
}
