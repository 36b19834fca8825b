//#Ranks: 3
//#Cut: hold
//#Shows: user-defined reduction operations, commutative and not, on basic and derived datatypes, used after the cut
#include "../stasis_test.h"

static int calls;

/* Composition of x -> a*x + b modulo a prime: associative, not commutative. */
static void compose(void *in, void *inout, int *len, MPI_Datatype *type)
{
    uint32_t *first = in, *second = inout;
    int size;
    MPI_Type_size(*type, &size);
    CHECK_EQ(size, 8);
    calls++;
    for (int i = 0; i < *len; i++, first += 2, second += 2) {
        uint64_t a = (uint64_t)first[0] * second[0] % 65521;
        uint64_t b = ((uint64_t)second[0] * first[1] + second[1]) % 65521;
        second[0] = (uint32_t)a;
        second[1] = (uint32_t)b;
    }
}

static void sum_squares(void *in, void *inout, int *len, MPI_Datatype *type)
{
    CHECK(*type == MPI_LONG, "another datatype than the one of the call");
    for (int i = 0; i < *len; i++)
        ((long *)inout)[i] = ((long *)inout)[i] + ((long *)in)[i] % 1000003;
}

static void check(MPI_Op op, MPI_Op sum, MPI_Datatype pair)
{
    uint32_t mine[2] = {(uint32_t)(3 + test_rank), (uint32_t)(7 * test_rank + 1)}, all[2], expected[2] = {1, 0};
    for (int k = 0; k < test_size; k++) {
        uint32_t next[2] = {(uint32_t)(3 + k), (uint32_t)(7 * k + 1)};
        uint32_t a = expected[0] * next[0] % 65521;
        uint32_t b = (next[0] * expected[1] + next[1]) % 65521;
        expected[0] = a;
        expected[1] = b;
    }
    MPI_OK(MPI_Allreduce(mine, all, 1, pair, op, MPI_COMM_WORLD));
    CHECK_EQ(all[0], expected[0]);
    CHECK_EQ(all[1], expected[1]);
    long x = test_rank + 5, y = 0;
    MPI_OK(MPI_Allreduce(&x, &y, 1, MPI_LONG, sum, MPI_COMM_WORLD));
    CHECK_EQ(y, test_size * 5 + test_size * (test_size - 1) / 2);
    MPI_OK(MPI_Reduce_local(&x, &y, 1, MPI_LONG, sum));
    test_add(&y, sizeof y);
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    MPI_Op op, sum;
    MPI_Datatype pair;
    MPI_Request request;
    int commutes;
    MPI_OK(MPI_Op_create(compose, 0, &op));
    MPI_OK(MPI_Op_create(sum_squares, 1, &sum));
    MPI_OK(MPI_Type_contiguous(2, MPI_UINT32_T, &pair));
    MPI_OK(MPI_Type_commit(&pair));
    check(op, sum, pair);
    long x = test_rank, y = -1;
    MPI_OK(MPI_Iallreduce(&x, &y, 1, MPI_LONG, sum, MPI_COMM_WORLD, &request));
    cut();
    MPI_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    CHECK_EQ(y, test_size * (test_size - 1) / 2);
    MPI_OK(MPI_Op_commutative(op, &commutes));
    CHECK_EQ(commutes, 0);
    MPI_OK(MPI_Op_commutative(sum, &commutes));
    CHECK_EQ(commutes, 1);
    check(op, sum, pair);
    /* Pairs with places, and the logical and bitwise ones. */
    struct { double value; int at; } mine = {test_rank * 1.5, test_rank}, best;
    MPI_OK(MPI_Allreduce(&mine, &best, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD));
    CHECK_EQ(best.at, test_size - 1);
    MPI_OK(MPI_Op_free(&op));
    MPI_OK(MPI_Op_free(&sum));
    CHECK(op == MPI_OP_NULL, "not freed");
    MPI_OK(MPI_Type_free(&pair));
    return test_finish("user_ops");
}
