/* Sums of vectors of growing size over two communicators with names, and prefix sums over all ranks. Rank 0 prints how
 * many results of each kind are wrong on any rank. The program has no bug: library.c has some for it. */
#include "../stasis_test.h"

enum { STEPS = 8, KINDS = 3 };

int main(int argc, char **argv)
{
    const char *names[] = {"first", "second"};
    int wrong[KINDS] = {0}, all[KINDS];
    MPI_Comm comms[2];
    test_start(&argc, &argv);
    for (int i = 0; i < 2; i++) {
        MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]));
        MPI_OK(MPI_Comm_set_name(comms[i], names[i]));
    }
    cut();
    for (int step = 1; step <= STEPS; step++) {
        long own[STEPS], sums[STEPS];
        for (int i = 0; i < step; i++)
            own[i] = 10 * i + test_rank;
        for (int kind = 0; kind < KINDS; kind++) {
            /* Number of ranks whose vectors are summed, and the sum of their ranks. */
            long ranks = kind < 2 ? test_size : test_rank + 1, right = 1;
            if (kind < 2)
                MPI_OK(MPI_Allreduce(own, sums, step, MPI_LONG, MPI_SUM, comms[kind]));
            else
                MPI_OK(MPI_Scan(own, sums, step, MPI_LONG, MPI_SUM, MPI_COMM_WORLD));
            for (int i = 0; i < step; i++)
                right &= sums[i] == 10 * i * ranks + ranks * (ranks - 1) / 2;
            wrong[kind] += !right;
        }
    }
    MPI_OK(MPI_Reduce(wrong, all, KINDS, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD));
    if (test_rank == 0)
        printf("wrong: %d over %s, %d over %s, %d prefixes\n", all[0], names[0], all[1], names[1], all[2]);
    MPI_Finalize();
    return 0;
}
