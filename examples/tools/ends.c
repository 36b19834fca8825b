/* A job that waits at its cut and then ends in the way of its argument: `runs`, `exits` (rank 1, with code 3) or
 * `aborts` (rank 1, with code 5). */
#include "../stasis_test.h"

int main(int argc, char **argv)
{
    int sum = 0;
    test_start(&argc, &argv);
    for (int i = 0; i < 100; i++) {
        int mine = i * (test_rank + 1), all;
        MPI_OK(MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        sum += all;
    }
    test_add(&sum, sizeof sum);
    cut();
    if (test_rank == 1 && test_is(argc, argv, "exits"))
        exit(3);
    if (test_rank == 1 && test_is(argc, argv, "aborts"))
        MPI_Abort(MPI_COMM_WORLD, 5);
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    return test_finish("ends");
}
