//#Ranks: 3
//#Cut: loop
//#Modes: plain, continue, restart, migrate, cycle
//#Variant: clocks; matrix=full
//#Variant: two-phase; published=two-phase-commit; modes=plain, continue, restart, migrate
//#Shows: every blocking collective of MPI-3.1 in a loop that the cut hits anywhere
#include "../stasis_test.h"

enum { N = 6 };

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int p = test_size, r = test_rank;
    for (int step = 0; cut_more(step, 20, MPI_COMM_WORLD); step++) {
        int a[N], b[N], many[N * 8], out[N * 8], counts[8], displs[8], root = step % p;
        MPI_Datatype types[8];
        for (int i = 0; i < N; i++)
            a[i] = step + 10 * r + i;
        for (int i = 0; i < N * p; i++)
            out[i] = 100 * r + i + step;
        for (int k = 0; k < p; k++) {
            counts[k] = k + 1;
            displs[k] = k * N;
            types[k] = MPI_INT;
        }
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));

        memcpy(b, a, sizeof b);
        MPI_OK(MPI_Bcast(b, N, MPI_INT, root, MPI_COMM_WORLD));
        CHECK_EQ(b[N - 1], step + 10 * root + N - 1);

        MPI_OK(MPI_Allreduce(a, b, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK_EQ(b[1], p * (step + 1) + 10 * p * (p - 1) / 2);

        MPI_OK(MPI_Reduce(r == root ? MPI_IN_PLACE : a, a, N, MPI_INT, MPI_MAX, root, MPI_COMM_WORLD));
        if (r == root) {
            CHECK_EQ(a[0], step + 10 * (p - 1));
            for (int i = 0; i < N; i++)
                a[i] = step + 10 * r + i;
        }
        MPI_OK(MPI_Gather(a, N, MPI_INT, many, N, MPI_INT, root, MPI_COMM_WORLD));
        if (r == root)
            for (int k = 0; k < p; k++)
                CHECK_EQ(many[k * N + 2], step + 10 * k + 2);

        MPI_OK(MPI_Gatherv(a, r + 1, MPI_INT, many, counts, displs, MPI_INT, root, MPI_COMM_WORLD));
        if (r == root)
            for (int k = 0; k < p; k++)
                CHECK_EQ(many[k * N + k], step + 10 * k + k);

        MPI_OK(MPI_Scatter(out, N, MPI_INT, b, N, MPI_INT, root, MPI_COMM_WORLD));
        CHECK_EQ(b[0], 100 * root + r * N + step);

        MPI_OK(MPI_Scatterv(out, counts, displs, MPI_INT, b, r + 1, MPI_INT, root, MPI_COMM_WORLD));
        CHECK_EQ(b[r], 100 * root + r * N + r + step);

        MPI_OK(MPI_Allgather(a, N, MPI_INT, many, N, MPI_INT, MPI_COMM_WORLD));
        MPI_OK(MPI_Allgatherv(a, r + 1, MPI_INT, many, counts, displs, MPI_INT, MPI_COMM_WORLD));
        for (int k = 0; k < p; k++)
            CHECK_EQ(many[k * N + k], step + 10 * k + k);

        MPI_OK(MPI_Alltoall(out, N, MPI_INT, many, N, MPI_INT, MPI_COMM_WORLD));
        for (int k = 0; k < p; k++)
            CHECK_EQ(many[k * N + 3], 100 * k + r * N + 3 + step);

        int take[8], give[8], bytes[8];
        for (int k = 0; k < p; k++) {
            give[k] = k + 1;
            take[k] = r + 1;
            bytes[k] = displs[k] * (int)sizeof(int);
        }
        MPI_OK(MPI_Alltoallv(out, give, displs, MPI_INT, many, take, displs, MPI_INT, MPI_COMM_WORLD));
        for (int k = 0; k < p; k++)
            CHECK_EQ(many[k * N + r], 100 * k + r * N + r + step);
        MPI_OK(MPI_Alltoallw(out, give, bytes, types, many, take, bytes, types, MPI_COMM_WORLD));
        for (int k = 0; k < p; k++)
            CHECK_EQ(many[k * N], 100 * k + r * N + step);

        MPI_OK(MPI_Scan(a, b, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK_EQ(b[0], (r + 1) * step + 10 * r * (r + 1) / 2);
        MPI_OK(MPI_Exscan(a, b, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        if (r > 0)
            CHECK_EQ(b[0], r * step + 10 * r * (r - 1) / 2);

        MPI_OK(MPI_Reduce_scatter_block(out, b, N, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK_EQ(b[0], 100 * p * (p - 1) / 2 + p * (r * N + step));
        MPI_OK(MPI_Reduce_scatter(out, b, counts, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
        CHECK_EQ(b[0], r * (r + 1) / 2 + step);
    }
    return test_finish_loop("blocking_loop");
}
