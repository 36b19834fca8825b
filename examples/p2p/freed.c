//#Ranks: 2
//#Cut: hold
//#Shows: requests freed while their operation is active at the cut, and with them the datatype and the communicator: receives, sends, persistent, generalized
#include "../stasis_test.h"

enum { N = 120000, PAIRS = 5000 };
static int queried, released;

static int query(void *extra, MPI_Status *status)
{
    (void)extra;
    (void)status;
    queried++;
    return MPI_SUCCESS;
}

static int release(void *extra)
{
    CHECK(extra == &released, "another extra state");
    released++;
    return MPI_SUCCESS;
}

static int no_cancel(void *extra, int complete)
{
    (void)extra;
    (void)complete;
    return MPI_SUCCESS;
}

/* Looks for what has arrived. (MPICH helps nobody along in a probe on MPI_COMM_SELF.) */
static void look(void)
{
    int flag;
    MPI_OK(MPI_Iprobe(MPI_ANY_SOURCE, 99, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE));
}

/* Nothing tells when a freed receive is complete: its last byte does. */
static void arrived(const volatile char *last, char expected)
{
    while (*last != expected)
        look();
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    int other = 1 - test_rank;
    static char out[4][N], early[N], late[N], kept[N], synchronous[N];
    static int pairs[2 * PAIRS], sent[PAIRS], scattered[2 * PAIRS];
    MPI_Comm dup;
    MPI_Datatype every_other;
    MPI_Request request;
    for (int m = 0; m < 4; m++)
        test_fill(out[m], N, (uint32_t)(10 * test_rank + m));
    for (int m = 0; m < PAIRS; m++)
        sent[m] = 1000000 * test_rank + m;
    char ends[4];
    for (int m = 0; m < 4; m++) {
        ends[m] = (char)test_byte((uint32_t)(10 * other + m), N - 1);
        CHECK(ends[m] != 0, "choose another seed for message %d", m);
    }
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    MPI_OK(MPI_Type_vector(PAIRS, 1, 2, MPI_INT, &every_other));
    MPI_OK(MPI_Type_commit(&every_other));

    /* Receives: one that is sent to before the cut, one after; one whose datatype and communicator are
     * freed too. */
    MPI_OK(MPI_Irecv(early, N, MPI_BYTE, other, 0, MPI_COMM_WORLD, &request));
    MPI_OK(MPI_Request_free(&request));
    CHECK(request == MPI_REQUEST_NULL, "not freed");
    MPI_OK(MPI_Irecv(late, N, MPI_BYTE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &request));
    MPI_OK(MPI_Request_free(&request));
    MPI_OK(MPI_Irecv(scattered, 1, every_other, other, 2, dup, &request));
    MPI_OK(MPI_Request_free(&request));
    /* An active persistent receive, and a persistent synchronous send. */
    MPI_OK(MPI_Recv_init(kept, N, MPI_BYTE, other, 3, dup, &request));
    MPI_OK(MPI_Start(&request));
    MPI_OK(MPI_Request_free(&request));
    MPI_OK(MPI_Ssend_init(out[2], N, MPI_BYTE, other, 4, MPI_COMM_WORLD, &request));
    MPI_OK(MPI_Start(&request));
    MPI_OK(MPI_Request_free(&request));
    MPI_OK(MPI_Isend(out[0], N, MPI_BYTE, other, 0, MPI_COMM_WORLD, &request));
    MPI_OK(MPI_Request_free(&request));
    MPI_OK(MPI_Isend(sent, PAIRS, MPI_INT, other, 2, dup, &request));
    MPI_OK(MPI_Request_free(&request));
    MPI_Request general, handle;
    MPI_OK(MPI_Grequest_start(query, release, no_cancel, &released, &general));
    handle = general;
    MPI_OK(MPI_Request_free(&handle));
    MPI_OK(MPI_Type_free(&every_other));

    cut();

    MPI_OK(MPI_Send(out[1], N, MPI_BYTE, other, 1, MPI_COMM_WORLD));
    MPI_OK(MPI_Send(out[3], N, MPI_BYTE, other, 3, dup));
    MPI_OK(MPI_Recv(synchronous, N, MPI_BYTE, other, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    test_verify(synchronous, N, (uint32_t)(10 * other + 2));
    arrived(&early[N - 1], ends[0]);
    arrived(&late[N - 1], ends[1]);
    arrived(&kept[N - 1], ends[3]);
    for (const volatile int *last = &scattered[2 * (PAIRS - 1)]; *last != 1000000 * other + PAIRS - 1;)
        look();
    MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    MPI_OK(MPI_Comm_free(&dup));
    MPI_OK(MPI_Grequest_complete(general));
    /* MPICH releases it already when it is freed. */
    CHECK(released == 1 && queried <= 1, "freed %d times, queried %d times", released, queried);
    test_verify(early, N, (uint32_t)(10 * other));
    test_verify(late, N, (uint32_t)(10 * other + 1));
    test_verify(kept, N, (uint32_t)(10 * other + 3));
    for (int m = 0; m < PAIRS; m++)
        pairs[2 * m] = 1000000 * other + m;
    CHECK(memcmp(scattered, pairs, sizeof pairs) == 0, "what the datatype leaves out was written to");
    return test_finish("freed");
}
