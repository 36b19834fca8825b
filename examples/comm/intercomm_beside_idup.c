//#Ranks: 3
//#Cut: hold
//#Shows: MPI_Intercomm_create on ranks that have started MPI_Comm_idup of a younger communicator, and on ranks that have not yet, with and without MPI_THREAD_MULTIPLE
//#Variant: single
//#Variant: multiple
#include "../stasis_test.h"

/* Open MPI lets constructors over younger communicators wait while one is being duplicated. What Stasis
 * makes intercommunicators of below must not be younger then than what the program gives. */
enum { ROUNDS = 4 };

int main(int argc, char **argv)
{
    test_start_threads(&argc, &argv, test_is(argc, argv, "multiple") ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
    int side = test_rank == test_size - 1;
    MPI_Comm local, young, dups[ROUNDS], made[ROUNDS];
    MPI_Request request;
    MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, side, test_rank, &local));
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &young));
    for (int i = 0; i < ROUNDS; i++) {
        if ((test_rank + i) % 2)
            MPI_OK(MPI_Comm_idup(young, &dups[i], &request));
        MPI_OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, side ? 0 : test_size - 1, i, &made[i]));
        if ((test_rank + i + 1) % 2)
            MPI_OK(MPI_Comm_idup(young, &dups[i], &request));
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    cut();
    for (int i = 0; i < ROUNDS; i++) {
        int sum = 0, size = 0;
        MPI_OK(MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, dups[i]));
        CHECK_EQ(sum, test_size * i);
        MPI_OK(MPI_Comm_remote_size(made[i], &size));
        MPI_OK(MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, made[i]));
        CHECK_EQ(sum, size * i);
        MPI_OK(MPI_Comm_free(&dups[i]));
        MPI_OK(MPI_Comm_free(&made[i]));
    }
    MPI_OK(MPI_Comm_free(&young));
    MPI_OK(MPI_Comm_free(&local));
    return test_finish("intercomm_beside_idup");
}
