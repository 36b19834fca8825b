//#Ranks: 2
//#Mpi: mpich
//#Cut: hold
//#Shows: windows whose displacement unit is an MPI_Aint, and large-count operations on them
#include "../stasis_test.h"

enum { N = 100 };

static int64_t origin[N], result[N];

static int64_t value(int rank, int i) { return 1000 * (rank + 1) + i; }

/* Every operation on the neighbour's window of 3 N numbers, in an epoch of the caller's. */
static void operate(MPI_Win win, int with_requests)
{
    int peer = 1 - test_rank;
    MPI_Request requests[4];
    for (int i = 0; i < N; i++)
        origin[i] = value(test_rank, i);
    if (with_requests) {
        MPI_OK(MPI_Rput_c(origin, N, MPI_INT64_T, peer, 0, N, MPI_INT64_T, win, &requests[0]));
        MPI_OK(MPI_Raccumulate_c(origin, N, MPI_INT64_T, peer, N, N, MPI_INT64_T, MPI_SUM, win,
                                 &requests[1]));
        MPI_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
        MPI_OK(MPI_Win_flush(peer, win));
        MPI_OK(MPI_Rget_c(result, N, MPI_INT64_T, peer, 0, N, MPI_INT64_T, win, &requests[2]));
        MPI_OK(MPI_Wait(&requests[2], MPI_STATUS_IGNORE));
        CHECK_EQ(result[N - 1], value(test_rank, N - 1));
        MPI_OK(MPI_Rget_accumulate_c(origin, N, MPI_INT64_T, result, N, MPI_INT64_T, peer, 2 * N,
                                     N, MPI_INT64_T, MPI_SUM, win, &requests[3]));
        MPI_OK(MPI_Wait(&requests[3], MPI_STATUS_IGNORE));
    } else {
        MPI_OK(MPI_Put_c(origin, N, MPI_INT64_T, peer, 0, N, MPI_INT64_T, win));
        MPI_OK(MPI_Accumulate_c(origin, N, MPI_INT64_T, peer, N, N, MPI_INT64_T, MPI_SUM, win));
        MPI_OK(MPI_Win_flush(peer, win));
        MPI_OK(MPI_Get_c(result, N, MPI_INT64_T, peer, 0, N, MPI_INT64_T, win));
        MPI_OK(MPI_Win_flush(peer, win));
        CHECK_EQ(result[N - 1], value(test_rank, N - 1));
        MPI_OK(MPI_Get_accumulate_c(origin, N, MPI_INT64_T, result, N, MPI_INT64_T, peer, 2 * N, N,
                                    MPI_INT64_T, MPI_SUM, win));
        MPI_OK(MPI_Win_flush(peer, win));
    }
    test_add(result, sizeof result);
}

/* What `times` rounds of the neighbour's operations have left in this rank's memory. */
static void check(const int64_t *memory, int times)
{
    int peer = 1 - test_rank;
    for (int i = 0; i < N; i++) {
        CHECK_EQ(memory[i], value(peer, i));
        CHECK_EQ(memory[N + i], times * value(peer, i));
        CHECK_EQ(memory[2 * N + i], times * value(peer, i));
    }
    test_add(memory, 3 * N * sizeof *memory);
}

int main(int argc, char **argv)
{
    enum { WINDOWS = 3 };
    static int64_t own[3 * N];
    const MPI_Aint bytes = sizeof own, unit = sizeof *own;
    int64_t *memory[WINDOWS] = {own}, *theirs;
    MPI_Win wins[WINDOWS];
    MPI_Aint size, their_unit;
    test_start(&argc, &argv);
    MPI_Comm w = MPI_COMM_WORLD;
    MPI_OK(MPI_Win_create_c(own, bytes, unit, MPI_INFO_NULL, w, &wins[0]));
    MPI_OK(MPI_Win_allocate_c(bytes, unit, MPI_INFO_NULL, w, &memory[1], &wins[1]));
    MPI_OK(MPI_Win_allocate_shared_c(bytes, unit, MPI_INFO_NULL, w, &memory[2], &wins[2]));
    for (int i = 0; i < WINDOWS; i++) {
        memset(memory[i], 0, bytes);
        MPI_OK(MPI_Barrier(w));
        MPI_OK(MPI_Win_lock_all(0, wins[i]));
        operate(wins[i], 0);
    }
    /* A library may need the target's help, which it cannot have while that is held. */
    MPI_OK(MPI_Barrier(w));
    cut();
    for (int i = 0; i < WINDOWS; i++) {
        operate(wins[i], 1);
        MPI_OK(MPI_Win_flush_all(wins[i]));
        MPI_OK(MPI_Barrier(w));
        MPI_OK(MPI_Win_sync(wins[i]));
        check(memory[i], 2);
    }
    MPI_OK(MPI_Win_shared_query_c(wins[2], 1 - test_rank, &size, &their_unit, &theirs));
    CHECK_EQ(size, bytes);
    CHECK_EQ(their_unit, unit);
    CHECK_EQ(theirs[0], value(test_rank, 0));
    for (int i = 0; i < WINDOWS; i++) {
        MPI_OK(MPI_Win_unlock_all(wins[i]));
        MPI_OK(MPI_Win_free(&wins[i]));
    }
    return test_finish("large_counts");
}
