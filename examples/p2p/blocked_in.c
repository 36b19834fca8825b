//#Ranks: 2
//#Shows: rank 0 blocked inside one MPI call at the cut, while rank 1 makes no call at all
//#Variant: recv; cut=hold; matrix=full
//#Variant: send; cut=hold
//#Variant: ssend; cut=hold
//#Variant: sendrecv; cut=hold
//#Variant: probe; cut=hold
//#Variant: mprobe; cut=hold
//#Variant: wait; cut=hold
//#Variant: waitall; cut=hold
//#Variant: waitany; cut=hold
//#Variant: waitsome; cut=hold
//#Variant: test; cut=hold
//#Variant: test_each; cut=hold
//#Variant: testany; cut=hold
//#Variant: testsome; cut=hold
//#Variant: get_status; cut=hold
//#Variant: wait_persistent; cut=hold
//#Variant: wait_mixed; cut=hold
//#Variant: sendrecv_replace; cut=hold
//#Variant: iprobe; cut=hold
//#Variant: improbe; cut=hold
//#Variant: barrier; cut=hold
//#Variant: allreduce; cut=hold
//#Variant: duplicate; cut=hold
//#Variant: own_operation; cut=pending
#include "../stasis_test.h"

enum { N = 500000, FEW = 4 };
static char out[N], in[FEW][N];

/* Whether the call is one that completes requests. */
static int completes(const char *how)
{
    return !strncmp(how, "wait", 4) || !strncmp(how, "test", 4) || !strcmp(how, "get_status");
}

static void add(void *from, void *to, int *length, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *length; i++)
        ((int *)to)[i] += ((int *)from)[i];
}

/* A reduction whose function might have effects, so that it is not made again after a restart. */
static void reduce_by_own_operation(void)
{
    int one = 1, sum = 0;
    MPI_Op op;
    MPI_OK(MPI_Op_create(add, 1, &op));
    MPI_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, op, MPI_COMM_WORLD));
    MPI_OK(MPI_Op_free(&op));
    CHECK_EQ(sum, 2);
}

/* How many messages rank 0 gets. */
static int expected(const char *how)
{
    if (!strcmp(how, "send") || !strcmp(how, "ssend") || !strcmp(how, "barrier") || !strcmp(how, "allreduce") ||
        !strcmp(how, "duplicate") || !strcmp(how, "own_operation"))
        return 0;
    return completes(how) ? FEW : 1;
}

