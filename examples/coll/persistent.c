//#Ranks: 3
//#Mpi: mpich
//#Compare: none
//#Shows: persistent collectives of every kind: active at the cut, on some ranks only, and inactive; started again after it; their communicator, datatypes and operation freed before
//#Variant: active; cut=hold
//#Variant: late; cut=pending
//#Variant: inactive; cut=hold
//#Variant: loop; cut=loop; modes=plain, continue, restart, migrate, cycle
/* Not compared with a native run: MPICH 4.0's MPI_Gather_init copies the root's own part when the request
 * is made instead of when it is started. What is received is checked here. */
#include "../stasis_test.h"

enum { N = 50, P = 3, MOST = 64 };

static int out[P * N], spread[P * N], in[MOST][P * N];
static int counts[P], places[P], bytes[P];
static MPI_Count large_counts[P];
static MPI_Aint large_places[P], large_bytes[P];
static MPI_Datatype types[P];
static MPI_Request requests[MOST];
static int n, step;

static int value(int rank, int i) { return 1000 * rank + 7 * i + step; }

static void keep_more(void *from, void *to, int *length, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *length; i++)
        if (((int *)from)[i] > ((int *)to)[i])
            ((int *)to)[i] = ((int *)from)[i];
}

#define I MPI_INFO_NULL, &requests[n]
#define INIT(call)    \
    do {              \
        MPI_OK(call); \
        n++;          \
    } while (0)

/* Results stand in `in` by the number of their request. */
static void init(MPI_Comm comm, MPI_Comm ring, MPI_Datatype pair, MPI_Op most)
{
    INIT(MPI_Barrier_init(comm, I));
    INIT(MPI_Bcast_init(spread, N / 2, pair, 1, comm, I));
    INIT(MPI_Reduce_init(out, in[n], N, MPI_INT, MPI_SUM, 2, comm, I));
    INIT(MPI_Allreduce_init(out, in[n], N, MPI_INT, most, comm, I));
    INIT(MPI_Reduce_scatter_block_init(out, in[n], N, MPI_INT, MPI_MIN, comm, I));
    INIT(MPI_Reduce_scatter_init(out, in[n], counts, MPI_INT, MPI_MAX, comm, I));
    INIT(MPI_Scan_init(out, in[n], N, MPI_INT, MPI_SUM, comm, I));
    INIT(MPI_Exscan_init(out, in[n], N, MPI_INT, MPI_SUM, comm, I));
    INIT(MPI_Gather_init(out, N / 2, pair, in[n], N, MPI_INT, 0, comm, I));
    INIT(MPI_Gatherv_init(out, N, MPI_INT, in[n], counts, places, MPI_INT, 1, comm, I));
    INIT(MPI_Scatter_init(out, N, MPI_INT, in[n], N / 2, pair, 2, comm, I));
    INIT(MPI_Scatterv_init(out, counts, places, MPI_INT, in[n], N, MPI_INT, 0, comm, I));
    INIT(MPI_Allgather_init(out, N, MPI_INT, in[n], N, MPI_INT, comm, I));
    INIT(MPI_Allgatherv_init(out, N, MPI_INT, in[n], counts, places, MPI_INT, comm, I));
    INIT(MPI_Alltoall_init(out, N, MPI_INT, in[n], N / 2, pair, comm, I));
    INIT(MPI_Alltoallv_init(out, counts, places, MPI_INT, in[n], counts, places, MPI_INT, comm, I));
    INIT(MPI_Alltoallw_init(out, counts, bytes, types, in[n], counts, bytes, types, comm, I));
    INIT(MPI_Neighbor_allgather_init(out, N, MPI_INT, in[n], N, MPI_INT, ring, I));
    INIT(MPI_Neighbor_allgatherv_init(out, N, MPI_INT, in[n], counts, places, MPI_INT, ring, I));
    INIT(MPI_Neighbor_alltoall_init(out, N, MPI_INT, in[n], N, MPI_INT, ring, I));
    INIT(MPI_Neighbor_alltoallv_init(out, counts, places, MPI_INT, in[n], counts, places, MPI_INT, ring, I));
    INIT(MPI_Neighbor_alltoallw_init(out, counts, large_bytes, types, in[n], counts, large_bytes, types, ring, I));
    /* The same for large counts: of one count, of arrays, with an operation, with datatypes. */
    INIT(MPI_Allgather_init_c(out, N, MPI_INT, in[n], N / 2, pair, comm, I));
    INIT(MPI_Allgatherv_init_c(out, N, MPI_INT, in[n], large_counts, large_places, MPI_INT, comm, I));
    INIT(MPI_Allreduce_init_c(out, in[n], N, MPI_INT, most, comm, I));
    INIT(MPI_Alltoallw_init_c(out, large_counts, large_bytes, types, in[n], large_counts, large_bytes, types, comm, I));
    INIT(MPI_Neighbor_alltoall_init_c(out, N, MPI_INT, in[n], N, MPI_INT, ring, I));
}

