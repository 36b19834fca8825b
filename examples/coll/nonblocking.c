//#Ranks: 3
//#Shows: non-blocking collectives initiated before the cut and completed after it
//#Variant: all_initiated; cut=hold; matrix=full
//#Variant: some_initiated; cut=pending; matrix=full
//#Variant: wait_blocked; cut=pending
//#Variant: large; cut=hold
#include "../stasis_test.h"

enum { OPS = 10 };

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int n = test_is(argc, argv, "large") ? 60000 : 5, p = test_size, r = test_rank;
    int late = (test_is(argc, argv, "some_initiated") || test_is(argc, argv, "wait_blocked")) && r == p - 1;
    int *a = malloc(n * sizeof(int)), *sum = malloc(n * sizeof(int)), *max = malloc(n * sizeof(int));
    int *all = malloc(n * p * sizeof(int)), *out = malloc(n * p * sizeof(int)), *in = malloc(n * p * sizeof(int));
    int *root = malloc(n * p * sizeof(int)), *part = malloc(n * sizeof(int)), *scan = malloc(n * sizeof(int));
    char *bytes = malloc(n);
    int *counts = malloc(p * sizeof(int)), *displs = malloc(p * sizeof(int)), *in2 = malloc(n * p * sizeof(int));
    MPI_Request requests[OPS];
    MPI_Status statuses[OPS];

    if (late)
        cut();
    for (int i = 0; i < n; i++)
        a[i] = 1000 * r + i;
    for (int i = 0; i < n * p; i++)
        out[i] = 1000000 * r + i;
    for (int i = 0; i < p; i++) {
        counts[i] = n;
        displs[i] = n * (p - 1 - i);
    }
    if (r == 1)
        test_fill(bytes, n, 9);
    MPI_OK(MPI_Ibarrier(MPI_COMM_WORLD, &requests[0]));
    MPI_OK(MPI_Ibcast(bytes, n, MPI_BYTE, 1, MPI_COMM_WORLD, &requests[1]));
    MPI_OK(MPI_Iallreduce(a, sum, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[2]));
    MPI_OK(MPI_Ireduce(a, max, n, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD, &requests[3]));
    MPI_OK(MPI_Iallgather(a, n, MPI_INT, all, n, MPI_INT, MPI_COMM_WORLD, &requests[4]));
    MPI_OK(MPI_Ialltoall(out, n, MPI_INT, in, n, MPI_INT, MPI_COMM_WORLD, &requests[5]));
    MPI_OK(MPI_Igather(a, n, MPI_INT, root, n, MPI_INT, 2, MPI_COMM_WORLD, &requests[6]));
    MPI_OK(MPI_Iscatter(out, n, MPI_INT, part, n, MPI_INT, 0, MPI_COMM_WORLD, &requests[7]));
    MPI_OK(MPI_Iscan(a, scan, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[8]));
    MPI_OK(MPI_Ialltoallv(out, counts, displs, MPI_INT, in2, counts, displs, MPI_INT, MPI_COMM_WORLD, &requests[9]));
    if (!late) {
        cut_announce();
        if (!test_is(argc, argv, "wait_blocked"))
            cut_hold();
    }
    if (r == 1) {
        for (int i = OPS - 1; i >= 0; i--)
            MPI_OK(MPI_Wait(&requests[i], &statuses[i]));
    } else if (r == 0) {
        MPI_OK(MPI_Waitall(OPS, requests, statuses));
    } else {
        for (int done = 0; !done;)
            MPI_OK(MPI_Testall(OPS, requests, &done, MPI_STATUSES_IGNORE));
    }
    for (int i = 0; i < OPS; i++)
        CHECK(requests[i] == MPI_REQUEST_NULL, "request %d is still there", i);
    test_verify(bytes, n, 9);
    for (int i = 0; i < n; i++) {
        CHECK_EQ(sum[i], 1000 * p * (p - 1) / 2 + p * i);
        CHECK_EQ(part[i], r * n + i);
        CHECK_EQ(scan[i], 1000 * r * (r + 1) / 2 + (r + 1) * i);
        if (r == 0)
            CHECK_EQ(max[i], 1000 * (p - 1) + i);
        for (int k = 0; k < p; k++) {
            CHECK_EQ(all[k * n + i], 1000 * k + i);
            CHECK_EQ(in[k * n + i], 1000000 * k + r * n + i);
            CHECK_EQ(in2[displs[k] + i], 1000000 * k + displs[r] + i);
            if (r == 2)
                CHECK_EQ(root[k * n + i], 1000 * k + i);
        }
    }
    test_add(sum, n * sizeof(int));
    test_add(in, n * p * sizeof(int));
    return test_finish(argv[1]);
}
