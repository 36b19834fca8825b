//#Ranks: 3
//#Cut: hold
//#Shows: MPI_Win_allocate_shared: what one rank stores another loads, before the cut and after it; parts of no bytes that need not lie beside others are nowhere
#include "../stasis_test.h"

/* Only ranks with even numbers have memory in `window`. */
static void check_parts(MPI_Win window, long *own)
{
    long *base;
    int unit;
    MPI_Aint size;
    for (int rank = 0; rank < test_size; rank++) {
        MPI_OK(MPI_Win_shared_query(window, rank, &size, &unit, &base));
        CHECK(rank == test_rank ? base == own : 1, "another base");
        if (rank % 2 == 0) {
            CHECK(size >= (MPI_Aint)(5 * sizeof(long)), "too little");
            CHECK_EQ(base[4], 40 + rank);
        } else {
            CHECK_EQ(size, 0);
            CHECK(base == NULL, "a part of no bytes is somewhere");
        }
    }
}

int main(int argc, char **argv)
{
    MPI_Comm node;
    MPI_Win window, apart;
    MPI_Info hints;
    long *own, *of[3], *even;
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
    MPI_OK(MPI_Info_create(&hints));
    MPI_OK(MPI_Info_set(hints, "alloc_shared_noncontig", "true"));
    MPI_OK(MPI_Win_allocate_shared(test_rank % 2 ? 0 : 5 * sizeof(long), sizeof(long), hints, node, &even, &apart));
    MPI_OK(MPI_Info_free(&hints));
    MPI_OK(MPI_Win_fence(0, apart));
    if (even)
        even[4] = 40 + test_rank;
    MPI_OK(MPI_Win_fence(0, apart));
    check_parts(apart, even);
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
    check_parts(apart, even);
    test_add(own, 5 * sizeof(long));
    MPI_OK(MPI_Win_free(&apart));
    MPI_OK(MPI_Win_unlock_all(window));
    MPI_OK(MPI_Win_free(&window));
    MPI_OK(MPI_Comm_free(&node));
    return test_finish("shared");
}
