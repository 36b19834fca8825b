//#Ranks: 2
//#Cut: loop
//#Flags: -pthread
//#Shows: MPI_THREAD_MULTIPLE: two threads a rank, each with its own communicator and messages
#include "../stasis_test.h"

#include <pthread.h>

typedef struct {
    int id, stopping;
    MPI_Comm comm;
} worker;

/* Rank 0's main thread stops the workers through a message of their own. */
static void *work(void *argument)
{
    worker *w = argument;
    int other = 1 - test_rank, go_on = 1;
    for (int step = 0; go_on; step++) {
        int out[2] = {w->id, step}, in[2] = {-1, -1}, sum = 0;
        MPI_OK(MPI_Sendrecv(out, 2, MPI_INT, other, w->id, in, 2, MPI_INT, other, w->id, MPI_COMM_WORLD,
                            MPI_STATUS_IGNORE));
        CHECK(in[0] == w->id && in[1] == step, "thread %d got %d, %d", w->id, in[0], in[1]);
        MPI_OK(MPI_Allreduce(&step, &sum, 1, MPI_INT, MPI_SUM, w->comm));
        CHECK_EQ(sum, 2 * step);
        if (test_rank == 0)
            go_on = !__atomic_load_n(&w->stopping, __ATOMIC_RELAXED);
        MPI_OK(MPI_Bcast(&go_on, 1, MPI_INT, 0, w->comm));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    test_start_threads(&argc, &argv, MPI_THREAD_MULTIPLE);
    worker workers[2];
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        workers[i].id = i + 1;
        workers[i].stopping = 0;
        MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].comm));
    }
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, work, &workers[i]);
    cut();
    for (int i = 0; i < 2; i++)
        __atomic_store_n(&workers[i].stopping, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        MPI_OK(MPI_Comm_free(&workers[i].comm));
    }
    return test_finish_loop("thread_multiple");
}
