//#Ranks: 2
//#Cut: hold
//#Shows: one array with requests of every kind (done, arriving, not yet sent, sends, null, inactive, persistent, collective, generalized) cut before each way of completing it
//#Variant: wait
//#Variant: waitall; matrix=full
//#Variant: waitany; matrix=full
//#Variant: waitsome; matrix=full
//#Variant: test
//#Variant: testall
//#Variant: testany
//#Variant: testsome
//#Variant: get_status
#include "../stasis_test.h"

enum { SMALL = 300, BIG = 300000 };
enum { EARLY, LARGE, LATE, EAGER, RENDEZVOUS, NOTHING, PERSISTENT, INACTIVE, COLLECTIVE, GENERAL, NOBODY, EMPTY, ALL };

static MPI_Request requests[ALL];
static int done[ALL], other;

static int query(void *extra, MPI_Status *status)
{
    MPI_Status_set_elements(status, MPI_BYTE, *(int *)extra);
    MPI_Status_set_cancelled(status, 0);
    status->MPI_SOURCE = 3;
    status->MPI_TAG = 4;
    return MPI_SUCCESS;
}

static int nothing(void *extra)
{
    (void)extra;
    return MPI_SUCCESS;
}

static int no_cancel(void *extra, int complete)
{
    (void)extra;
    (void)complete;
    return MPI_SUCCESS;
}

/* Request `i` was reported complete with this status, for the first time. */
static void complete(int i, const MPI_Status *status)
{
    static const int source[ALL] = {[EARLY] = 1, [LARGE] = 1, [LATE] = 1, [PERSISTENT] = 1, [EMPTY] = 1};
    static const int sizes[ALL] = {[EARLY] = SMALL, [LARGE] = BIG, [LATE] = SMALL, [PERSISTENT] = BIG};
    int count = -1;
    CHECK(i >= 0 && i < ALL, "index %d", i);
    CHECK(!done[i], "request %d completed twice", i);
    done[i] = 1;
    if (i == PERSISTENT || i == INACTIVE)
        CHECK(requests[i] != MPI_REQUEST_NULL, "a persistent request has gone");
    else
        CHECK(requests[i] == MPI_REQUEST_NULL, "request %d is still there", i);
    MPI_OK(MPI_Get_count(status, MPI_BYTE, &count));
    if (source[i]) {
        CHECK_EQ(status->MPI_SOURCE, other);
        CHECK_EQ(status->MPI_TAG, i);
        CHECK_EQ(count, sizes[i]);
    } else if (i == NOBODY) {
        /* The status says MPI_PROC_NULL, but not natively under MPICH 4.0. */
        CHECK_EQ(count, 0);
    } else if (i == GENERAL) {
        CHECK(status->MPI_SOURCE == 3 && status->MPI_TAG == 4 && count == 17, "generalized: %d bytes", count);
    } else if (i == NOTHING || i == INACTIVE) {
        CHECK(status->MPI_SOURCE == MPI_ANY_SOURCE && count == 0, "not the empty status: %d bytes", count);
    }
}

