//#Ranks: 4
//#Shows: every neighbourhood collective on Cartesian, graph and distributed-graph topologies: blocking in a loop that the cut hits anywhere, non-blocking initiated before the cut and completed after it
//#Variant: blocking; cut=loop; modes=plain, continue, restart, migrate, cycle
//#Variant: nonblocking; cut=hold; matrix=full
#include "../stasis_test.h"

enum { N = 20, MOST = 4, TOPOLOGIES = 4, OPS = 5 };

static int step;

/* A topology with its neighbours: whom this rank receives from and sends to, in order. */
struct topology {
    MPI_Comm comm;
    int in, out, sources[MOST], targets[MOST];
    int gather[MOST * N], gather_v[MOST * N], give[MOST * N], all[MOST * N], all_v[MOST * N], all_w[MOST * N];
};
static struct topology topologies[TOPOLOGIES];

static int value(int rank, int i) { return 10000 * rank + i + step; }

static void add(struct topology *t, int source, int target)
{
    t->sources[t->in++] = source;
    t->targets[t->out++] = target;
}

static void make(void)
{
    int r = test_rank, dims[2] = {2, 2}, periods[2] = {1, 0}, ring = 4, around = 1, from, to;
    MPI_OK(MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, 0, &topologies[0].comm));
    for (int d = 0; d < 2; d++) {
        MPI_OK(MPI_Cart_shift(topologies[0].comm, d, 1, &from, &to));
        add(&topologies[0], from, from);
        add(&topologies[0], to, to);
    }
    MPI_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &ring, &around, 0, &topologies[1].comm));
    add(&topologies[1], (r + 3) % 4, (r + 3) % 4);
    add(&topologies[1], (r + 1) % 4, (r + 1) % 4);
    int index[4] = {2, 3, 4, 6}, edges[6] = {1, 3, 0, 3, 0, 2};
    MPI_OK(MPI_Graph_create(MPI_COMM_WORLD, 4, index, edges, 0, &topologies[2].comm));
    for (int e = r ? index[r - 1] : 0; e < index[r]; e++)
        add(&topologies[2], edges[e], edges[e]);
    /* Rank r sends to the next r + 1 ranks, itself at last; so source k sends to r if r is near enough. */
    struct topology *t = &topologies[3];
    for (int k = 1; k <= r + 1; k++)
        t->targets[t->out++] = (r + k) % 4;
    for (int k = 0; k < 4; k++)
        if ((r - k + 3) % 4 <= k)
            t->sources[t->in++] = k;
    MPI_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, t->in, t->sources, MPI_UNWEIGHTED, t->out, t->targets,
                                          MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &t->comm));
}

/* What `from` sends to this rank along edges of this topology, in order, comes from these of its targets. */
static int place_at(int which, int from, int to)
{
    static const int graph[4][3] = {{1, 3, -1}, {0, -1, -1}, {3, -1, -1}, {0, 2, -1}};
    switch (which) {
    case 2:
        for (int k = 0; k < 2; k++)
            if (graph[from][k] == to)
                return k;
        return -1;
    default:
        return (to - from + 3) % 4;
    }
}

static void clear(struct topology *t)
{
    for (int i = 0; i < MOST * N; i++) {
        t->gather[i] = t->gather_v[i] = t->all[i] = t->all_v[i] = t->all_w[i] = -1;
        t->give[i] = value(test_rank, i);
    }
}

static void check_from(const struct topology *t, int k, int place)
{
    int source = t->sources[k];
    for (int i = 0; i < N; i++) {
        CHECK_EQ(t->gather[k * N + i], source == MPI_PROC_NULL ? -1 : value(source, i));
        CHECK_EQ(t->gather_v[k * N + i], source == MPI_PROC_NULL || i > source ? -1 : value(source, i));
        if (place >= 0) {
            CHECK_EQ(t->all[k * N + i], value(source, place * N + i));
            CHECK_EQ(t->all_v[k * N + i], i < 3 ? value(source, place * N + i) : -1);
            CHECK_EQ(t->all_w[k * N + i], i < 3 ? value(source, place * N + i) : -1);
        }
    }
}

