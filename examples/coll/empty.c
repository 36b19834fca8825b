//#Ranks: 3
//#Cut: hold
//#Shows: collectives of nothing: counts of zero, null buffers, empty datatypes, ranks that give nothing, initiated before the cut and completed after it
#include "../stasis_test.h"

enum { OPS = 12 };

static void blocking(MPI_Datatype nothing)
{
    int none[3] = {0, 0, 0}, some[3] = {0, 2, 0}, in[2] = {-1, -1}, out[2] = {test_rank, 40 + test_rank};
    MPI_OK(MPI_Bcast(NULL, 0, MPI_INT, 1, MPI_COMM_WORLD));
    MPI_OK(MPI_Bcast(out, 5, nothing, 1, MPI_COMM_WORLD));
    MPI_OK(MPI_Allreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
    MPI_OK(MPI_Alltoallv(out, none, none, MPI_INT, in, none, none, MPI_INT, MPI_COMM_WORLD));
    MPI_OK(MPI_Allgatherv(out, test_rank == 1 ? 2 : 0, MPI_INT, in, some, none, MPI_INT, MPI_COMM_WORLD));
    CHECK(in[0] == 1 && in[1] == 41, "gathered %d, %d", in[0], in[1]);
    test_add(in, sizeof in);
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int n = 0, r = test_rank, none[3] = {0, 0, 0}, one[3] = {0, 0, 1}, give = 7 * r + 1, got = -1, sum = -1, unused = -1;

    MPI_Datatype nothing;
    MPI_Request requests[OPS];
    MPI_OK(MPI_Type_contiguous(0, MPI_DOUBLE, &nothing));
    MPI_OK(MPI_Type_commit(&nothing));
    blocking(nothing);
    MPI_OK(MPI_Ibcast(NULL, 0, MPI_INT, 0, MPI_COMM_WORLD, &requests[n++]));
    MPI_OK(MPI_Ibcast(&give, 3, nothing, 2, MPI_COMM_WORLD, &requests[n++]));
    MPI_OK(MPI_Ireduce(NULL, NULL, 0, MPI_INT, MPI_SUM, 1, MPI_COMM_WORLD, &requests[n++]));
    MPI_OK(MPI_Iallreduce(NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[n++]));
    MPI_OK(MPI_Igather(NULL, 0, MPI_INT, NULL, 0, MPI_INT, 0, MPI_COMM_WORLD, &requests[n++]));
    MPI_OK(MPI_Iallgather(NULL, 0, MPI_INT, NULL, 0, MPI_INT, MPI_COMM_WORLD, &requests[n++]));
    MPI_OK(MPI_Ialltoall(NULL, 0, MPI_INT, NULL, 0, MPI_INT, MPI_COMM_WORLD, &requests[n++]));
    MPI_OK(MPI_Ialltoallv(&give, none, none, MPI_INT, &unused, none, none, MPI_INT, MPI_COMM_WORLD, &requests[n++]));
    MPI_OK(MPI_Iallgatherv(&give, r == 2, MPI_INT, &got, one, none, MPI_INT, MPI_COMM_WORLD, &requests[n++]));
    MPI_OK(MPI_Ireduce_scatter(&give, &sum, one, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[n++]));
    MPI_OK(MPI_Iscatterv(&give, none, none, MPI_INT, &unused, 0, MPI_INT, 1, MPI_COMM_WORLD, &requests[n++]));
    MPI_OK(MPI_Iscan(NULL, NULL, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[n++]));
    CHECK_EQ(n, OPS);
    cut();
    MPI_OK(MPI_Waitall(n, requests, MPI_STATUSES_IGNORE));
    CHECK_EQ(got, 15);
    CHECK_EQ(sum, r == 2 ? 24 : -1);
    CHECK(give == 7 * r + 1 && unused == -1, "%d, %d", give, unused);
    test_add(&got, sizeof got);
    blocking(nothing);
    MPI_OK(MPI_Type_free(&nothing));
    return test_finish("empty");
}
