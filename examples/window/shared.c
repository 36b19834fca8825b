//#Ranks: 3
//#Cut: hold
//#Shows: MPI_Win_allocate_shared: what one rank stores another loads, before the cut and after it
#include "../stasis_test.h"

int main(int argc, char **argv)
{
    MPI_Comm node;
    MPI_Win window;
    long *own, *of[3];
    test_start(&argc, &argv);
    MPI_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
    MPI_OK(MPI_Win_allocate_shared((test_rank + 1) * 5 * sizeof(long), sizeof(long), MPI_INFO_NULL, node, &own, &window));
    MPI_OK(MPI_Win_lock_all(MPI_MODE_NOCHECK, window));
    for (int rank = 0; rank < test_size; rank++) {
        MPI_Aint size;
        int unit;
        MPI_OK(MPI_Win_shared_query(window, rank, &size, &unit, &of[rank]));
        CHECK_EQ(size, (rank + 1) * 5 * sizeof(long));
        CHECK_EQ(unit, sizeof(long));
    }
    CHECK(own == of[test_rank], "another base");
    CHECK(of[1] == of[0] + 5, "not one behind the other");
    for (int round = 1; round <= 2; round++) {
        int next = (test_rank + 1) % test_size;
        own[2] = 100 * round + test_rank;
        MPI_OK(MPI_Win_sync(window));
        MPI_OK(MPI_Barrier(node));
        MPI_OK(MPI_Win_sync(window));
        for (int rank = 0; rank < test_size; rank++)
            CHECK_EQ(of[rank][2], 100 * round + rank);
        of[next][3] = 7 * round + test_rank;
        MPI_OK(MPI_Win_sync(window));
        MPI_OK(MPI_Barrier(node));
        MPI_OK(MPI_Win_sync(window));
        CHECK_EQ(own[3], 7 * round + (test_rank + test_size - 1) % test_size);
        if (round == 1)
            cut();
    }
    test_add(own, 5 * sizeof(long));
    MPI_OK(MPI_Win_unlock_all(window));
    MPI_OK(MPI_Win_free(&window));
    MPI_OK(MPI_Comm_free(&node));
    return test_finish("shared");
}
