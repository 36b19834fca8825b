//#Ranks: 3
//#Shows: a checkpoint is taken while two of three ranks wait in a blocking collective operation and the third stays outside; messages to the waiting ranks are under way
//#Cut: hold
//#Variant: barrier; matrix=full; modes=plain, continue, restart, migrate, cycle, ten
//#Variant: allreduce; modes=plain, continue, restart, migrate, cycle
//#Variant: in_place; modes=plain, continue, restart, migrate, cycle
//#Variant: alltoall_in_place
//#Variant: reduce_scatter_in_place
//#Variant: bcast
//#Variant: alltoall
//#Variant: alltoallw
//#Variant: allgather
//#Variant: allgather_in_place
//#Variant: allgatherv_in_place
//#Variant: gather_in_place; ranks=2
//#Variant: scatter
//#Variant: scan
//#Variant: reduce; ranks=2
//#Variant: duplicate
#include "../late.h"

enum { N = 40, MOST = 3 };

static int in[MOST * N], out[MOST * N];

static int value(int rank, int i) { return 1000 * rank + 7 * i; }

/* Each rank's own block is in its place, and nothing in the others'. */
static void gather_in_place_begin(MPI_Comm comm)
{
    int r;
    MPI_OK(MPI_Comm_rank(comm, &r));
    for (int i = 0; i < MOST * N; i++)
        in[i] = i / N == r ? value(r, i) : -1;
}

/* Each block begins with `n` values of its rank. */
static void gather_in_place_end(int n)
{
    for (int k = 0; k < test_size; k++)
        for (int i = 0; i < n; i++)
            CHECK_EQ(in[k * N + i], value(k, k * N + i));
}

