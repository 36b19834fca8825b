/* Rank 2 computes until the harness says that it may go on, and the others wait for it: rank 3 for its message, and all
 * but that in a barrier. Then the job comes to its end. */
#include "../stasis_test.h"

static void compute(void) { cut_hold(); }

int main(int argc, char **argv)
{
    int value = 0;
    test_start(&argc, &argv);
    cut_announce();
    if (test_rank == 2) {
        compute();
        MPI_OK(MPI_Send(&value, 1, MPI_INT, 3, 4, MPI_COMM_WORLD));
    } else if (test_rank == 3) {
        MPI_OK(MPI_Recv(&value, 1, MPI_INT, 2, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    return test_finish("held_up");
}
