//#Cut: hold
//#Shows: operations of the C++ bindings that Open MPI 4 and MPICH still have, used before and after the cut
#include "../stasis_test.h"

/* Not commutative: 2x2 matrices. */
static void product(const void *in, void *inout, int len, const MPI::Datatype &type)
{
    const long *a = static_cast<const long *>(in);
    long *b = static_cast<long *>(inout);
    CHECK_EQ(type.Get_size(), 4 * (int)sizeof(long));
    for (int i = 0; i < len; i++, a += 4, b += 4) {
        const long made[4] = {a[0] * b[0] + a[1] * b[2], a[0] * b[1] + a[1] * b[3],
                              a[2] * b[0] + a[3] * b[2], a[2] * b[1] + a[3] * b[3]};
        memcpy(b, made, sizeof made);
    }
}

static void largest(const void *in, void *inout, int len, const MPI::Datatype &type)
{
    CHECK(type == MPI::INT, "another datatype");
    for (int i = 0; i < len; i++)
        if (static_cast<const int *>(in)[i] > static_cast<int *>(inout)[i])
            static_cast<int *>(inout)[i] = static_cast<const int *>(in)[i];
}

static void use(const MPI::Op &matrices, const MPI::Op &most, const MPI::Datatype &matrix)
{
    const MPI::Intracomm &world = MPI::COMM_WORLD;
    const int rank = world.Get_rank(), size = world.Get_size(), number = 7 * rank;
    long own[4] = {1, rank + 1, rank, 1}, all[4], expected[4] = {1, 0, 0, 1}, next[4];
    int top = 0;
    world.Allreduce(own, all, 1, matrix, matrices);
    world.Allreduce(&number, &top, 1, MPI::INT, most);
    CHECK_EQ(top, 7 * (size - 1));
    for (int other = 0; other < size; other++) {
        const long its[4] = {1, other + 1, other, 1};
        memcpy(next, its, sizeof next);
        long before[4];
        memcpy(before, expected, sizeof before);
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++)
                expected[2 * i + j] = before[2 * i] * next[j] + before[2 * i + 1] * next[2 + j];
    }
    CHECK(!memcmp(all, expected, sizeof all), "another product: %ld %ld %ld %ld", all[0], all[1], all[2], all[3]);
    test_add(all, sizeof all);
}

int main(int argc, char **argv)
{
    MPI::Op matrices, most;
    test_start(&argc, &argv);
    MPI::Datatype matrix = MPI::LONG.Create_contiguous(4);
    matrix.Commit();
    matrices.Init(product, false);
    most.Init(largest, true);
    use(matrices, most, matrix);
    cut();
    use(matrices, most, matrix);
    matrices.Free();
    most.Free();
    matrix.Free();
    return test_finish("cxx_ops");
}