static void check(int which)
{
    struct topology *t = &topologies[which];
    for (int k = 0; k < t->in; k++) {
        int place = -1;
        /* On a torus of two both neighbours are the same process; there only the gathers are told apart. */
        if (which == 1)
            place = 1 - k;
        else if (which >= 2)
            place = place_at(which, t->sources[k], test_rank);
        check_from(t, k, place);
    }
    test_add(t->gather_v, sizeof t->gather_v);
    if (which > 0)
        test_add(t->all_w, sizeof t->all_w);
}

static void once(int blocking, int cut_here)
{
    MPI_Request requests[TOPOLOGIES * OPS];
    int n = 0, three[MOST], places[MOST], counts[TOPOLOGIES][MOST];
    MPI_Aint bytes[MOST];
    MPI_Datatype types[MOST];
    for (int k = 0; k < MOST; k++) {
        three[k] = 3;
        places[k] = k * N;
        bytes[k] = k * N * (int)sizeof(int);
        types[k] = MPI_INT;
    }
    for (int w = 0; w < TOPOLOGIES; w++) {
        struct topology *t = &topologies[w];
        clear(t);
        for (int k = 0; k < t->in; k++)
            counts[w][k] = t->sources[k] == MPI_PROC_NULL ? 0 : t->sources[k] + 1;
        if (blocking) {
            MPI_OK(MPI_Neighbor_allgather(t->give, N, MPI_INT, t->gather, N, MPI_INT, t->comm));
            MPI_OK(MPI_Neighbor_allgatherv(t->give, test_rank + 1, MPI_INT, t->gather_v, counts[w], places, MPI_INT,
                                           t->comm));
            MPI_OK(MPI_Neighbor_alltoall(t->give, N, MPI_INT, t->all, N, MPI_INT, t->comm));
            MPI_OK(MPI_Neighbor_alltoallv(t->give, three, places, MPI_INT, t->all_v, three, places, MPI_INT, t->comm));
            MPI_OK(MPI_Neighbor_alltoallw(t->give, three, bytes, types, t->all_w, three, bytes, types, t->comm));
        } else {
            MPI_OK(MPI_Ineighbor_allgather(t->give, N, MPI_INT, t->gather, N, MPI_INT, t->comm, &requests[n++]));
            MPI_OK(MPI_Ineighbor_allgatherv(t->give, test_rank + 1, MPI_INT, t->gather_v, counts[w], places, MPI_INT,
                                            t->comm, &requests[n++]));
            MPI_OK(MPI_Ineighbor_alltoall(t->give, N, MPI_INT, t->all, N, MPI_INT, t->comm, &requests[n++]));
            MPI_OK(MPI_Ineighbor_alltoallv(t->give, three, places, MPI_INT, t->all_v, three, places, MPI_INT, t->comm,
                                           &requests[n++]));
            MPI_OK(MPI_Ineighbor_alltoallw(t->give, three, bytes, types, t->all_w, three, bytes, types, t->comm,
                                           &requests[n++]));
        }
    }
    if (cut_here)
        cut();
    MPI_OK(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
    for (int w = 0; w < TOPOLOGIES; w++)
        check(w);
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    CHECK_EQ(test_size, 4);
    make();
    int blocking = test_is(argc, argv, "blocking");
    for (step = 0; blocking ? cut_more(step, 20, MPI_COMM_WORLD) : step < 3; step++)
        once(blocking, !blocking && step == 0);
    for (int w = 0; w < TOPOLOGIES; w++)
        MPI_OK(MPI_Comm_free(&topologies[w].comm));
    return blocking ? test_finish_loop("neighbours") : test_finish("neighbours");
}
