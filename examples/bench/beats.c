/* The program of `cargo xtask bench recovery`: each rank has some MiB of memory, makes a collective operation each
 * millisecond, and prints the number of the operation and the time. After a restart the numbers go on from the
 * checkpoint. It ends when it is killed. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int main(int argc, char **argv)
{
    size_t bytes = (argc > 1 ? strtoul(argv[1], NULL, 10) : 1) << 20;
    struct timespec now, pause = {0, 1000000};
    unsigned long *memory;
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    memory = malloc(bytes);
    if (memory == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    /* No two words are equal, so that nothing can be compressed or left out. */
    srand48(rank);
    for (size_t i = 0; i < bytes / sizeof *memory; i++)
        memory[i] = (unsigned long)mrand48() << 32 ^ (unsigned long)mrand48();
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (unsigned long beat = 1;; beat++) {
        memory[beat % (bytes / sizeof *memory)] += beat;
        MPI_Barrier(MPI_COMM_WORLD);
        clock_gettime(CLOCK_REALTIME, &now);
        printf("%d %lu %.6f\n", rank, beat, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
        nanosleep(&pause, NULL);
    }
}
