//#Ranks: 3
//#Shows: MPI_IN_PLACE in every collective that allows it: blocking ones in a loop that the cut hits anywhere, non-blocking ones initiated before the cut and completed after it
//#Variant: blocking; cut=loop; modes=plain, continue, restart, migrate, cycle
//#Variant: nonblocking; cut=hold; matrix=full
#include "../stasis_test.h"
#include "both_ways.h"

enum { N = 400, P = 3, OPS = 15 };

static int step, held;
static int reduce[N], all_reduce[N], block[P * N], ragged[P * N], scan[N], exscan[N];
static int gather[P * N], gather_v[P * N], scatter[P * N], scatter_v[P * N], all[P * N], all_v[P * N];
static int to_all[P * N], to_all_v[P * N], to_all_w[P * N];

static int value(int rank, int i) { return 1000 * rank + 7 * i + step; }

static void fill(void)
{
    int r = test_rank;
    for (int i = 0; i < N; i++)
        reduce[i] = all_reduce[i] = scan[i] = exscan[i] = value(r, i);
    for (int i = 0; i < P * N; i++) {
        block[i] = ragged[i] = scatter[i] = scatter_v[i] = to_all[i] = to_all_v[i] = to_all_w[i] = value(r, i);
        gather[i] = gather_v[i] = all[i] = all_v[i] = i / N == r ? value(r, i) : -1;
    }
}

static void check(int root)
{
    int r = test_rank, sum_of_ranks = P * (P - 1) / 2;
    for (int i = 0; i < N; i++) {
        if (r == root)
            CHECK_EQ(reduce[i], value(P - 1, i));
        CHECK_EQ(all_reduce[i], P * value(0, i) + 1000 * sum_of_ranks);
        CHECK_EQ(block[i], P * value(0, r * N + i) + 1000 * sum_of_ranks);
        CHECK_EQ(scan[i], (r + 1) * value(0, i) + 1000 * (r * (r + 1) / 2));
        if (r > 0)
            CHECK_EQ(exscan[i], r * value(0, i) + 1000 * (r * (r - 1) / 2));
        CHECK_EQ(scatter[r == root ? root * N + i : i], value(root, r * N + i));
    }
    /* Rank k has k + 1 of the entries of the reduce-scatter. */
    for (int i = 0; i <= r; i++)
        CHECK_EQ(ragged[i], value(0, r * (r + 1) / 2 + i));
    for (int k = 0; k < P; k++) {
        for (int i = 0; i < N; i++) {
            int at = k * N + i;
            if (r == root)
                CHECK_EQ(gather[at], value(k, at));
            CHECK_EQ(all[at], value(k, at));
            CHECK_EQ(to_all[at], value(k, r * N + i));
        }
        for (int i = 0; i <= k; i++) {
            if (r == root)
                CHECK_EQ(gather_v[k * N + i], value(k, k * N + i));
            CHECK_EQ(all_v[k * N + i], value(k, k * N + i));
        }
        for (int i = 0; i < N / 2; i++) {
            CHECK_EQ(to_all_v[k * N + i], value(k, r * N + i));
            CHECK_EQ(to_all_w[k * N + i], value(k, r * N + i));
        }
    }
    for (int i = 0; i <= r; i++)
        CHECK_EQ(scatter_v[r == root ? root * N + i : i], value(root, r * N + i));
    test_add(all_reduce, sizeof all_reduce);
    test_add(to_all_w, sizeof to_all_w);
}

#define OPERATIONS(CALL, LAST)                                                                                       \
    MPI_OK(CALL(reduce)(here ? MPI_IN_PLACE : reduce, reduce, N, MPI_INT, MPI_MAX, root, W LAST));                    \
    MPI_OK(CALL(allreduce)(MPI_IN_PLACE, all_reduce, N, MPI_INT, MPI_SUM, W LAST));                                   \
    MPI_OK(CALL(reduce_scatter_block)(MPI_IN_PLACE, block, N, MPI_INT, MPI_SUM, W LAST));                             \
    MPI_OK(CALL(reduce_scatter)(MPI_IN_PLACE, ragged, rising, MPI_INT, MPI_MIN, W LAST));                             \
    MPI_OK(CALL(scan)(MPI_IN_PLACE, scan, N, MPI_INT, MPI_SUM, W LAST));                                              \
    MPI_OK(CALL(exscan)(MPI_IN_PLACE, exscan, N, MPI_INT, MPI_SUM, W LAST));                                          \
    MPI_OK(CALL(gather)(here ? MPI_IN_PLACE : gather + r * N, N, MPI_INT, gather, N, MPI_INT, root, W LAST));         \
    MPI_OK(CALL(gatherv)(here ? MPI_IN_PLACE : gather_v + r * N, r + 1, MPI_INT, gather_v, rising, places, MPI_INT,   \
                         root, W LAST));                                                                             \
    MPI_OK(CALL(scatter)(scatter, N, MPI_INT, here ? MPI_IN_PLACE : scatter, N, MPI_INT, root, W LAST));              \
    MPI_OK(CALL(scatterv)(scatter_v, rising, places, MPI_INT, here ? MPI_IN_PLACE : scatter_v, r + 1, MPI_INT, root,  \
                          W LAST));                                                                                  \
    MPI_OK(CALL(allgather)(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, N, MPI_INT, W LAST));                             \
    MPI_OK(CALL(allgatherv)(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all_v, rising, places, MPI_INT, W LAST));             \
    MPI_OK(CALL(alltoall)(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, to_all, N, MPI_INT, W LAST));                           \
    MPI_OK(CALL(alltoallv)(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, to_all_v, half, places, MPI_INT, W LAST));    \
    MPI_OK(CALL(alltoallw)(MPI_IN_PLACE, NULL, NULL, NULL, to_all_w, half, bytes, types, W LAST))

#define W MPI_COMM_WORLD

static void once(int blocking)
{
    MPI_Request requests[OPS];
    MPI_Datatype types[P];
    int r = test_rank, root = step % P, here = r == root, rising[P], half[P], places[P], bytes[P], n = 0;
    for (int k = 0; k < P; k++) {
        rising[k] = k + 1;
        half[k] = N / 2;
        places[k] = k * N;
        bytes[k] = k * N * (int)sizeof(int);
        types[k] = MPI_INT;
    }
    fill();
    if (blocking) {
        OPERATIONS(BLOCKING, NO_REQUEST);
    } else {
        OPERATIONS(NONBLOCKING, A_REQUEST);
        CHECK_EQ(n, OPS);
        if (!held++)
            cut();
        MPI_OK(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
    }
    check(root);
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    CHECK_EQ(test_size, P);
    if (test_is(argc, argv, "blocking")) {
        for (step = 0; cut_more(step, 20, W); step++)
            once(1);
        return test_finish_loop("in_place");
    }
    for (step = 0; step < 4; step++)
        once(0);
    return test_finish("in_place");
}
