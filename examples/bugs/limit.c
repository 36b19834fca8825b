/* Rank 1 sends a message of 4 KiB, and one with a byte more. Rank 0 prints a sum of the bytes of each, so that a wrong
 * one is seen by whoever reads the output. The program has no bug: library.c has one for it. */
#include <mpi.h>
#include <stdio.h>

enum { SMALL = 4096, MESSAGES = 2 };

int main(int argc, char **argv)
{
    static unsigned char data[SMALL + MESSAGES];
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < MESSAGES; i++) {
        int bytes = SMALL + i;
        for (int at = 0; rank == 1 && at < bytes; at++)
            data[at] = (unsigned char)(7 * at + i);
        if (rank == 1)
            MPI_Send(data, bytes, MPI_BYTE, 0, i, MPI_COMM_WORLD);
        if (rank == 0) {
            long sum = 0;
            MPI_Recv(data, bytes, MPI_BYTE, 1, i, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            for (int at = 0; at < bytes; at++)
                sum += data[at];
            printf("%d bytes, sum %ld\n", bytes, sum);
        }
    }
    MPI_Finalize();
    return 0;
}
