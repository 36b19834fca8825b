//#Ranks: 4
//#Cut: hold
//#Shows: MPI_Comm_create_group while a receive of any message is posted on another communicator, which must not get what the library's members tell each other
#include "../stasis_test.h"

/* In Open MPI the members of the new communicator agree on it in ordinary messages over the parent.
 * So the parent is a communicator of its own here; what Stasis makes it over below, at first and at a
 * restart, must be one too. */
enum { ROUNDS = 20 };

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    MPI_Comm parent, made[ROUNDS];
    MPI_Group everyone;
    MPI_Request any;
    MPI_Status status;
    int got = -1, left = (test_rank + test_size - 1) % test_size, right = (test_rank + 1) % test_size;
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &parent));
    MPI_OK(MPI_Comm_group(parent, &everyone));
    MPI_OK(MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &any));
    for (int i = 0; i < ROUNDS; i++) {
        int sum = 0;
        if (i == ROUNDS / 2)
            cut();
        MPI_OK(MPI_Comm_create_group(parent, everyone, i, &made[i]));
        MPI_OK(MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, made[i]));
        CHECK_EQ(sum, test_size * i);
    }
    MPI_OK(MPI_Send(&test_rank, 1, MPI_INT, right, 1234, MPI_COMM_WORLD));
    MPI_OK(MPI_Wait(&any, &status));
    CHECK_EQ(got, left);
    CHECK_EQ(status.MPI_SOURCE, left);
    CHECK_EQ(status.MPI_TAG, 1234);
    for (int i = 0; i < ROUNDS; i++)
        MPI_OK(MPI_Comm_free(&made[i]));
    MPI_OK(MPI_Group_free(&everyone));
    MPI_OK(MPI_Comm_free(&parent));
    return test_finish("group_beside_wildcard");
}
