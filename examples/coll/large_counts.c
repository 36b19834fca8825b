//#Ranks: 3
//#Mpi: mpich
//#Shows: large-count collectives, blocking, under way at the cut and of neighbours; one beyond an int
//#Variant: blocking; cut=hold
//#Variant: under_way; cut=hold
//#Variant: huge; cut=hold; ranks=2; modes=plain, migrate; timeout=300
#include "../stasis_test.h"

#include <sys/mman.h>

enum { N = 60, MOST = 8, TOTAL = N * MOST };

static int64_t out[TOTAL], in[TOTAL], more[TOTAL];
static MPI_Count counts[MOST], ones[MOST];
static MPI_Aint places[MOST], bytes[MOST];
static MPI_Datatype types[MOST];
static MPI_Comm ring;
static MPI_Op last_wins;

/* What is at the higher rank, by a function that is told how many by an MPI_Count. */
static void keep_last(void *in_vector, void *inout_vector, MPI_Count *length, MPI_Datatype *type)
{
    int64_t *from = in_vector, *to = inout_vector;
    MPI_Count size;
    MPI_OK(MPI_Type_size_c(*type, &size));
    CHECK_EQ(size, sizeof *to);
    for (MPI_Count i = 0; i < *length; i++)
        to[i] = to[i] > from[i] ? to[i] : from[i];
}

static int64_t value(int rank, int i) { return 1000 * rank + i; }

static void fill(void)
{
    for (int i = 0; i < TOTAL; i++) {
        out[i] = value(test_rank, i);
        in[i] = more[i] = -1;
    }
    for (int rank = 0; rank < test_size; rank++) {
        counts[rank] = N / 2;
        ones[rank] = 1;
        places[rank] = (MPI_Aint)rank * N;
        bytes[rank] = (MPI_Aint)rank * N * sizeof(int64_t);
        types[rank] = MPI_INT64_T;
    }
}

/* Of every rank `n` values that it had from `first` on, at `step` from rank to rank. */
static void check_all(const int64_t *got, int n, int step, int first)
{
    for (int rank = 0; rank < test_size; rank++) {
        for (int i = 0; i < n; i++)
            CHECK_EQ(got[rank * step + i], value(rank, first + i));
        test_add(got + rank * step, sizeof *got * n);
    }
}

static void check_sum(const int64_t *got, int n, int first, int ranks)
{
    for (int i = 0; i < n; i++) {
        int64_t sum = 0;
        for (int rank = 0; rank < ranks; rank++)
            sum += value(rank, first + i);
        CHECK_EQ(got[i], sum);
    }
    test_add(got, sizeof *got * n);
}

