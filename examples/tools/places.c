/* A job whose threads are in places that a test names: rank 0 receives, rank 1 computes, and a second thread of
 * rank 1 sleeps in a system call. */
#include "../stasis_test.h"
#include <pthread.h>

/* Keeps the call from being the last one of its function, which would leave no frame. */
#define NOT_LAST() __asm__ volatile("")

static __attribute__((noinline)) void *the_second_thread(void *end)
{
    char byte;
    while (read(*(int *)end, &byte, 1) < 0)
        continue;
    NOT_LAST();
    return NULL;
}

static __attribute__((noinline)) int the_receiver(void)
{
    int value = 0;
    MPI_OK(MPI_Recv(&value, 1, MPI_INT, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    NOT_LAST();
    return value;
}

static __attribute__((noinline)) void the_computation(void)
{
    volatile unsigned rounds = 0;
    while (!cut_open())
        rounds++;
    NOT_LAST();
}

int main(int argc, char **argv)
{
    int value = 5, ends[2];
    pthread_t second;
    test_start(&argc, &argv);
    if (test_rank == 1) {
        if (pipe(ends) != 0 || pthread_create(&second, NULL, the_second_thread, ends) != 0)
            return 1;
    }
    cut_announce();
    if (test_rank == 0) {
        value = the_receiver();
    } else if (test_rank == 1) {
        the_computation();
        MPI_OK(MPI_Send(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD));
        close(ends[1]);
        pthread_join(second, NULL);
    }
    test_add(&value, sizeof value);
    return test_finish("places");
}