static void complete_all(const char *how)
{
    MPI_Status status, statuses[ALL];
    int flag = 0, index, some, indices[ALL], left = ALL - 2;
    if (!strcmp(how, "wait")) {
        for (int i = ALL - 1; i >= 0; i--) {
            MPI_OK(MPI_Wait(&requests[i], &status));
            complete(i, &status);
        }
        return;
    }
    if (!strcmp(how, "test") || !strcmp(how, "get_status")) {
        for (left = ALL; left;)
            for (int i = 0; i < ALL; i++) {
                if (done[i])
                    continue;
                if (!strcmp(how, "get_status")) {
                    MPI_OK(MPI_Request_get_status(requests[i], &flag, &status));
                    if (!flag)
                        continue;
                }
                MPI_OK(MPI_Test(&requests[i], &flag, &status));
                if (flag) {
                    complete(i, &status);
                    left--;
                }
            }
        return;
    }
    if (!strcmp(how, "waitall") || !strcmp(how, "testall")) {
        if (!strcmp(how, "waitall"))
            MPI_OK(MPI_Waitall(ALL, requests, statuses));
        else
            while (!flag)
                MPI_OK(MPI_Testall(ALL, requests, &flag, statuses));
        for (int i = 0; i < ALL; i++)
            complete(i, &statuses[i]);
        return;
    }
    /* Null and inactive requests are passed over by the rest. */
    while (left) {
        if (!strcmp(how, "waitany") || !strcmp(how, "testany")) {
            if (!strcmp(how, "waitany"))
                MPI_OK(MPI_Waitany(ALL, requests, &index, &status));
            else
                for (flag = 0; !flag;)
                    MPI_OK(MPI_Testany(ALL, requests, &index, &flag, &status));
            complete(index, &status);
            left--;
        } else {
            if (!strcmp(how, "waitsome"))
                MPI_OK(MPI_Waitsome(ALL, requests, &some, indices, statuses));
            else
                for (some = 0; !some;)
                    MPI_OK(MPI_Testsome(ALL, requests, &some, indices, statuses));
            CHECK(some > 0 && some <= left, "%d completed", some);
            for (int i = 0; i < some; i++)
                complete(indices[i], &statuses[i]);
            left -= some;
        }
    }
    CHECK(!done[NOTHING] && !done[INACTIVE], "what was not active is complete");
    MPI_OK(MPI_Waitany(ALL, requests, &index, &status));
    CHECK_EQ(index, MPI_UNDEFINED);
    MPI_OK(MPI_Testsome(ALL, requests, &some, indices, statuses));
    CHECK_EQ(some, MPI_UNDEFINED);
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    CHECK(argc > 1, "which call?");
    other = 1 - test_rank;
    static char in[ALL][BIG], out[ALL][BIG];
    static const int sizes[ALL] = {SMALL, BIG, SMALL, SMALL, BIG, 0, BIG};
    int extra = 17;
    MPI_Comm dup;
    MPI_Request early[3], rest[2];
    for (int i = 0; i < ALL; i++)
        test_fill(out[i], sizes[i], (uint32_t)(20 * test_rank + i));
    MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &dup));
    MPI_OK(MPI_Irecv(in[EARLY], SMALL, MPI_BYTE, other, EARLY, MPI_COMM_WORLD, &requests[EARLY]));
    MPI_OK(MPI_Irecv(in[LARGE], BIG, MPI_BYTE, MPI_ANY_SOURCE, LARGE, MPI_COMM_WORLD, &requests[LARGE]));
    MPI_OK(MPI_Irecv(in[LATE], BIG, MPI_BYTE, other, LATE, MPI_COMM_WORLD, &requests[LATE]));
    MPI_OK(MPI_Isend(out[EAGER], SMALL, MPI_BYTE, other, EAGER, MPI_COMM_WORLD, &requests[EAGER]));
    MPI_OK(MPI_Isend(out[RENDEZVOUS], BIG, MPI_BYTE, other, RENDEZVOUS, MPI_COMM_WORLD, &requests[RENDEZVOUS]));
    requests[NOTHING] = MPI_REQUEST_NULL;
    MPI_OK(MPI_Recv_init(in[PERSISTENT], BIG, MPI_BYTE, MPI_ANY_SOURCE, PERSISTENT, dup, &requests[PERSISTENT]));
    MPI_OK(MPI_Start(&requests[PERSISTENT]));
    MPI_OK(MPI_Send_init(out[INACTIVE], SMALL, MPI_BYTE, other, INACTIVE, dup, &requests[INACTIVE]));
    MPI_OK(MPI_Ibarrier(dup, &requests[COLLECTIVE]));
    MPI_OK(MPI_Grequest_start(query, nothing, no_cancel, &extra, &requests[GENERAL]));
    MPI_OK(MPI_Irecv(in[NOBODY], SMALL, MPI_BYTE, MPI_PROC_NULL, 9, dup, &requests[NOBODY]));
    MPI_OK(MPI_Irecv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, EMPTY, dup, &requests[EMPTY]));
    MPI_OK(MPI_Isend(out[EARLY], SMALL, MPI_BYTE, other, EARLY, MPI_COMM_WORLD, &early[0]));
    MPI_OK(MPI_Isend(out[LARGE], BIG, MPI_BYTE, other, LARGE, MPI_COMM_WORLD, &early[1]));
    MPI_OK(MPI_Isend(NULL, 0, MPI_BYTE, other, EMPTY, dup, &early[2]));

    cut();

    MPI_OK(MPI_Irecv(in[EAGER], SMALL, MPI_BYTE, other, EAGER, MPI_COMM_WORLD, &rest[0]));
    MPI_OK(MPI_Irecv(in[RENDEZVOUS], BIG, MPI_BYTE, other, RENDEZVOUS, MPI_COMM_WORLD, &rest[1]));
    MPI_Request late[2];
    MPI_OK(MPI_Isend(out[LATE], SMALL, MPI_BYTE, other, LATE, MPI_COMM_WORLD, &late[0]));
    MPI_OK(MPI_Isend(out[PERSISTENT], BIG, MPI_BYTE, other, PERSISTENT, dup, &late[1]));
    MPI_OK(MPI_Grequest_complete(requests[GENERAL]));
    complete_all(argv[1]);
    MPI_OK(MPI_Waitall(2, rest, MPI_STATUSES_IGNORE));
    MPI_OK(MPI_Waitall(2, late, MPI_STATUSES_IGNORE));
    MPI_OK(MPI_Waitall(3, early, MPI_STATUSES_IGNORE));
    for (int i = 0; i < ALL; i++)
        test_verify(in[i], sizes[i], (uint32_t)(20 * other + i));
    MPI_OK(MPI_Request_free(&requests[PERSISTENT]));
    MPI_OK(MPI_Request_free(&requests[INACTIVE]));
    MPI_OK(MPI_Comm_free(&dup));
    return test_finish(argv[1]);
}
