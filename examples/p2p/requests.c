//#Ranks: 2
//#Cut: hold
//#Shows: requests cancelled, freed while active, asked with Request_get_status, and generalized ones, across the cut
#include "../stasis_test.h"

static int queried, freed;

static int query(void *extra, MPI_Status *status)
{
    queried++;
    MPI_Status_set_elements(status, MPI_INT, *(int *)extra);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = 17;
    status->MPI_TAG = 18;
    return MPI_SUCCESS;
}

static int release(void *extra)
{
    (void)extra;
    freed++;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    (void)extra;
    (void)complete;
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int other = 1 - test_rank, flag, cancelled, count, extra = 5;
    static char out[400000], in[400000];
    int never = 0;
    MPI_Request unmatched, loose, later, general;
    MPI_Status status;

    MPI_OK(MPI_Irecv(&never, 1, MPI_INT, other, 99, MPI_COMM_WORLD, &unmatched));
    test_fill(out, sizeof out, (uint32_t)test_rank);
    MPI_OK(MPI_Isend(out, sizeof out, MPI_BYTE, other, 1, MPI_COMM_WORLD, &loose));
    MPI_OK(MPI_Request_free(&loose));
    MPI_OK(MPI_Irecv(in, sizeof in, MPI_BYTE, other, 1, MPI_COMM_WORLD, &later));
    MPI_OK(MPI_Grequest_start(query, release, cancel, &extra, &general));
    cut();
    for (flag = 0; !flag;)
        MPI_OK(MPI_Request_get_status(later, &flag, &status));
    MPI_OK(MPI_Get_count(&status, MPI_BYTE, &count));
    CHECK_EQ(count, sizeof in);
    CHECK(later != MPI_REQUEST_NULL, "get_status must not free");
    MPI_OK(MPI_Wait(&later, &status));
    test_verify(in, sizeof in, (uint32_t)other);

    MPI_OK(MPI_Test(&unmatched, &flag, &status));
    CHECK_EQ(flag, 0);
    MPI_OK(MPI_Cancel(&unmatched));
    MPI_OK(MPI_Wait(&unmatched, &status));
    MPI_OK(MPI_Test_cancelled(&status, &cancelled));
    CHECK_EQ(cancelled, 1);

    MPI_OK(MPI_Test(&general, &flag, &status));
    CHECK_EQ(flag, 0);
    MPI_OK(MPI_Grequest_complete(general));
    MPI_OK(MPI_Wait(&general, &status));
    MPI_OK(MPI_Get_count(&status, MPI_INT, &count));
    CHECK_EQ(count, 5);
    CHECK_EQ(status.MPI_SOURCE, 17);
    CHECK(queried >= 1 && freed == 1, "query %d, free %d", queried, freed);
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    return test_finish("requests");
}
