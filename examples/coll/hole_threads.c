//#Ranks: 4
//#Shows: the second hole where two threads of a rank wait for messages of different ranks, one of which is parked
//#Cut: pending
//#Flags: -pthread
#include "../stasis_test.h"

#include <pthread.h>

/* Ranks 0 and 2 are G, rank 1 is H. As in hole_dependence, rank 0 must receive from rank 1 before its
 * barrier on G, in which rank 2 is already, and rank 1 comes to its barrier on H first. But rank 0
 * has another thread that waits for rank 3 at the same time, which sends when all that is over: what
 * either thread says of itself must not hide the other. */

static char first[64], second[64];

static void *wait_for_3(void *unused)
{
    (void)unused;
    MPI_OK(MPI_Recv(second, sizeof second, MPI_BYTE, 3, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    test_verify(second, sizeof second, 6);
    return NULL;
}

int main(int argc, char **argv)
{
    MPI_Comm half;
    pthread_t thread;
    test_start_threads(&argc, &argv, MPI_THREAD_MULTIPLE);
    MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, test_rank % 2 ? test_rank : 0, test_rank, &half));
    if (test_rank == 0) {
        pthread_create(&thread, NULL, wait_for_3, NULL);
        cut_announce();
        MPI_OK(MPI_Recv(first, sizeof first, MPI_BYTE, 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MPI_OK(MPI_Barrier(half));
        MPI_OK(MPI_Send(first, 1, MPI_BYTE, 3, 7, MPI_COMM_WORLD));
        pthread_join(thread, NULL);
        test_verify(first, sizeof first, 5);
    } else if (test_rank == 1) {
        cut();
        MPI_OK(MPI_Barrier(half));
        test_fill(first, sizeof first, 5);
        MPI_OK(MPI_Send(first, sizeof first, MPI_BYTE, 0, 5, MPI_COMM_WORLD));
    } else if (test_rank == 2) {
        cut_announce();
        MPI_OK(MPI_Barrier(half));
    } else {
        cut_announce();
        MPI_OK(MPI_Recv(first, 1, MPI_BYTE, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        test_fill(second, sizeof second, 6);
        MPI_OK(MPI_Send(second, sizeof second, MPI_BYTE, 0, 6, MPI_COMM_WORLD));
    }
    MPI_OK(MPI_Comm_free(&half));
    return test_finish("hole_threads");
}
