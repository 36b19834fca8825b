/* Calls a function that is in the MPI library at hand but in no standard and not in our table. */
#include <mpi.h>
#ifdef OPEN_MPI
#include <mpi-ext.h>
#endif

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
#ifdef OPEN_MPI
    int answer = MPIX_Query_cuda_support();
#else
    int answer = 0;
    MPIX_Comm_failure_ack(MPI_COMM_WORLD);
#endif
    MPI_Finalize();
    return answer;
}