static void blocking(void)
{
    MPI_Comm w = MPI_COMM_WORLD;
    int root = 1, me = test_rank, size = test_size;
    fill();
    memcpy(in, out, sizeof in);
    MPI_OK(MPI_Bcast_c(in, N, MPI_INT64_T, root, w));
    CHECK_EQ(in[N - 1], value(root, N - 1));
    MPI_OK(MPI_Gather_c(out, N, MPI_INT64_T, in, N, MPI_INT64_T, root, w));
    if (me == root)
        check_all(in, N, N, 0);
    /* Elsewhere these arrays need not be there. */
    MPI_OK(MPI_Gatherv_c(out, N / 2, MPI_INT64_T, in, me == root ? counts : NULL,
                         me == root ? places : NULL, MPI_INT64_T, root, w));
    if (me == root)
        check_all(in, N / 2, N, 0);
    MPI_OK(MPI_Scatter_c(out, N, MPI_INT64_T, in, N, MPI_INT64_T, root, w));
    CHECK_EQ(in[3], value(root, me * N + 3));
    MPI_OK(MPI_Scatterv_c(out, me == root ? counts : NULL, me == root ? places : NULL,
                          MPI_INT64_T, in, N / 2, MPI_INT64_T, root, w));
    CHECK_EQ(in[3], value(root, me * N + 3));
    MPI_OK(MPI_Allgather_c(out, N, MPI_INT64_T, in, N, MPI_INT64_T, w));
    check_all(in, N, N, 0);
    MPI_OK(MPI_Allgatherv_c(out, N / 2, MPI_INT64_T, in, counts, places, MPI_INT64_T, w));
    check_all(in, N / 2, N, 0);
    MPI_OK(MPI_Alltoall_c(out, N, MPI_INT64_T, in, N, MPI_INT64_T, w));
    check_all(in, N, N, me * N);
    memcpy(in, out, sizeof in);
    MPI_OK(MPI_Alltoallv_c(MPI_IN_PLACE, NULL, NULL, MPI_DATATYPE_NULL, in, counts, places,
                           MPI_INT64_T, w));
    check_all(in, N / 2, N, me * N);
    MPI_OK(MPI_Alltoallv_c(out, counts, places, MPI_INT64_T, in, counts, places, MPI_INT64_T, w));
    check_all(in, N / 2, N, me * N);
    MPI_OK(MPI_Alltoallw_c(out, counts, bytes, types, in, counts, bytes, types, w));
    check_all(in, N / 2, N, me * N);
    MPI_OK(MPI_Reduce_c(out, in, N, MPI_INT64_T, MPI_SUM, root, w));
    if (me == root)
        check_sum(in, N, 0, size);
    MPI_OK(MPI_Allreduce_c(out, in, N, MPI_INT64_T, MPI_SUM, w));
    check_sum(in, N, 0, size);
    MPI_OK(MPI_Allreduce_c(out, in, N, MPI_INT64_T, last_wins, w));
    CHECK_EQ(in[5], value(size - 1, 5));
    MPI_OK(MPI_Reduce_scatter_block_c(out, in, N, MPI_INT64_T, MPI_SUM, w));
    check_sum(in, N, me * N, size);
    MPI_OK(MPI_Reduce_scatter_c(out, in, counts, MPI_INT64_T, MPI_SUM, w));
    check_sum(in, N / 2, me * N / 2, size);
    MPI_OK(MPI_Scan_c(out, in, N, MPI_INT64_T, MPI_SUM, w));
    check_sum(in, N, 0, me + 1);
    MPI_OK(MPI_Exscan_c(out, in, N, MPI_INT64_T, MPI_SUM, w));
    if (me > 0)
        check_sum(in, N, 0, me);
    memcpy(in, out, sizeof in);
    MPI_OK(MPI_Reduce_local_c(out, in, N, MPI_INT64_T, MPI_SUM));
    CHECK_EQ(in[7], 2 * value(me, 7));

    /* In a ring: from the one before, and from the one behind. */
    int before = (me + size - 1) % size, behind = (me + 1) % size;
    MPI_OK(MPI_Neighbor_allgather_c(out, N, MPI_INT64_T, in, N, MPI_INT64_T, ring));
    CHECK_EQ(in[1], value(before, 1));
    CHECK_EQ(in[N + 1], value(behind, 1));
    MPI_OK(MPI_Neighbor_allgatherv_c(out, N / 2, MPI_INT64_T, in, counts, places, MPI_INT64_T,
                                     ring));
    CHECK_EQ(in[N + 1], value(behind, 1));
    MPI_OK(MPI_Neighbor_alltoall_c(out, N, MPI_INT64_T, in, N, MPI_INT64_T, ring));
    CHECK_EQ(in[1], value(before, N + 1));
    MPI_OK(MPI_Neighbor_alltoallv_c(out, counts, places, MPI_INT64_T, in, counts, places,
                                    MPI_INT64_T, ring));
    CHECK_EQ(in[1], value(before, N + 1));
    MPI_OK(MPI_Neighbor_alltoallw_c(out, counts, bytes, types, in, counts, bytes, types, ring));
    CHECK_EQ(in[N + 1], value(behind, 1));
}

/* One of each family, started before the cut. */
static void under_way(void)
{
    enum { OPERATIONS = 9 };
    static int64_t results[OPERATIONS][TOTAL];
    MPI_Comm w = MPI_COMM_WORLD;
    MPI_Request requests[OPERATIONS];
    fill();
    memcpy(results[0], out, sizeof out);
    MPI_OK(MPI_Ibcast_c(results[0], N, MPI_INT64_T, 1, w, &requests[0]));
    MPI_OK(MPI_Iallgather_c(out, N, MPI_INT64_T, results[1], N, MPI_INT64_T, w, &requests[1]));
    MPI_OK(MPI_Iallgatherv_c(out, N / 2, MPI_INT64_T, results[2], counts, places, MPI_INT64_T, w,
                             &requests[2]));
    MPI_OK(MPI_Ialltoallv_c(out, counts, places, MPI_INT64_T, results[3], counts, places,
                            MPI_INT64_T, w, &requests[3]));
    MPI_OK(MPI_Ialltoallw_c(out, counts, bytes, types, results[4], counts, bytes, types, w,
                            &requests[4]));
    MPI_OK(MPI_Iallreduce_c(out, results[5], N, MPI_INT64_T, MPI_SUM, w, &requests[5]));
    MPI_OK(MPI_Iallreduce_c(out, results[6], N, MPI_INT64_T, last_wins, w, &requests[6]));
    MPI_OK(MPI_Ireduce_scatter_c(out, results[7], counts, MPI_INT64_T, MPI_SUM, w, &requests[7]));
    MPI_OK(MPI_Ineighbor_alltoallw_c(out, counts, bytes, types, results[8], counts, bytes, types,
                                     ring, &requests[8]));
    cut();
    MPI_OK(MPI_Waitall(OPERATIONS, requests, MPI_STATUSES_IGNORE));
    CHECK_EQ(results[0][2], value(1, 2));
    check_all(results[1], N, N, 0);
    check_all(results[2], N / 2, N, 0);
    check_all(results[3], N / 2, N, test_rank * N);
    check_all(results[4], N / 2, N, test_rank * N);
    check_sum(results[5], N, 0, test_size);
    CHECK_EQ(results[6][4], value(test_size - 1, 4));
    check_sum(results[7], N / 2, test_rank * N / 2, test_size);
    CHECK_EQ(results[8][N + 1], value((test_rank + 1) % test_size, 1));
}

