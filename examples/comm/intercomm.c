//#Ranks: 4
//#Cut: hold
//#Shows: an intercommunicator with messages in flight at the cut, its collectives and its merge afterwards
#include "../stasis_test.h"

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int side = test_rank / 2, r = test_rank % 2, flag, size, remote;
    MPI_Comm local, inter, merged, copy;
    MPI_OK(MPI_Comm_split(MPI_COMM_WORLD, side, test_rank, &local));
    MPI_OK(MPI_Intercomm_create(local, 0, MPI_COMM_WORLD, side ? 0 : 2, 12, &inter));
    MPI_OK(MPI_Comm_dup(inter, &copy));
    static char out[80000], in[80000];
    test_fill(out, sizeof out, (uint32_t)test_rank);
    MPI_Request requests[2], posted;
    int late = -1;
    MPI_OK(MPI_Isend(out, 100, MPI_BYTE, r, 1, inter, &requests[0]));
    MPI_OK(MPI_Isend(out, sizeof out, MPI_BYTE, 1 - r, 2, copy, &requests[1]));
    MPI_OK(MPI_Irecv(&late, 1, MPI_INT, r, 3, inter, &posted));
    cut();
    MPI_Status status;
    MPI_OK(MPI_Recv(in, 100, MPI_BYTE, MPI_ANY_SOURCE, 1, inter, &status));
    CHECK_EQ(status.MPI_SOURCE, r);
    test_verify(in, 100, (uint32_t)((1 - side) * 2 + r));
    MPI_OK(MPI_Recv(in, sizeof in, MPI_BYTE, 1 - r, 2, copy, &status));
    test_verify(in, sizeof in, (uint32_t)((1 - side) * 2 + 1 - r));
    MPI_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    MPI_OK(MPI_Send(&test_rank, 1, MPI_INT, r, 3, inter));
    MPI_OK(MPI_Wait(&posted, MPI_STATUS_IGNORE));
    CHECK_EQ(late, (1 - side) * 2 + r);

    MPI_OK(MPI_Comm_test_inter(inter, &flag));
    CHECK_EQ(flag, 1);
    MPI_OK(MPI_Comm_remote_size(inter, &remote));
    MPI_OK(MPI_Comm_size(inter, &size));
    CHECK(size == 2 && remote == 2, "%d here, %d there", size, remote);
    int sum = 0;
    MPI_OK(MPI_Allreduce(&test_rank, &sum, 1, MPI_INT, MPI_SUM, inter));
    CHECK_EQ(sum, side ? 1 : 5);
    int value = side == 0 && r == 1 ? 4711 : -1;
    MPI_OK(MPI_Bcast(&value, 1, MPI_INT, side == 0 ? (r == 1 ? MPI_ROOT : MPI_PROC_NULL) : 1, inter));
    CHECK_EQ(value, side || r == 1 ? 4711 : -1);
    MPI_OK(MPI_Intercomm_merge(inter, 1 - side, &merged));
    int at;
    MPI_OK(MPI_Comm_rank(merged, &at));
    CHECK_EQ(at, side ? r : 2 + r);
    test_add(&at, sizeof at);
    MPI_OK(MPI_Comm_free(&merged));
    MPI_OK(MPI_Comm_free(&copy));
    MPI_OK(MPI_Comm_free(&inter));
    MPI_OK(MPI_Comm_free(&local));
    return test_finish("intercomm");
}
