//#Ranks: 3
//#Shows: collectives over duplicates of MPI_Comm_idup: of the world, of a duplicate, of MPI_COMM_SELF, of a communicator with a topology and of an inter-communicator; made before the cut, under way at it, started by some ranks only, beside other constructors, and in a loop that it hits anywhere
//#Variant: made; cut=hold
//#Variant: under_way; cut=hold
//#Variant: late; cut=pending
//#Variant: beside; cut=hold; compare=none
//#Variant: loop; cut=loop; modes=plain, continue, restart, migrate, cycle
#include "../stasis_test.h"

enum { KINDS = 5, N = 4 };

static MPI_Comm parents[KINDS], made[KINDS];

static void start(MPI_Request requests[KINDS])
{
    for (int i = 0; i < KINDS; i++)
        MPI_OK(MPI_Comm_idup(parents[i], &made[i], &requests[i]));
}

/* In another order than they were started. */
static void finish(MPI_Request requests[KINDS])
{
    int done = 0, index;
    while (!done)
        MPI_OK(MPI_Test(&requests[KINDS - 1], &done, MPI_STATUS_IGNORE));
    MPI_OK(MPI_Waitany(KINDS - 1, requests, &index, MPI_STATUS_IGNORE));
    CHECK(index >= 0 && index < KINDS - 1, "it is %d", index);
    MPI_OK(MPI_Waitall(KINDS, requests, MPI_STATUSES_IGNORE));
}

static void use(MPI_Comm comm)
{
    int in[N], out[N], size, rank, inter, others;
    MPI_Request request;
    MPI_OK(MPI_Comm_size(comm, &size));
    MPI_OK(MPI_Comm_rank(comm, &rank));
    MPI_OK(MPI_Comm_test_inter(comm, &inter));
    others = size;
    if (inter)
        MPI_OK(MPI_Comm_remote_size(comm, &others));
    for (int i = 0; i < N; i++)
        in[i] = 10 * rank + i;
    /* Non-blocking first: the members come to it one after the other. */
    MPI_OK(MPI_Iallreduce(in, out, N, MPI_INT, MPI_SUM, comm, &request));
    MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(out[1], 10 * others * (others - 1) / 2 + others);
    test_add(out, sizeof out);
    MPI_OK(MPI_Barrier(comm));
    MPI_OK(MPI_Allreduce(in, out, N, MPI_INT, MPI_MAX, comm));
    CHECK_EQ(out[N - 1], 10 * (others - 1) + N - 1);
    test_add(out, sizeof out);
}

static void use_all(void)
{
    for (int i = 0; i < KINDS; i++)
        use(made[i]);
}

static void free_all(void)
{
    for (int i = 0; i < KINDS; i++)
        MPI_OK(MPI_Comm_free(&made[i]));
}

/* Some ranks have started a duplicate and others have not, when they make other communicators. Open MPI lets
 * constructors over younger communicators than the one that is duplicated wait, so that there are none. */
static void beside(MPI_Comm half)
{
    enum { ROUNDS = 4 };
    MPI_Comm young, dups[2 * ROUNDS], others[2 * ROUNDS];
    MPI_Group world;
    MPI_Request request;
    int side = test_rank > 0;
    MPI_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &young));
    for (int i = 0; i < 2 * ROUNDS; i++) {
        MPI_Comm parent = i % 2 ? young : MPI_COMM_WORLD;
        int first = (test_rank + i / 2) % 2;
        if (first)
            MPI_OK(MPI_Comm_idup(parent, &dups[i], &request));
        if (i % 2)
            MPI_OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, side ? 0 : 1, i, &others[i]));
        else
            MPI_OK(MPI_Comm_create_group(MPI_COMM_WORLD, world, i, &others[i]));
        if (!first)
            MPI_OK(MPI_Comm_idup(parent, &dups[i], &request));
        MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        use(dups[i]);
        use(others[i]);
    }
    cut();
    for (int i = 0; i < 2 * ROUNDS; i++) {
        use(dups[i]);
        use(others[i]);
        MPI_OK(MPI_Comm_free(&dups[i]));
        MPI_OK(MPI_Comm_free(&others[i]));
    }
    MPI_OK(MPI_Comm_free(&young));
    MPI_OK(MPI_Group_free(&world));
}

int main(int argc, char **argv)
{
    MPI_Request requests[KINDS];
    MPI_Comm half, dup;
    int periods = 1, around[2] = {-1, -1};
    test_start(&argc, &argv);
    parents[0] = MPI_COMM_WORLD;
    parents[1] = MPI_COMM_SELF;
    MPI_OK(MPI_Comm_idup(MPI_COMM_WORLD, &dup, &requests[0]));
    MPI_OK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
    parents[2] = dup;
    MPI_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &test_size, &periods, 0, &parents[3]));
    MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, test_rank > 0, test_rank, &half));
    MPI_OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, test_rank > 0 ? 0 : 1, 5, &parents[4]));
    use(dup);
    if (test_is(argc, argv, "beside")) {
        beside(half);
        return test_finish("duplicates");
    }
    if (test_is(argc, argv, "loop")) {
        for (int step = 0; cut_more(step, 12, MPI_COMM_WORLD); step++) {
            start(requests);
            finish(requests);
            use_all();
            free_all();
        }
        return test_finish_loop("duplicates");
    }
    if (test_is(argc, argv, "late") && test_rank == test_size - 1)
        cut();
    start(requests);
    if (test_is(argc, argv, "under_way"))
        cut();
    if (test_is(argc, argv, "late") && test_rank != test_size - 1)
        cut_announce();
    finish(requests);
    use_all();
    if (test_is(argc, argv, "made"))
        cut();
    use_all();
    /* A neighbour of the topology that the duplicate has, too. */
    MPI_OK(MPI_Neighbor_allgather(&test_rank, 1, MPI_INT, around, 1, MPI_INT, made[3]));
    CHECK_EQ(around[1], (test_rank + 1) % test_size);
    free_all();
    return test_finish("duplicates");
}