/* The side that blocks. */
static void rank0(const char *how)
{
    MPI_Status status;
    MPI_Request requests[FEW];
    int index, outcount, indices[FEW], seen = 0;

    test_fill(out, N, 1);
    for (int i = 0; i < expected(how); i++)
        if (!strcmp(how, "wait_persistent")) {
            MPI_OK(MPI_Recv_init(in[i], N, MPI_BYTE, MPI_ANY_SOURCE, i, MPI_COMM_WORLD, &requests[i]));
            MPI_OK(MPI_Start(&requests[i]));
        } else if (completes(how)) {
            MPI_OK(MPI_Irecv(in[i], N, MPI_BYTE, 1, i, MPI_COMM_WORLD, &requests[i]));
        }
    cut_announce();
    if (!strcmp(how, "recv")) {
        MPI_OK(MPI_Recv(in[0], N, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &status));
    } else if (!strcmp(how, "send")) {
        MPI_OK(MPI_Send(out, N, MPI_BYTE, 1, 9, MPI_COMM_WORLD));
    } else if (!strcmp(how, "ssend")) {
        MPI_OK(MPI_Ssend(out, 8, MPI_BYTE, 1, 9, MPI_COMM_WORLD));
    } else if (!strcmp(how, "sendrecv")) {
        MPI_OK(MPI_Sendrecv(out, N, MPI_BYTE, 1, 9, in[0], N, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &status));
    } else if (!strcmp(how, "probe")) {
        MPI_OK(MPI_Probe(1, MPI_ANY_TAG, MPI_COMM_WORLD, &status));
        CHECK_EQ(status.MPI_TAG, 0);
        MPI_OK(MPI_Recv(in[0], N, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &status));
    } else if (!strcmp(how, "mprobe")) {
        MPI_Message message;
        MPI_OK(MPI_Mprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &message, &status));
        MPI_OK(MPI_Mrecv(in[0], N, MPI_BYTE, &message, &status));
        CHECK(message == MPI_MESSAGE_NULL, "the message handle is still there");
    } else if (!strcmp(how, "wait")) {
        for (int i = 0; i < FEW; i++) {
            MPI_OK(MPI_Wait(&requests[i], &status));
            CHECK_EQ(status.MPI_TAG, i);
        }
    } else if (!strcmp(how, "waitall")) {
        MPI_Status statuses[FEW];
        MPI_OK(MPI_Waitall(FEW, requests, statuses));
        for (int i = 0; i < FEW; i++)
            CHECK_EQ(statuses[i].MPI_TAG, i);
    } else if (!strcmp(how, "waitany")) {
        for (int i = 0; i < FEW; i++) {
            MPI_OK(MPI_Waitany(FEW, requests, &index, &status));
            CHECK_EQ(status.MPI_TAG, index);
            CHECK(requests[index] == MPI_REQUEST_NULL, "request %d is still there", index);
            seen |= 1 << index;
        }
        MPI_OK(MPI_Waitany(FEW, requests, &index, &status));
        CHECK_EQ(index, MPI_UNDEFINED);
        CHECK_EQ(seen, 15);
    } else if (!strcmp(how, "waitsome")) {
        MPI_Status statuses[FEW];
        while (seen != 15) {
            MPI_OK(MPI_Waitsome(FEW, requests, &outcount, indices, statuses));
            for (int i = 0; i < outcount; i++) {
                CHECK_EQ(statuses[i].MPI_TAG, indices[i]);
                seen |= 1 << indices[i];
            }
        }
        MPI_OK(MPI_Waitsome(FEW, requests, &outcount, indices, statuses));
        CHECK_EQ(outcount, MPI_UNDEFINED);
    } else if (!strcmp(how, "test")) {
        for (int all = 0; !all;)
            MPI_OK(MPI_Testall(FEW, requests, &all, MPI_STATUSES_IGNORE));
    } else if (!strcmp(how, "test_each")) {
        for (int i = 0; i < FEW; i++) {
            for (int flag = 0; !flag;)
                MPI_OK(MPI_Test(&requests[i], &flag, &status));
            CHECK_EQ(status.MPI_TAG, i);
        }
    } else if (!strcmp(how, "testany")) {
        for (int flag = 0; seen != 15; flag = 0) {
            while (!flag)
                MPI_OK(MPI_Testany(FEW, requests, &index, &flag, &status));
            CHECK_EQ(status.MPI_TAG, index);
            seen |= 1 << index;
        }
    } else if (!strcmp(how, "testsome")) {
        while (seen != 15) {
            MPI_OK(MPI_Testsome(FEW, requests, &outcount, indices, MPI_STATUSES_IGNORE));
            for (int i = 0; i < outcount; i++)
                seen |= 1 << indices[i];
        }
    } else if (!strcmp(how, "get_status")) {
        for (int i = 0; i < FEW; i++) {
            for (int flag = 0; !flag;)
                MPI_OK(MPI_Request_get_status(requests[i], &flag, &status));
            CHECK_EQ(status.MPI_TAG, i);
            MPI_OK(MPI_Wait(&requests[i], MPI_STATUS_IGNORE));
        }
    } else if (!strcmp(how, "wait_persistent")) {
        for (int i = 0; i < FEW; i++) {
            MPI_OK(MPI_Waitany(FEW, requests, &index, &status));
            CHECK_EQ(status.MPI_TAG, index);
            CHECK(requests[index] != MPI_REQUEST_NULL, "persistent request %d has gone", index);
        }
        for (int i = 0; i < FEW; i++)
            MPI_OK(MPI_Request_free(&requests[i]));
    } else if (!strcmp(how, "wait_mixed")) {
        MPI_Request mixed[] = {MPI_REQUEST_NULL, requests[3], requests[0], requests[2], MPI_REQUEST_NULL, requests[1]};
        MPI_OK(MPI_Isend(out, N, MPI_BYTE, 1, 9, MPI_COMM_WORLD, &mixed[4]));
        MPI_OK(MPI_Waitall(6, mixed, MPI_STATUSES_IGNORE));
    } else if (!strcmp(how, "sendrecv_replace")) {
        memcpy(in[0], out, N);
        MPI_OK(MPI_Sendrecv_replace(in[0], N, MPI_BYTE, 1, 9, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &status));
        CHECK_EQ(status.MPI_SOURCE, 1);
    } else if (!strcmp(how, "iprobe")) {
        for (int flag = 0; !flag;)
            MPI_OK(MPI_Iprobe(1, 0, MPI_COMM_WORLD, &flag, &status));
        MPI_OK(MPI_Recv(in[0], N, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &status));
    } else if (!strcmp(how, "improbe")) {
        MPI_Message message;
        for (int flag = 0; !flag;)
            MPI_OK(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status));
        MPI_OK(MPI_Mrecv(in[0], N, MPI_BYTE, &message, &status));
    } else if (!strcmp(how, "barrier")) {
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    } else if (!strcmp(how, "allreduce")) {
        int one = 1, sum = 0;
        MPI_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK_EQ(sum, 2);
    } else if (!strcmp(how, "duplicate")) {
        MPI_Comm comm;
        MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        MPI_OK(MPI_Comm_free(&comm));
    } else if (!strcmp(how, "own_operation")) {
        reduce_by_own_operation();
    } else {
        CHECK(0, "no variant %s", how);
    }
}

/* The side that is nowhere in MPI when the checkpoint is asked for. */
static void rank1(const char *how)
{
    cut();
    if (!strcmp(how, "send") || !strcmp(how, "ssend") || !strncmp(how, "sendrecv", 8) || !strcmp(how, "wait_mixed")) {
        int n = !strcmp(how, "ssend") ? 8 : N;
        MPI_OK(MPI_Recv(in[0], n, MPI_BYTE, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        test_verify(in[0], n, 1);
    }
    if (!strcmp(how, "barrier"))
        MPI_OK(MPI_Barrier(MPI_COMM_WORLD));
    if (!strcmp(how, "allreduce")) {
        int one = 1, sum = 0;
        MPI_OK(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        CHECK_EQ(sum, 2);
    }
    if (!strcmp(how, "duplicate")) {
        MPI_Comm comm;
        MPI_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
        MPI_OK(MPI_Comm_free(&comm));
    }
    if (!strcmp(how, "own_operation"))
        reduce_by_own_operation();
    for (int i = expected(how) - 1; i >= 0; i--) {
        test_fill(out, N, (uint32_t)(50 + i));
        MPI_OK(MPI_Send(out, N, MPI_BYTE, 0, i, MPI_COMM_WORLD));
    }
}

int main(int argc, char **argv)
{
    test_start(&argc, &argv);
    CHECK(argc > 1, "which call?");
    const char *how = argv[1];
    if (test_rank == 0) {
        rank0(how);
        for (int i = 0; i < expected(how); i++)
            test_verify(in[i], N, (uint32_t)(50 + i));
    } else {
        rank1(how);
    }
    return test_finish(how);
}
