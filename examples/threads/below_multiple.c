//#Ranks: 2
//#Mpi: openmpi
//#Cut: loop
//#Flags: -pthread
//#Compare: none
//#Timeout: 120
//#Shows: two threads that are in MPI at once below MPI_THREAD_MULTIPLE, as MPQC's are: one waits in MPI_Recv for whatever comes, the other communicates; none is lost and none comes twice. Natively the library may crash, so there is no native run to compare with
//#Variant: single; modes=plain, continue, restart, migrate, cycle
//#Variant: funneled; modes=plain, continue, restart, migrate
//#Variant: serialized; modes=plain, continue, restart, migrate
#include "../stasis_test.h"

#include <pthread.h>

enum { DATA, END, STEPS = 300, EACH = 20 };

/* Takes what the other rank's main thread sends, until it says how many messages there were. Nothing is printed
 * that depends on their number, which depends on the cut. */
static void *serves(void *argument)
{
    for (int64_t expected = 0;; expected++) {
        int64_t message[2];
        MPI_Status status;
        MPI_OK(MPI_Recv(message, 2, MPI_INT64_T, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
        CHECK_EQ(message[0], expected);
        if (status.MPI_TAG == END)
            return argument;
        CHECK_EQ(message[1], expected * status.MPI_SOURCE);
    }
}

/* Messages to itself by requests, which both threads' calls have lists and locks for. */
static void to_itself(int step)
{
    enum { N = 8 };
    int out[N], in[N];
    MPI_Request requests[2 * N];
    for (int i = 0; i < N; i++) {
        out[i] = step * N + i;
        MPI_OK(MPI_Irecv(&in[i], 1, MPI_INT, 0, i, MPI_COMM_SELF, &requests[i]));
    }
    for (int i = 0; i < N; i++)
        MPI_OK(MPI_Isend(&out[i], 1, MPI_INT, 0, i, MPI_COMM_SELF, &requests[N + i]));
    MPI_OK(MPI_Waitall(2 * N, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < N; i++)
        CHECK_EQ(in[i], out[i]);
}

int main(int argc, char **argv)
{
    int level = test_is(argc, argv, "single") ? MPI_THREAD_SINGLE
                : test_is(argc, argv, "funneled") ? MPI_THREAD_FUNNELED : MPI_THREAD_SERIALIZED;
    int64_t message[2] = {0, 0};
    pthread_t thread;
    test_start_threads(&argc, &argv, level);
    CHECK_EQ(pthread_create(&thread, NULL, serves, NULL), 0);
    struct timespec pause = {0, 1000000};
    for (int step = 0; step < STEPS || !cut_open(); step++) {
        if (step == 2)
            cut_announce();
        for (int i = 0; i < EACH; i++)
            to_itself(step);
        message[1] = message[0] * test_rank;
        MPI_OK(MPI_Send(message, 2, MPI_INT64_T, 1 - test_rank, DATA, MPI_COMM_WORLD));
        message[0]++;
        nanosleep(&pause, NULL);
    }
    MPI_OK(MPI_Send(message, 2, MPI_INT64_T, 1 - test_rank, END, MPI_COMM_WORLD));
    CHECK_EQ(pthread_join(thread, NULL), 0);
    return test_finish("below_multiple");
}
