//#Ranks: 5
//#Shows: every collective on an inter-communicator of two unequal groups: blocking in a loop that the cut hits anywhere, non-blocking initiated before the cut and completed after it
//#Variant: blocking; cut=loop; modes=plain, continue, restart, migrate, cycle
//#Variant: nonblocking; cut=hold; matrix=full
#include "../stasis_test.h"
#include "both_ways.h"

enum { N = 50, LEFT = 2, RIGHT = 3, MOST = 3, OPS = 14 };

static int step, held, side, here, there, r;
static MPI_Comm inter;
static int mine[MOST * N], bcast[N], reduce[N], all_reduce[N], block[N * MOST], ragged[N * MOST];
static int gather[MOST * N], gather_v[MOST * N], scatter[N], scatter_v[N], all[MOST * N], all_v[MOST * N];
static int to_all[MOST * N], to_all_v[MOST * N], to_all_w[MOST * N];

/* Entry `i` of what rank `rank` of group `group` gives. */
static int value(int group, int rank, int i) { return 100000 * group + 1000 * rank + i + step; }

/* The sum of that over a group. */
static int sum(int group, int i)
{
    int ranks = group ? RIGHT : LEFT;
    return ranks * value(group, 0, i) + 1000 * (ranks * (ranks - 1) / 2);
}

/* Rooted operations go from a rank of the one group to the other, taking turns. */
static int from_left, root_rank;
static int receives_rooted(void) { return side == (from_left ? 1 : 0); }

static int root_argument(void)
{
    if (receives_rooted())
        return root_rank;
    return r == root_rank ? MPI_ROOT : MPI_PROC_NULL;
}

/* For gather and reduce the root receives, so its group is the other one. */
static int root_of_gather(void)
{
    if (!receives_rooted())
        return root_rank;
    return r == root_rank ? MPI_ROOT : MPI_PROC_NULL;
}

static void clear(void)
{
    int *arrays[] = {bcast, reduce, all_reduce, scatter, scatter_v};
    int *longer[] = {block, ragged, gather, gather_v, all, all_v, to_all, to_all_v, to_all_w};
    for (size_t a = 0; a < sizeof arrays / sizeof *arrays; a++)
        for (int i = 0; i < N; i++)
            arrays[a][i] = -1;
    for (size_t a = 0; a < sizeof longer / sizeof *longer; a++)
        for (int i = 0; i < MOST * N; i++)
            longer[a][i] = -1;
    for (int i = 0; i < MOST * N; i++)
        mine[i] = value(side, r, i);
    if (!receives_rooted())
        memcpy(bcast, mine, sizeof bcast);
}

static void check(void)
{
    int other = 1 - side, giver = from_left ? 0 : 1, gatherer = receives_rooted() && r == root_rank;
    for (int i = 0; i < N; i++) {
        if (receives_rooted()) {
            CHECK_EQ(bcast[i], value(giver, root_rank, i));
            CHECK_EQ(scatter[i], value(giver, root_rank, r * N + i));
        }
        if (gatherer)
            CHECK_EQ(reduce[i], sum(giver, i));
        CHECK_EQ(all_reduce[i], sum(other, i));
    }
    if (receives_rooted())
        for (int i = 0; i <= r; i++)
            CHECK_EQ(scatter_v[i], value(giver, root_rank, r * N + i));
    /* Both groups reduce-scatter as many entries: 6, which both sizes divide. */
    for (int i = 0; i < 6 / here; i++) {
        CHECK_EQ(block[i], sum(other, r * (6 / here) + i));
        CHECK_EQ(ragged[i], value(other, 0, r * (6 / here) + i));
    }
    for (int k = 0; k < there; k++) {
        for (int i = 0; i < N; i++) {
            if (gatherer)
                CHECK_EQ(gather[k * N + i], value(other, k, i));
            CHECK_EQ(all[k * N + i], value(other, k, i));
            CHECK_EQ(to_all[k * N + i], value(other, k, r * N + i));
        }
        for (int i = 0; i <= k; i++) {
            if (gatherer)
                CHECK_EQ(gather_v[k * N + i], value(other, k, i));
            CHECK_EQ(all_v[k * N + i], value(other, k, i));
        }
        CHECK_EQ(all_v[k * N + k + 1], -1);
        for (int i = 0; i < 5; i++) {
            CHECK_EQ(to_all_v[k * N + i], value(other, k, r * N + i));
            CHECK_EQ(to_all_w[k * N + i], value(other, k, r * N + i));
        }
    }
    test_add(all_reduce, sizeof all_reduce);
    test_add(to_all, sizeof to_all);
}

