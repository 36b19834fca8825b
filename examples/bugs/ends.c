/* A thread of rank 0 sends as many messages as the argument says, and ends. Then the initial thread sends the last one.
 * A replay with a smaller number has a thread that ends before its next recorded call. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { MORE = 1, LAST = 2 };

static void *sends(void *number)
{
    for (int i = 0; i < *(int *)number; i++)
        MPI_Send(&i, 1, MPI_INT, 1, MORE, MPI_COMM_WORLD);
    return NULL;
}

int main(int argc, char **argv)
{
    int provided, rank, number = argc > 1 ? atoi(argv[1]) : 3, got = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, sends, &number) || pthread_join(thread, NULL))
            MPI_Abort(MPI_COMM_WORLD, 1);
        MPI_Send(&number, 1, MPI_INT, 1, LAST, MPI_COMM_WORLD);
    } else {
        for (MPI_Status status = {.MPI_TAG = MORE}; status.MPI_TAG == MORE; got++)
            MPI_Recv(&number, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        printf("got %d messages\n", got);
    }
    MPI_Finalize();
    return 0;
}
