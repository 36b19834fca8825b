//#Shows: a program that ends without MPI_Finalize, in the way that it is told: `profile/counts/early` asks for its calls
//#Ranks: 2
//#Mpi: openmpi, mpich
//#Cut: none
#include "../stasis_test.h"
#include <signal.h>

int main(int argc, char **argv)
{
    MPI_OK(MPI_Init(&argc, &argv));
    MPI_OK(MPI_Comm_rank(MPI_COMM_WORLD, &test_rank));
    for (int round = 0; round < 10; round++)
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    /* The launcher ends the others. */
    while (test_rank > 0)
        pause();
    if (strcmp(argv[1], "abort") == 0)
        MPI_Abort(MPI_COMM_WORLD, 4);
    if (strcmp(argv[1], "signal") == 0)
        raise(SIGKILL);
    exit(4);
}
