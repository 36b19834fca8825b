//#Ranks: 3
//#Shows: a checkpoint is taken while two of three ranks wait in a blocking collective operation and the third stays outside; messages to the waiting ranks are under way
//#Cut: hold
//#Variant: barrier; matrix=full; modes=plain, continue, restart, migrate, cycle, ten
//#Variant: allreduce; modes=plain, continue, restart, migrate, cycle
//#Variant: in_place; modes=plain, continue, restart, migrate, cycle
//#Variant: bcast
//#Variant: alltoall
//#Variant: alltoallw
//#Variant: allgather
//#Variant: gather_in_place; ranks=2
//#Variant: scatter
//#Variant: scan
//#Variant: reduce; ranks=2
//#Variant: duplicate
#include "../stasis_test.h"

enum { N = 40, MOST = 3, LONG = 300000 };

static int in[MOST * N], out[MOST * N];
static unsigned char shorts[2][16], longs[2][LONG];

static int value(int rank, int i) { return 1000 * rank + 7 * i; }

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
    MPI_Request request[4];
    int pending = 0;
    test_start(&argc, &argv);
    int last = test_size - 1;
    const char *name = argc > 1 ? argv[1] : "barrier";
    if (!strcmp(name, "duplicate"))
        MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    /* The last rank is the first of the scan. */
    if (!strcmp(name, "scan"))
        MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, 0, -test_rank, &comm));
    /* Short and long messages from the last rank to each other one: one of each is waited for, one is not asked for
     * before the operation. */
    if (test_rank == last) {
        for (int to = 0; to < last; to++)
            for (int tag = 0; tag < 2; tag++) {
                test_fill(shorts[tag], sizeof shorts[tag], (uint32_t)tag);
                MPI_OK(MPI_Send(shorts[tag], sizeof shorts[tag], MPI_BYTE, to, tag, MPI_COMM_WORLD));
            }
        for (int tag = 0; tag < 2; tag++) {
            test_fill(longs[tag], LONG, 10 + (uint32_t)tag);
            for (int to = 0; to < last; to++)
                MPI_OK(MPI_Isend(longs[tag], LONG, MPI_BYTE, to, 10 + tag, MPI_COMM_WORLD, &request[pending++]));
        }
        cut();
    } else {
        MPI_OK(MPI_Irecv(shorts[0], sizeof shorts[0], MPI_BYTE, last, 0, MPI_COMM_WORLD, &request[pending++]));
        MPI_OK(MPI_Irecv(longs[0], LONG, MPI_BYTE, last, 10, MPI_COMM_WORLD, &request[pending++]));
        cut_announce();
    }
    operation(name, comm);
    if (test_rank != last) {
        MPI_OK(MPI_Recv(longs[1], LONG, MPI_BYTE, last, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        MPI_OK(MPI_Recv(shorts[1], sizeof shorts[1], MPI_BYTE, last, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    }
    MPI_OK(MPI_Waitall(pending, request, MPI_STATUSES_IGNORE));
    for (int tag = 0; tag < 2; tag++) {
        test_verify(shorts[tag], sizeof shorts[tag], (uint32_t)tag);
        test_verify(longs[tag], LONG, 10 + (uint32_t)tag);
    }
    if (comm != MPI_COMM_WORLD)
        MPI_OK(MPI_Comm_free(&comm));
    return test_finish(name);
}