/* The other non-blocking ones. */
static void the_rest(void)
{
    enum { OPERATIONS = 11 };
    static int64_t results[OPERATIONS][TOTAL];
    MPI_Comm w = MPI_COMM_WORLD;
    MPI_Request r[OPERATIONS];
    int me = test_rank, before = (me + test_size - 1) % test_size;
    fill();
    MPI_OK(MPI_Igather_c(out, N, MPI_INT64_T, results[0], N, MPI_INT64_T, 0, w, &r[0]));
    MPI_OK(MPI_Igatherv_c(out, N / 2, MPI_INT64_T, results[1], counts, places, MPI_INT64_T, 0, w,
                          &r[1]));
    MPI_OK(MPI_Iscatter_c(out, N, MPI_INT64_T, results[2], N, MPI_INT64_T, 0, w, &r[2]));
    MPI_OK(MPI_Iscatterv_c(out, counts, places, MPI_INT64_T, results[3], N / 2, MPI_INT64_T, 0, w,
                           &r[3]));
    MPI_OK(MPI_Ialltoall_c(out, N, MPI_INT64_T, results[4], N, MPI_INT64_T, w, &r[4]));
    MPI_OK(MPI_Ireduce_c(out, results[5], N, MPI_INT64_T, MPI_SUM, 0, w, &r[5]));
    MPI_OK(MPI_Iscan_c(out, results[6], N, MPI_INT64_T, MPI_SUM, w, &r[6]));
    MPI_OK(MPI_Iexscan_c(out, results[7], N, MPI_INT64_T, MPI_SUM, w, &r[7]));
    MPI_OK(MPI_Ireduce_scatter_block_c(out, results[8], N, MPI_INT64_T, MPI_SUM, w, &r[8]));
    MPI_OK(MPI_Ineighbor_allgather_c(out, N, MPI_INT64_T, results[9], N, MPI_INT64_T, ring, &r[9]));
    MPI_OK(MPI_Ineighbor_alltoallv_c(out, counts, places, MPI_INT64_T, results[10], counts, places,
                                     MPI_INT64_T, ring, &r[10]));
    MPI_OK(MPI_Waitall(OPERATIONS, r, MPI_STATUSES_IGNORE));
    if (me == 0) {
        check_all(results[0], N, N, 0);
        check_all(results[1], N / 2, N, 0);
        check_sum(results[5], N, 0, test_size);
    }
    CHECK_EQ(results[2][3], value(0, me * N + 3));
    CHECK_EQ(results[3][3], value(0, me * N + 3));
    check_all(results[4], N, N, me * N);
    check_sum(results[6], N, 0, me + 1);
    if (me > 0)
        check_sum(results[7], N, 0, me);
    check_sum(results[8], N, me * N, test_size);
    CHECK_EQ(results[9][1], value(before, 1));
    CHECK_EQ(results[10][1], value(before, N + 1));
}

/* More elements than an int can tell (MPICH 4.0 fails in its own MPI_Ibcast_c of as many). */
static void huge(void)
{
    MPI_Count n = (MPI_Count)INT32_MAX + 10;
    char *data = mmap(NULL, n, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(data != MAP_FAILED, "no address space");
    if (test_rank == 0)
        test_fill(data + n - N, N, 3);
    MPI_OK(MPI_Bcast_c(data, n, MPI_CHAR, 0, MPI_COMM_WORLD));
    test_verify(data + n - N, N, 3);
    CHECK_EQ(munmap(data, n), 0);
    cut();
}

int main(int argc, char **argv)
{
    int periodic = 1;
    test_start(&argc, &argv);
    CHECK(test_size <= MOST, "%d ranks", test_size);
    MPI_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &test_size, &periodic, 0, &ring));
    MPI_OK(MPI_Op_create_c(keep_last, 1, &last_wins));
    if (test_is(argc, argv, "huge")) {
        huge();
    } else if (test_is(argc, argv, "under_way")) {
        under_way();
    } else {
        blocking();
        cut();
        blocking();
        the_rest();
    }
    MPI_OK(MPI_Op_free(&last_wins));
    MPI_OK(MPI_Comm_free(&ring));
    return test_finish("large_counts");
}
