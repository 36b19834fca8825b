/* The two programs of Figure 4 of "Debugging MPI Implementations via Reduction-to-Primitives": a loop of MPI_Reduce, and
 * one of MPI_Alltoall followed by one MPI_Allreduce.
 *
 * loops reduce|alltoall TIMES: prints `seconds` and `checksum`. */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 256 };

int main(int argc, char **argv)
{
    int rank, size;
    if (argc < 3)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    size_t words = (size_t)size * WORDS;
    long *out = calloc(words, sizeof *out), *in = calloc(words, sizeof *in), own = 0, sum = 0;
    if (!out || !in)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    for (int i = 0, times = atoi(argv[2]); i < times; i++) {
        out[i % WORDS] += rank + i;
        if (strcmp(argv[1], "reduce") == 0)
            MPI_Reduce(out, in, WORDS, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
        else
            MPI_Alltoall(out, WORDS, MPI_LONG, in, WORDS, MPI_LONG, MPI_COMM_WORLD);
    }
    for (size_t i = 0; i < words; i++)
        own += in[i];
    MPI_Allreduce(&own, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("seconds %.6f\nchecksum %ld\n", MPI_Wtime() - begun, sum);
    MPI_Finalize();
    return 0;
}
