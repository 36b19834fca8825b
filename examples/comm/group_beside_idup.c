//#Ranks: 4
//#Cut: hold
//#Shows: MPI_Comm_create_group on ranks that have started MPI_Comm_idup of the same communicator, and on ranks that have not yet
#include "../stasis_test.h"

/* Open MPI lets constructors wait while an older communicator is being duplicated. What Stasis makes
 * communicators of groups over below must not be younger than what it duplicates, at first and after a
 * restart. */
enum { ROUNDS = 6 };

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    MPI_Comm dups[ROUNDS], made[ROUNDS];
    MPI_Group everyone;
    MPI_Request request;
    MPI_OK(MPI_Comm_group(MPI_COMM_WORLD, &everyone));
    for (int i = 0; i < ROUNDS; i++) {
        if (i == ROUNDS / 2)
            cut();
        if ((test_rank + i) % 2)
            MPI_OK(MPI_Comm_idup(MPI_COMM_WORLD, &dups[i], &request));
        MPI_OK(MPI_Comm_create_group(MPI_COMM_WORLD, everyone, i, &made[i]));
        if ((test_rank + i + 1) % 2)
            MPI_OK(MPI_Comm_idup(MPI_COMM_WORLD, &dups[i], &request));
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        for (int k = 0; k <= i; k++) {
            int sum = 0, rank = -1;
            MPI_OK(MPI_Allreduce(&k, &sum, 1, MPI_INT, MPI_SUM, dups[k]));
            CHECK_EQ(sum, test_size * k);
            MPI_OK(MPI_Comm_rank(dups[k], &rank));
            CHECK_EQ(rank, test_rank);
            MPI_OK(MPI_Allreduce(&test_rank, &sum, 1, MPI_INT, MPI_SUM, made[k]));
            CHECK_EQ(sum, test_size * (test_size - 1) / 2);
        }
    }
    for (int i = 0; i < ROUNDS; i++) {
        MPI_OK(MPI_Comm_free(&dups[i]));
        MPI_OK(MPI_Comm_free(&made[i]));
    }
    MPI_OK(MPI_Group_free(&everyone));
    return test_finish("group_beside_idup");
}
