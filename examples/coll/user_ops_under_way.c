//#Ranks: 3
//#Shows: a user-defined operation is running when the checkpoint is asked for, in a blocking and in a non-blocking reduction; operation and datatype are freed while it is under way
//#Variant: blocking; cut=pending
//#Variant: nonblocking; cut=pending
//#Variant: freed; cut=hold; matrix=full
#include "../stasis_test.h"

enum { N = 1000, OPS = 5 };

static int slow;

/* 2x2 matrices modulo a prime: associative, not commutative. */
static void multiply(void *in, void *inout, int *len, MPI_Datatype *type)
{
    uint32_t(*a)[4] = in, (*b)[4] = inout;
    int size;
    MPI_OK(MPI_Type_size(*type, &size));
    CHECK_EQ(size, 16);
    if (slow) {
        slow = 0;
        cut();
    }
    for (int i = 0; i < *len; i++) {
        uint64_t product[4];
        for (int k = 0; k < 4; k++)
            product[k] = ((uint64_t)a[i][k / 2 * 2] * b[i][k % 2] + (uint64_t)a[i][k / 2 * 2 + 1] * b[i][2 + k % 2]) % 65521;
        for (int k = 0; k < 4; k++)
            b[i][k] = (uint32_t)product[k];
    }
}

static void fill(uint32_t (*m)[4], int rank)
{
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 4; k++)
            m[i][k] = (uint32_t)(100 * rank + 10 * i + k + 1) % 65521;
}

/* The product over ranks `from` to `to`. */
static void check(uint32_t (*m)[4], int from, int to)
{
    static uint32_t expected[N][4], next[N][4];
    int n = N;
    MPI_Datatype type;
    MPI_OK(MPI_Type_contiguous(4, MPI_UINT32_T, &type));
    fill(expected, to);
    for (int rank = to - 1; rank >= from; rank--) {
        fill(next, rank);
        multiply(next, expected, &n, &type);
    }
    MPI_OK(MPI_Type_free(&type));
    CHECK(memcmp(m, expected, sizeof expected) == 0, "another product of ranks %d to %d", from, to);
    test_add(m, sizeof expected);
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    CHECK(argc > 1, "which variant?");
    static uint32_t mine[N][4], all[N][4], root[N][4], before[N][4], upto[N][4], part[3 * N][4], own[N][4];
    MPI_Op op;
    MPI_Datatype matrix;
    MPI_Request requests[OPS];
    MPI_OK(MPI_Op_create(multiply, 0, &op));
    MPI_OK(MPI_Type_contiguous(4, MPI_UINT32_T, &matrix));
    MPI_OK(MPI_Type_commit(&matrix));
    fill(mine, test_rank);
    for (int k = 0; k < 3; k++)
        fill(&part[k * N], test_rank);
    /* The last rank multiplies in every algorithm; which others do is the library's affair. */
    slow = strcmp(argv[1], "freed") && test_rank == test_size - 1;
    if (!test_is(argc, argv, "freed") && !slow)
        cut_announce();
    if (test_is(argc, argv, "blocking")) {
        MPI_OK(MPI_Scan(mine, upto, N, matrix, op, MPI_COMM_WORLD));
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
        check(upto, 0, test_rank);
    }
    MPI_OK(MPI_Iscan(mine, upto, N, matrix, op, MPI_COMM_WORLD, &requests[0]));
    MPI_OK(MPI_Iallreduce(mine, all, N, matrix, op, MPI_COMM_WORLD, &requests[1]));
    MPI_OK(MPI_Ireduce(mine, root, N, matrix, op, 1, MPI_COMM_WORLD, &requests[2]));
    MPI_OK(MPI_Iexscan(mine, before, N, matrix, op, MPI_COMM_WORLD, &requests[3]));
    MPI_OK(MPI_Ireduce_scatter_block(part, own, N, matrix, op, MPI_COMM_WORLD, &requests[4]));
    MPI_OK(MPI_Op_free(&op));
    MPI_OK(MPI_Type_free(&matrix));
    if (test_is(argc, argv, "freed"))
        cut();
    MPI_OK(MPI_Waitall(OPS, requests, MPI_STATUSES_IGNORE));
    /* Nobody ends while the slow one is still multiplying. */
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    check(upto, 0, test_rank);
    check(all, 0, test_size - 1);
    if (test_rank == 1)
        check(root, 0, test_size - 1);
    if (test_rank > 0)
        check(before, 0, test_rank - 1);
    check(own, 0, test_size - 1);
    return test_finish(argv[1]);
}