/* The operation in which all ranks but the last wait, and its result. */
static void operation(const char *name, MPI_Comm comm)
{
    int r = test_rank, p = test_size, last = p - 1;
    for (int i = 0; i < MOST * N; i++) {
        in[i] = value(r, i);
        out[i] = -1;
    }
    if (!strcmp(name, "barrier") || !strcmp(name, "duplicate")) {
        MPI_OK(MPI_Barrier(comm));
    } else if (!strcmp(name, "allreduce")) {
        MPI_OK(MPI_Allreduce(in, out, N, MPI_INT, MPI_SUM, comm));
        for (int i = 0; i < N; i++)
            CHECK_EQ(out[i], p * value(0, i) + 1000 * (p * (p - 1) / 2));
    } else if (!strcmp(name, "in_place")) {
        MPI_OK(MPI_Allreduce(MPI_IN_PLACE, in, N, MPI_INT, MPI_SUM, comm));
        for (int i = 0; i < N; i++)
            CHECK_EQ(in[i], p * value(0, i) + 1000 * (p * (p - 1) / 2));
    } else if (!strcmp(name, "alltoall_in_place")) {
        MPI_OK(MPI_Alltoall(MPI_IN_PLACE, 0, MPI_INT, in, N, MPI_INT, comm));
        for (int i = 0; i < p * N; i++)
            CHECK_EQ(in[i], value(i / N, r * N + i % N));
    } else if (!strcmp(name, "reduce_scatter_in_place")) {
        MPI_OK(MPI_Reduce_scatter_block(MPI_IN_PLACE, in, N, MPI_INT, MPI_SUM, comm));
        for (int i = 0; i < N; i++)
            CHECK_EQ(in[i], p * value(0, r * N + i) + 1000 * (p * (p - 1) / 2));
        /* The rest is undefined. */
        memset(in + N, 0, sizeof in - N * sizeof in[0]);
    } else if (!strcmp(name, "bcast")) {
        MPI_OK(MPI_Bcast(in, N, MPI_INT, last, comm));
        for (int i = 0; i < N; i++)
            CHECK_EQ(in[i], value(last, i));
    } else if (!strcmp(name, "alltoall")) {
        MPI_OK(MPI_Alltoall(in, N, MPI_INT, out, N, MPI_INT, comm));
        for (int i = 0; i < p * N; i++)
            CHECK_EQ(out[i], value(i / N, r * N + i % N));
    } else if (!strcmp(name, "alltoallw")) {
        int counts[MOST], places[MOST];
        MPI_Datatype types[MOST];
        for (int k = 0; k < p; k++) {
            counts[k] = N / 2;
            places[k] = k * N * (int)sizeof(int);
            MPI_OK(MPI_Type_vector(1, 1, 1, MPI_INT, &types[k]));
            MPI_OK(MPI_Type_commit(&types[k]));
        }
        MPI_OK(MPI_Alltoallw(in, counts, places, types, out, counts, places, types, comm));
        for (int k = 0; k < p; k++) {
            for (int i = 0; i < N / 2; i++)
                CHECK_EQ(out[k * N + i], value(k, r * N + i));
            MPI_OK(MPI_Type_free(&types[k]));
        }
    } else if (!strcmp(name, "allgather")) {
        MPI_OK(MPI_Allgather(in, N, MPI_INT, out, N, MPI_INT, comm));
        for (int i = 0; i < p * N; i++)
            CHECK_EQ(out[i], value(i / N, i % N));
    } else if (!strcmp(name, "allgather_in_place")) {
        gather_in_place_begin(comm);
        MPI_OK(MPI_Allgather(MPI_IN_PLACE, 0, MPI_INT, in, N, MPI_INT, comm));
        gather_in_place_end(N);
    } else if (!strcmp(name, "allgatherv_in_place")) {
        int counts[MOST], places[MOST];
        for (int k = 0; k < p; k++) {
            counts[k] = N - k;
            places[k] = k * N;
        }
        gather_in_place_begin(comm);
        MPI_OK(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_INT, in, counts, places, MPI_INT, comm));
        gather_in_place_end(N - p + 1);
    } else if (!strcmp(name, "gather_in_place")) {
        MPI_OK(MPI_Gather(r ? in : MPI_IN_PLACE, N, MPI_INT, in, N, MPI_INT, 0, comm));
        for (int i = 0; r == 0 && i < p * N; i++)
            CHECK_EQ(in[i], i < N ? value(0, i) : value(i / N, i % N));
    } else if (!strcmp(name, "scatter")) {
        MPI_OK(MPI_Scatter(in, N, MPI_INT, out, N, MPI_INT, last, comm));
        for (int i = 0; i < N; i++)
            CHECK_EQ(out[i], value(last, r * N + i));
    } else if (!strcmp(name, "scan")) {
        MPI_OK(MPI_Scan(in, out, N, MPI_INT, MPI_SUM, comm));
        for (int i = 0; i < N; i++)
            CHECK_EQ(out[i], (p - r) * value(0, i) + 1000 * ((p - r) * (p - 1 + r) / 2));
    } else if (!strcmp(name, "reduce")) {
        MPI_OK(MPI_Reduce(in, out, N, MPI_INT, MPI_SUM, 0, comm));
        for (int i = 0; r == 0 && i < N; i++)
            CHECK_EQ(out[i], p * value(0, i) + 1000 * (p * (p - 1) / 2));
    } else {
        CHECK(0, "no operation is called %s", name);
    }
    test_add(in, sizeof in);
    test_add(out, sizeof out);
}

int main(int argc, char **argv)
{
    MPI_Comm comm = MPI_COMM_WORLD;
    test_start(&argc, &argv);
    const char *name = argc > 1 ? argv[1] : "barrier";
    if (!strcmp(name, "duplicate"))
        MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    /* The last rank is the first of the scan, and of gathers in place: some libraries move the others' blocks early. */
    if (!strcmp(name, "scan") || !strcmp(name, "allgather_in_place") || !strcmp(name, "allgatherv_in_place"))
        MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -test_rank, &comm));
    late_begin();
    operation(name, comm);
    late_end();
    if (comm != MPI_COMM_WORLD)
        MPI_OK(MPI_Comm_free(&comm));
    return test_finish(name);
}
