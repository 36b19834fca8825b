/* The program of `cargo xtask bench late`: all ranks but the last are in an operation of MPI_COMM_WORLD, until the last
 * one comes to it when a file appears. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void sum(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((int *)inout)[i] += ((int *)in)[i];
}

int main(int argc, char **argv)
{
    int rank, size, one = 1, all = 0;
    struct timespec pause = {0, 1000000};
    MPI_Op own;

    MPI_Init(&argc, &argv);
    if (argc < 3)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Op_create(sum, 1, &own);
    while (rank == size - 1 && access(argv[1], F_OK) != 0)
        nanosleep(&pause, NULL);
    if (strcmp(argv[2], "barrier") == 0)
        MPI_Barrier(MPI_COMM_WORLD);
    else
        MPI_Allreduce(&one, &all, 1, MPI_INT, own, MPI_COMM_WORLD);
    MPI_Op_free(&own);
    MPI_Finalize();
    return 0;
}
