//#Ranks: 2
//#Cut: loop
//#Shows: a probe that begins while a checkpoint is pending finds a message of a rank that sends synchronously
//#Variant: probe; matrix=full
//#Variant: mprobe
//#Variant: iprobe
/* Rank 1 has sent its message and is in an operation that a checkpoint completes, because it overwrites more input than
 * is kept. Rank 0 comes late, so that most checkpoints begin before its probe. */
#include "../stasis_test.h"

enum { FIRST = 1, SECOND = 2, N = 1000 };

static void take(const char *how, int step)
{
    MPI_Message message;
    MPI_Status status;
    int value = -1, there = 0;
    if (!strcmp(how, "mprobe")) {
        MPI_OK(MPI_Mprobe(1, SECOND, MPI_COMM_WORLD, &message, &status));
        MPI_OK(MPI_Mrecv(&value, 1, MPI_INT, &message, &status));
    } else {
        if (!strcmp(how, "probe"))
            MPI_OK(MPI_Probe(1, SECOND, MPI_COMM_WORLD, &status));
        while (!strcmp(how, "iprobe") && !there)
            MPI_OK(MPI_Iprobe(1, SECOND, MPI_COMM_WORLD, &there, &status));
        MPI_OK(MPI_Recv(&value, 1, MPI_INT, 1, SECOND, MPI_COMM_WORLD, &status));
    }
    CHECK_EQ(status.MPI_SOURCE, 1);
    CHECK_EQ(value, step + 1);
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    struct timespec pause = {0, 20000000};
    for (int step = 0; cut_more(step, 5, MPI_COMM_WORLD); step++) {
        int sums[N], value = step;
        if (test_rank == 1) {
            MPI_OK(MPI_Ssend(&value, 1, MPI_INT, 0, FIRST, MPI_COMM_WORLD));
            value++;
            MPI_OK(MPI_Send(&value, 1, MPI_INT, 0, SECOND, MPI_COMM_WORLD));
        } else {
            MPI_OK(MPI_Recv(&value, 1, MPI_INT, 1, FIRST, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            CHECK_EQ(value, step);
            nanosleep(&pause, NULL);
            take(argv[1], step);
        }
        for (int i = 0; i < N; i++)
            sums[i] = test_rank + step + i;
        MPI_OK(MPI_Allreduce(MPI_IN_PLACE, sums, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        for (int i = 0; i < N; i++)
            CHECK_EQ(sums[i], 2 * (step + i) + 1);
    }
    return test_finish("probed_late");
}