#define OPERATIONS(CALL, LAST)                                                                                       \
    MPI_OK(CALL(barrier)(inter LAST));                                                                               \
    MPI_OK(CALL(bcast)(bcast, N, MPI_INT, root, inter LAST));                                                        \
    MPI_OK(CALL(reduce)(mine, reduce, N, MPI_INT, MPI_SUM, to, inter LAST));                                         \
    MPI_OK(CALL(allreduce)(mine, all_reduce, N, MPI_INT, MPI_SUM, inter LAST));                                      \
    MPI_OK(CALL(reduce_scatter_block)(mine, block, 6 / here, MPI_INT, MPI_SUM, inter LAST));                         \
    MPI_OK(CALL(reduce_scatter)(mine, ragged, parts, MPI_INT, MPI_MIN, inter LAST));                                 \
    MPI_OK(CALL(gather)(mine, N, MPI_INT, gather, N, MPI_INT, to, inter LAST));                                      \
    MPI_OK(CALL(gatherv)(mine, r + 1, MPI_INT, gather_v, rising, places, MPI_INT, to, inter LAST));                  \
    MPI_OK(CALL(scatter)(mine, N, MPI_INT, scatter, N, MPI_INT, root, inter LAST));                                  \
    MPI_OK(CALL(scatterv)(mine, rising, places, MPI_INT, scatter_v, r + 1, MPI_INT, root, inter LAST));              \
    MPI_OK(CALL(allgather)(mine, N, MPI_INT, all, N, MPI_INT, inter LAST));                                          \
    MPI_OK(CALL(allgatherv)(mine, r + 1, MPI_INT, all_v, rising, places, MPI_INT, inter LAST));                      \
    MPI_OK(CALL(alltoall)(mine, N, MPI_INT, to_all, N, MPI_INT, inter LAST));                                        \
    MPI_OK(CALL(alltoallv)(mine, five, places, MPI_INT, to_all_v, five, places, MPI_INT, inter LAST));               \
    MPI_OK(CALL(alltoallw)(mine, five, bytes, types, to_all_w, five, bytes, types, inter LAST))

static void once(int blocking)
{
    MPI_Request requests[OPS + 1];
    MPI_Datatype types[MOST];
    int parts[MOST], rising[MOST], five[MOST], places[MOST], bytes[MOST], n = 0;
    from_left = step % 2;
    /* MPICH 4.0 gives MPI_Ibcast of another root than 0 to nobody here. */
    root_rank = blocking ? step / 2 % LEFT : 0;
    int root = root_argument(), to = root_of_gather();
    for (int k = 0; k < MOST; k++) {
        parts[k] = 6 / here;
        rising[k] = k + 1;
        five[k] = 5;
        places[k] = k * N;
        bytes[k] = k * N * (int)sizeof(int);
        types[k] = MPI_INT;
    }
    clear();
    if (blocking) {
        OPERATIONS(BLOCKING, NO_REQUEST);
    } else {
        OPERATIONS(NONBLOCKING, A_REQUEST);
        CHECK_EQ(n, OPS + 1);
        if (!held++)
            cut();
        MPI_OK(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
    }
    check();
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    CHECK_EQ(test_size, LEFT + RIGHT);
    MPI_Comm local;
    side = test_rank >= LEFT;
    MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, side, test_rank, &local));
    MPI_OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, side ? 0 : LEFT, 12, &inter));
    MPI_OK(MPI_Comm_rank(inter, &r));
    MPI_OK(MPI_Comm_size(inter, &here));
    MPI_OK(MPI_Comm_remote_size(inter, &there));
    int blocking = test_is(argc, argv, "blocking");
    for (step = 0; blocking ? cut_more(step, 20, MPI_COMM_WORLD) : step < 4; step++)
        once(blocking);
    MPI_OK(MPI_Comm_free(&inter));
    MPI_OK(MPI_Comm_free(&local));
    return blocking ? test_finish_loop("between") : test_finish("between");
}