static void fill(void)
{
    for (int i = 0; i < P * N; i++) {
        out[i] = value(test_rank, i);
        spread[i] = test_rank == 1 ? value(1, i) : -1;
    }
    memset(in, -1, sizeof in);
}

static void check(void)
{
    int r = test_rank, before = (r + P - 1) % P, behind = (r + 1) % P, sum = P * (P - 1) / 2;
    for (int i = 0; i < N; i++) {
        CHECK_EQ(spread[i], value(1, i));
        CHECK_EQ(in[2][i], r == 2 ? P * value(0, i) + 1000 * sum : -1);
        CHECK_EQ(in[3][i], value(P - 1, i));
        CHECK_EQ(in[4][i], value(0, r * N + i));
        CHECK_EQ(in[5][i], value(P - 1, r * N + i));
        CHECK_EQ(in[6][i], (r + 1) * value(0, i) + 1000 * (r * (r + 1) / 2));
        CHECK_EQ(in[10][i], value(2, r * N + i));
        CHECK_EQ(in[11][i], value(0, r * N + i));
        CHECK_EQ(in[24][i], value(P - 1, i));
        for (int k = 0; k < P; k++) {
            int at = k * N + i;
            CHECK_EQ(in[8][at], r == 0 ? value(k, i) : -1);
            CHECK_EQ(in[9][at], r == 1 ? value(k, i) : -1);
            CHECK_EQ(in[12][at], value(k, i));
            CHECK_EQ(in[13][at], value(k, i));
            CHECK_EQ(in[14][at], value(k, r * N + i));
            CHECK_EQ(in[15][at], value(k, r * N + i));
            CHECK_EQ(in[16][at], value(k, r * N + i));
            CHECK_EQ(in[22][at], value(k, i));
            CHECK_EQ(in[23][at], value(k, i));
            CHECK_EQ(in[25][at], value(k, r * N + i));
        }
        for (int of = 17; of <= 18; of++) {
            CHECK_EQ(in[of][i], value(before, i));
            CHECK_EQ(in[of][N + i], value(behind, i));
        }
        /* What goes to the one before comes first. */
        for (int of = 19; of <= 26; of += of == 21 ? 5 : 1) {
            CHECK_EQ(in[of][i], value(before, N + i));
            CHECK_EQ(in[of][N + i], value(behind, i));
        }
    }
    test_add(in, sizeof in);
    for (int k = 0; k < n; k++)
        CHECK(requests[k] != MPI_REQUEST_NULL, "request %d has gone", k);
}

int main(int argc, char **argv)
{
    int periodic = 1, loops = test_is(argc, argv, "loop");
    MPI_Comm comm, ring;
    MPI_Datatype pair;
    MPI_Op most;
    test_start(&argc, &argv);
    CHECK_EQ(test_size, P);
    for (int k = 0; k < P; k++) {
        large_counts[k] = counts[k] = N;
        large_places[k] = places[k] = k * N;
        large_bytes[k] = bytes[k] = k * N * (int)sizeof(int);
        types[k] = MPI_INT;
    }
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    MPI_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &test_size, &periodic, 0, &ring));
    MPI_OK(MPI_Type_contiguous(2, MPI_INT, &pair));
    MPI_OK(MPI_Type_commit(&pair));
    MPI_OK(MPI_Op_create(keep_more, 1, &most));
    init(comm, ring, pair, most);
    MPI_OK(MPI_Comm_free(&comm));
    MPI_OK(MPI_Comm_free(&ring));
    MPI_OK(MPI_Type_free(&pair));
    MPI_OK(MPI_Op_free(&most));
    if (loops) {
        for (step = 0; cut_more(step, 20, MPI_COMM_WORLD); step++) {
            fill();
            MPI_OK(MPI_Startall(n, requests));
            MPI_OK(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
            check();
        }
    } else {
        for (step = 0; step < 4; step++) {
            fill();
            if (step == 2 && test_is(argc, argv, "inactive"))
                cut();
            if (step == 2 && test_is(argc, argv, "active")) {
                MPI_OK(MPI_Startall(n, requests));
                cut();
            } else if (step == 2 && test_is(argc, argv, "late")) {
                /* The first half is started by all ranks but one, in another order than by that one. */
                for (int k = n / 2 - 1; test_rank != 1 && k >= 0; k--)
                    MPI_OK(MPI_Start(&requests[k]));
                cut();
                if (test_rank == 1)
                    MPI_OK(MPI_Startall(n / 2, requests));
                MPI_OK(MPI_Startall(n - n / 2, &requests[n / 2]));
            } else {
                MPI_OK(MPI_Startall(n, requests));
            }
            MPI_OK(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
            check();
        }
    }
    for (int k = 0; k < n; k++)
        MPI_OK(MPI_Request_free(&requests[k]));
    return loops ? test_finish_loop("persistent") : test_finish("persistent");
}
