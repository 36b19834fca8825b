//#Ranks: 2
//#Shows: first hole: two communicators of one group, entered in opposite orders
//#Variant: once; cut=pending; matrix=full; hangs=group-clocks
//#Variant: loop; cut=loop
//#Variant: threads; cut=pending
//#Flags: -pthread
#include "../stasis_test.h"

#include <pthread.h>

/* With one clock for all communicators of a group, each rank seems to have reached the target
 * after its first barrier, although neither barrier can complete. */

static void *barrier_on(void *comm)
{
    MPI_OK(MPI_Barrier(*(MPI_Comm *)comm));
    return NULL;
}

int main(int argc, char **argv)
{
    int threads = test_is(argc, argv, "threads");
    test_start_threads(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    MPI_Comm comms[2];
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]));
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[1]));
    int first = test_rank % 2;
    if (threads) {
        /* Each rank has a thread inside the barrier of one duplicate when it is cut. */
        pthread_t thread;
        pthread_create(&thread, NULL, barrier_on, &comms[first]);
        cut();
        MPI_OK(MPI_Barrier(comms[1 - first]));
        pthread_join(thread, NULL);
    } else if (test_is(argc, argv, "once")) {
        MPI_Request requests[2];
        MPI_OK(MPI_Ibarrier(comms[first], &requests[0]));
        cut();
        MPI_OK(MPI_Ibarrier(comms[1 - first], &requests[1]));
        MPI_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    } else {
        for (int step = 0; cut_more(step, 300, MPI_COMM_WORLD); step++) {
            MPI_Request requests[2];
            int one = 1, sums[2] = {0, 0};
            MPI_OK(MPI_Iallreduce(&one, &sums[0], 1, MPI_INT, MPI_SUM, comms[first], &requests[0]));
            MPI_OK(MPI_Iallreduce(&one, &sums[1], 1, MPI_INT, MPI_SUM, comms[1 - first], &requests[1]));
            MPI_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
            CHECK(sums[0] == 2 && sums[1] == 2, "step %d: sums %d and %d", step, sums[0], sums[1]);
        }
    }
    MPI_OK(MPI_Comm_free(&comms[0]));
    MPI_OK(MPI_Comm_free(&comms[1]));
    return test_finish_loop(argv[1]);
}
