/* Calls a function that is in the MPI library at hand but in no standard and not in our table. */
#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
#ifdef OPEN_MPI
    MPI_Request request;
    MPIX_Barrier_init(MPI_COMM_WORLD, MPI_INFO_NULL, &request);
#else
    MPIX_Comm_failure_ack(MPI_COMM_WORLD);
#endif
    return MPI_Finalize();
}
