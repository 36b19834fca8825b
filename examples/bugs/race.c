//#Ranks: 3
//#Modes: plain
//#Compare: none
//#Shows: a wildcard race: rank 0 takes the first message of a round for that of rank 1, which is wrong about once in 20 runs
#include "../stasis_test.h"

enum { ROUNDS = 50, USUAL_ODDS = 1000 };

static void pause_us(long us)
{
    struct timespec pause = {0, us * 1000};
    nanosleep(&pause, NULL);
}

/* Once in `odds` times. No run knows the numbers of another. */
static int late(int odds)
{
    unsigned random = 0;
    CHECK_EQ(getentropy(&random, sizeof random), 0);
    return random % (unsigned)odds == 0;
}

int main(int argc, char **argv)
{
    int odds = argc > 1 ? atoi(argv[1]) : USUAL_ODDS;
    test_start(&argc, &argv);
    int wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        if (round == ROUNDS / 2)
            cut();
        if (test_rank == 1 && late(odds))
            pause_us(4000);
        if (test_rank == 2)
            pause_us(1000);
        int part[2] = {test_rank, round};
        if (test_rank != 0) {
            MPI_OK(MPI_Send(part, 2, MPI_INT, 0, 5, MPI_COMM_WORLD));
        } else {
            /* The fault: the first message need not be that of rank 1. */
            int left[2], right[2];
            MPI_OK(MPI_Recv(left, 2, MPI_INT, MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            MPI_OK(MPI_Recv(right, 2, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            test_add(left, sizeof left);
            test_add(right, sizeof right);
            wrong += left[0] != 1;
        }
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    }
    if (test_rank == 0)
        printf("%d of %d rounds are wrong\n", wrong, ROUNDS);
    return test_finish("race");
}
