/* Sends messages to itself, and tests for their end and for that of a generalized request in all ways. A checkpoint
 * often finds it in the call that the query function makes, in the middle of a test.
 *
 * tested ROUNDS */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>

enum { REQUESTS = 3 };

static int query(void *extra, MPI_Status *status)
{
    (void)extra;
    MPI_Status_set_elements(status, MPI_INT, 1);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = status->MPI_TAG = MPI_UNDEFINED;
    return MPI_SUCCESS;
}

static int free_it(void *extra) { return (void)extra, MPI_SUCCESS; }
static int cancel(void *extra, int complete) { return (void)extra, (void)complete, MPI_SUCCESS; }

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    long rounds = argc > 1 ? atol(argv[1]) : 1, found = 0, misses = 0;
    for (long round = 0; round < rounds; round++) {
        long sent = round, received = -1;
        int done = 0, indices[REQUESTS], flag;
        MPI_Request requests[REQUESTS];
        MPI_Irecv(&received, 1, MPI_LONG, MPI_ANY_SOURCE, 0, MPI_COMM_SELF, &requests[0]);
        MPI_Isend(&sent, 1, MPI_LONG, 0, 0, MPI_COMM_SELF, &requests[1]);
        MPI_Grequest_start(query, free_it, cancel, NULL, &requests[2]);
        MPI_Grequest_complete(requests[2]);
        while (done < REQUESTS) {
            int now = 0, index;
            switch (round % 4) {
            case 0:
                MPI_Testall(REQUESTS, requests, &flag, MPI_STATUSES_IGNORE);
                now = flag ? REQUESTS : 0;
                break;
            case 1:
                MPI_Testsome(REQUESTS, requests, &now, indices, MPI_STATUSES_IGNORE);
                break;
            case 2:
                MPI_Testany(REQUESTS, requests, &index, &flag, MPI_STATUS_IGNORE);
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
