//#Ranks: 3
//#Cut: loop
//#Flags: -pthread
//#Matrix: full
//#Shows: intercommunicators that threads make at the same time between the same ranks and with the same tag, each over a peer communicator of its own
#include "../stasis_test.h"

#include <pthread.h>

/* Below, the leaders of two intercommunicators tell each other apart by the communicator between them
 * alone: where threads share one there, an intercommunicator has a side of each. */
enum { THREADS = 4, STEPS = 8, TAG = 5 };

typedef struct {
    int id, stopping;
    MPI_Comm peer, local;
} worker;

static void use(const worker *w, MPI_Comm inter, int step)
{
    int out[2] = {w->id, step}, in[2] = {-1, -1}, size;
    MPI_OK(MPI_Comm_remote_size(inter, &size));
    for (int i = 0; i < size; i++) {
        MPI_OK(MPI_Sendrecv(out, 2, MPI_INT, i, TAG, in, 2, MPI_INT, i, TAG, inter, MPI_STATUS_IGNORE));
        CHECK(in[0] == w->id && in[1] == step, "thread %d got %d, %d", w->id, in[0], in[1]);
    }
    MPI_OK(MPI_Barrier(inter));
}

/* Rank 0's main thread stops the workers through a message of their own, some steps later. */
static void *work(void *argument)
{
    worker *w = argument;
    int left = STEPS, last = test_rank == test_size - 1;
    for (int step = 0; left > 0; step++) {
        MPI_Comm inter;
        MPI_OK(MPI_Intercomm_create(w->local, 0, w->peer, last ? 0 : test_size - 1, TAG, &inter));
        use(w, inter, step);
        MPI_OK(MPI_Comm_free(&inter));
        if (test_rank == 0 && __atomic_load_n(&w->stopping, __ATOMIC_RELAXED))
            left--;
        MPI_OK(MPI_Bcast(&left, 1, MPI_INT, 0, w->peer));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    test_start_threads(&argc, &argv, MPI_THREAD_MULTIPLE);
    worker workers[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.id = i};
        MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &workers[i].peer));
        MPI_OK(MPI_Comm_split(workers[i].peer, test_rank == test_size - 1, test_rank, &workers[i].local));
    }
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    cut();
    for (int i = 0; i < THREADS; i++)
        __atomic_store_n(&workers[i].stopping, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
        MPI_OK(MPI_Comm_free(&workers[i].local));
        MPI_OK(MPI_Comm_free(&workers[i].peer));
    }
    return test_finish_loop("intercomms");
}
