//#Ranks: 2
//#Cut: hold
//#Shows: MPI_Cancel before the cut and the wait after it: an unmatched receive, a matched one, persistent, freed, generalized, a send
#include "../stasis_test.h"

enum { N = 70000 };
static int cancels, released;

static int query(void *extra, MPI_Status *status)
{
    (void)extra;
    MPI_Status_set_elements(status, MPI_BYTE, 0);
    MPI_Status_set_cancelled(status, cancels);
    return MPI_SUCCESS;
}

static int release(void *extra)
{
    (void)extra;
    released++;
    return MPI_SUCCESS;
}

static int cancel(void *extra, int complete)
{
    (void)extra;
    CHECK_EQ(complete, 0);
    cancels++;
    return MPI_SUCCESS;
}

/* Waits, and says whether the operation was cancelled. */
static int was_cancelled(MPI_Request *request)
{
    MPI_Status status;
    int flag = -1;
    MPI_OK(MPI_Wait(request, &status));
    MPI_OK(MPI_Test_cancelled(&status, &flag));
    return flag;
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int other = 1 - test_rank, theirs;
    static char out[3][N], in[3][N], never[N];
    MPI_Request unmatched, matched, persistent, loose, general, send, sent;
    for (int m = 0; m < 3; m++)
        test_fill(out[m], N, (uint32_t)(10 * test_rank + m));

    MPI_OK(MPI_Irecv(never, N, MPI_BYTE, MPI_ANY_SOURCE, 90, MPI_COMM_WORLD, &unmatched));
    MPI_OK(MPI_Cancel(&unmatched));
    /* It may have its message when the cancel comes, or not. */
    MPI_OK(MPI_Irecv(in[0], N, MPI_BYTE, other, 0, MPI_COMM_WORLD, &matched));
    MPI_OK(MPI_Isend(out[0], N, MPI_BYTE, other, 0, MPI_COMM_WORLD, &sent));
    MPI_OK(MPI_Cancel(&matched));
    MPI_OK(MPI_Recv_init(in[1], N, MPI_BYTE, other, 1, MPI_COMM_WORLD, &persistent));
    MPI_OK(MPI_Start(&persistent));
    MPI_OK(MPI_Cancel(&persistent));
    MPI_OK(MPI_Irecv(never, N, MPI_BYTE, other, 91, MPI_COMM_WORLD, &loose));
    MPI_OK(MPI_Cancel(&loose));
    MPI_OK(MPI_Request_free(&loose));
    MPI_OK(MPI_Grequest_start(query, release, cancel, NULL, &general));
    MPI_OK(MPI_Cancel(&general));
    CHECK_EQ(cancels, 1);
    /* Libraries differ in whether a send can be cancelled at all. */
    MPI_OK(MPI_Isend(out[2], N, MPI_BYTE, other, 2, MPI_COMM_WORLD, &send));
    MPI_OK(MPI_Cancel(&send));

    cut();

    CHECK_EQ(was_cancelled(&unmatched), 1);
    if (was_cancelled(&matched))
        MPI_OK(MPI_Recv(in[0], N, MPI_BYTE, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    test_verify(in[0], N, (uint32_t)(10 * other));
    MPI_OK(MPI_Wait(&sent, MPI_STATUS_IGNORE));
    CHECK_EQ(was_cancelled(&persistent), 1);
    /* The same persistent request serves again. */
    MPI_OK(MPI_Start(&persistent));
    MPI_OK(MPI_Send(out[1], N, MPI_BYTE, other, 1, MPI_COMM_WORLD));
    CHECK_EQ(was_cancelled(&persistent), 0);
    test_verify(in[1], N, (uint32_t)(10 * other + 1));
    MPI_OK(MPI_Request_free(&persistent));
    /* Cancelled receives take nothing from those that come after. */
    MPI_OK(MPI_Sendrecv(out[1], N, MPI_BYTE, other, 91, in[1], N, MPI_BYTE, other, 91, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE));
    test_verify(in[1], N, (uint32_t)(10 * other + 1));
    MPI_OK(MPI_Grequest_complete(general));
    CHECK_EQ(was_cancelled(&general), 1);
    CHECK_EQ(released, 1);

    MPI_Request take;
    int mine;
    MPI_OK(MPI_Irecv(in[2], N, MPI_BYTE, other, 2, MPI_COMM_WORLD, &take));
    mine = was_cancelled(&send);
    MPI_OK(MPI_Sendrecv(&mine, 1, MPI_INT, other, 3, &theirs, 1, MPI_INT, other, 3, MPI_COMM_WORLD,
                        MPI_STATUS_IGNORE));
    if (theirs) {
        MPI_OK(MPI_Cancel(&take));
        CHECK_EQ(was_cancelled(&take), 1);
    } else {
        CHECK_EQ(was_cancelled(&take), 0);
        CHECK(in[2][N - 1] == (char)test_byte((uint32_t)(10 * other + 2), N - 1),
              "the send that was not cancelled has not arrived");
    }
    for (int i = 0; i < N; i++)
        CHECK(never[i] == 0, "a cancelled receive has written byte %d", i);
    return test_finish("cancelled");
}
