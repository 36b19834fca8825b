/* Sums of vectors, and messages around a ring, of growing size. Rank 0 prints what all ranks have got, so that a wrong
 * number on any rank is seen by whoever reads the output; the program itself notices nothing. It has no bug: library.c
 * has two for it. With -DNONBLOCKING the sums are non-blocking operations. */
#include <mpi.h>
#include <stdio.h>

enum { STEPS = 12 };

int main(int argc, char **argv)
{
    int rank, size;
    long got[2] = {0, 0}, total[2];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int step = 1; step <= STEPS; step++) {
        long own[STEPS], sums[STEPS], in[STEPS];
        MPI_Request request;
        for (int i = 0; i < step; i++)
            own[i] = 100 * step + 10 * i + rank;
#ifdef NONBLOCKING
        MPI_Iallreduce(own, sums, step, MPI_LONG, MPI_SUM, MPI_COMM_WORLD, &request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
#else
        MPI_Allreduce(own, sums, step, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
#endif
        MPI_Irecv(in, step, MPI_LONG, (rank + size - 1) % size, step, MPI_COMM_WORLD, &request);
        MPI_Send(own, step, MPI_LONG, (rank + 1) % size, step, MPI_COMM_WORLD);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int i = 0; i < step; i++) {
            got[0] += sums[i];
            got[1] += in[i];
        }
    }
    MPI_Reduce(got, total, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("sums %ld, messages %ld\n", total[0], total[1]);
    MPI_Finalize();
    return 0;
}
