/* Sends messages to itself, and tests for their end in all ways. A checkpoint finds it in a test, most of the time.
 *
 * tested ROUNDS */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    long rounds = argc > 1 ? atol(argv[1]) : 1, found = 0, misses = 0;
    for (long round = 0; round < rounds; round++) {
        long sent = round, received = -1;
        int done = 0, indices[2], flag;
        MPI_Request requests[2];
        MPI_Irecv(&received, 1, MPI_LONG, MPI_ANY_SOURCE, 0, MPI_COMM_SELF, &requests[0]);
        MPI_Isend(&sent, 1, MPI_LONG, 0, 0, MPI_COMM_SELF, &requests[1]);
        while (done < 2) {
            int now = 0, index;
            switch (round % 4) {
            case 0:
                MPI_Testall(2, requests, &flag, MPI_STATUSES_IGNORE);
                now = flag ? 2 : 0;
                break;
            case 1:
                MPI_Testsome(2, requests, &now, indices, MPI_STATUSES_IGNORE);
                break;
            case 2:
                MPI_Testany(2, requests, &index, &flag, MPI_STATUS_IGNORE);
                now = flag;
                break;
            default:
                MPI_Test(&requests[done], &flag, MPI_STATUS_IGNORE);
                now = flag;
            }
            misses += now == 0;
            done += now;
        }
        found += received == round;
    }
    printf("found %ld, misses %ld\n", found, misses);
    MPI_Finalize();
    return 0;
}
